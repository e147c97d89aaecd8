/* SPDX-License-Identifier: MIT */
/* core/os/sandbox.c and core/os/tcb.c: what is known without asking the kernel for it. */
#include <dlfcn.h>
#include <fstream>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

#include "harness.h"
#include "slub.h"

namespace {

/* Before the other tests, which start threads.  glibc says how many there are from 2.32 on. */
TEST(alone, until_there_is_a_thread)
{
	os_alone_find();
	if (dlsym(RTLD_DEFAULT, "__libc_single_threaded"))
		EXPECT_TRUE(os_is_alone());
	else
		EXPECT_FALSE(os_is_alone()) << "nothing is known";
	std::thread([] { EXPECT_FALSE(os_is_alone()); }).join();
}

class sandbox : public testing::Test {
protected:
	void SetUp() override
	{
		int fd = mkstemp(path);

		ASSERT_GE(fd, 0);
		close(fd);
	}
	void TearDown() override
	{
		unlink(path);
		os_is_filtered = false;
	}
	bool is_filtered(const char *text)
	{
		std::ofstream(path) << text;
		os_sandbox_read(path);
		return os_is_filtered;
	}
	char path[32] = "/tmp/slub-sandbox-XXXXXX";
};

TEST_F(sandbox, the_file_says_whether_there_is_a_filter)
{
	EXPECT_TRUE(is_filtered("Name:\tx\nPid:\t77\nSeccomp:\t2\nSeccomp_filters:\t1\n"));
	EXPECT_EQ(os_sandbox_pid(), 77u);
	EXPECT_FALSE(is_filtered("Name:\tx\nPid:\t77\nSeccomp:\t0\nSeccomp_filters:\t0\n"));
	EXPECT_EQ(os_sandbox_pid(), (uint32_t)getpid());
	EXPECT_FALSE(is_filtered("Name:\tSeccomp:\t2\nSeccomp:\t1\n"));
	EXPECT_FALSE(is_filtered(""));
	os_sandbox_read("/nowhere/status");
	EXPECT_FALSE(os_is_filtered);
}

TEST_F(sandbox, under_a_filter_files_say_what_a_call_would)
{
	struct os_limits called, read;

	os_limits_read(&called);
	os_is_filtered = true;
	os_limits_read(&read);
	/* A page of the machine's more or less. */
	EXPECT_NEAR((double)read.memory_bytes, (double)called.memory_bytes, 1 << 20);
	EXPECT_EQ(read.address_bytes, called.address_bytes);
	EXPECT_TRUE(os_membarrier_register());
}

TEST(tcb, threads_are_numbered_as_the_kernel_does)
{
	std::thread([] { os_thread_id_find((uint32_t)syscall(SYS_gettid)); }).join();
	os_thread_id_find((uint32_t)getpid());
	EXPECT_EQ(os_thread_id(), (uint32_t)getpid());
	std::thread([] { EXPECT_EQ(os_thread_id(), (uint32_t)syscall(SYS_gettid)); }).join();
	EXPECT_EQ(harness::in_child([] {
		_exit(os_thread_id() == (uint32_t)getpid() ? 0 : 1);
	}), 0);
}

TEST(tcb, the_stack_of_a_thread_is_known_or_nothing_is)
{
	uintptr_t low, high;

	EXPECT_FALSE(os_thread_stack(&low, &high)) << "the first thread's is nobody's block";
	std::thread([] {
		uintptr_t here = (uintptr_t)__builtin_frame_address(0), from, to;

		if (!os_thread_stack(&from, &to))
			return;
		EXPECT_LT(from, here);
		EXPECT_GT(to, here);
		EXPECT_TRUE(os_is_readable((void *)(here & ~4095ul), 4096));
	}).join();
}

TEST(readable, as_far_as_pages_can_be_read)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *pages = (char *)mmap(nullptr, 3 * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS,
				   -1, 0);

	ASSERT_NE(pages, MAP_FAILED);
	EXPECT_TRUE(os_is_readable(pages, 3 * page));
	mprotect(pages + 2 * page, page, PROT_NONE);
	EXPECT_TRUE(os_is_readable(pages, 2 * page));
	EXPECT_FALSE(os_is_readable(pages, 3 * page));
	munmap(pages + page, page);
	EXPECT_TRUE(os_is_readable(pages, page));
	EXPECT_FALSE(os_is_readable(pages, 2 * page));
	munmap(pages, page);
}

} /* namespace */
