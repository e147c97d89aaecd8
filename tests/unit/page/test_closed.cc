/* SPDX-License-Identifier: MIT */
/*
 * core/page/pagemap.c: what is handed out is open, and the heap is closed behind it (OPEN-1,
 * OPEN-2).
 */
#include <cerrno>
#include <gtest/gtest.h>
#include <string>
#include <sys/mman.h>
#include <sys/resource.h>
#include <vector>

#include "harness.h"
#include "start.h"

namespace {

const size_t MiB = 1ul << 20, GiB = 1ul << 30;
long answer;	/* of os_protect(): 0: the kernel's own */
unsigned long nr_asked;

} /* namespace */

extern "C" {

int __real_os_protect(void *start, size_t bytes, bool is_open);

/* os_protect() of this program, by the linker's --wrap. */
int __wrap_os_protect(void *start, size_t bytes, bool is_open)
{
	nr_asked++;
	return answer ? (int)answer : __real_os_protect(start, bytes, is_open);
}

}

namespace {

/* May the byte be written?  The kernel is asked, who says no where the program would be ended. */
bool is_open(const void *at)
{
	int ends[2];
	bool can;

	EXPECT_EQ(pipe(ends), 0);
	EXPECT_EQ(write(ends[1], "A", 1), 1);
	can = read(ends[0], const_cast<void *>(at), 1) == 1;
	EXPECT_TRUE(can || errno == EFAULT);
	close(ends[0]);
	close(ends[1]);
	return can;
}

/* How far the heap is open. */
size_t open_bytes()
{
	size_t at = 0;

	while (at < pagemap_committed() && is_open((char *)heap_start + at))
		at += 65536;
	return at;
}

char *take(uint32_t order)
{
	bool is_zero;
	char *block = (char *)zone_alloc(order, 0, &is_zero);

	if (block)
		block[0] = block[(PAGE_BYTES << order) - 1] = 1;
	return block;
}

/* A small heap is open in steps of 256 KiB, so 1 MiB behind a block of it nothing is. */
TEST(closed, a_small_heap_ends_behind_its_blocks)
{
	auto body = [] {
		start::page(GiB, GiB);
		for (int i = 0; i < 60; i++) {
			char *block = take(0);

			ASSERT_NE(block, nullptr);
			EXPECT_FALSE(is_open(block + MiB)) << i;
		}
		EXPECT_EQ(open_bytes(), 256ul << 10);
		ASSERT_NE(take(6), nullptr);
		EXPECT_EQ(open_bytes(), 512ul << 10);
		EXPECT_GE(pagemap_committed(), 2 * MiB);
	};
	EXPECT_EQ(harness::in_child(body), 0);
}

/* All of a heap that grows can be written to, and few calls open it. */
TEST(closed, a_large_heap_opens_by_few_calls)
{
	auto body = [] {
		std::vector<char *> blocks;

		start::page(GiB, GiB);
		nr_asked = 0;
		for (size_t bytes = 0; bytes < 256 * MiB; bytes += PAGE_BYTES << 8)
			blocks.push_back(take(8));
		EXPECT_LE(nr_asked, 50u);
		for (char *block : blocks)
			zone_free(block, 8, 0, true);
		/* Idle superblocks go back, the first one among them, and come again. */
		page_purge_all();
		for (int i = 0; i < 300; i++)
			ASSERT_NE(take(8), nullptr);
	};
	EXPECT_EQ(harness::in_child(body), 0);
}

/* Runs are open as a whole, and what lies in front of them. */
TEST(closed, runs_are_open)
{
	auto body = [] {
		bool is_zero;
		char *run;

		start::page(GiB, GiB);
		run = superblock_alloc(3, 1, 0, false, &is_zero);
		ASSERT_NE(run, nullptr);
		memset(run, 1, 3 * SUPERBLOCK_BYTES);
		ASSERT_TRUE(superblock_extend(run, 3, 20));
		memset(run, 1, 23 * SUPERBLOCK_BYTES);
		for (int i = 0; i < 20; i++)
			ASSERT_NE(take(8), nullptr);
	};
	EXPECT_EQ(harness::in_child(body), 0);
}

/* What the program has mapped in the middle of the heap stays as it is. */
TEST(closed, a_strangers_pages_are_not_opened)
{
	auto body = [] {
		size_t at = 40 * MiB;
		char *theirs;

		start::page(GiB, GiB);
		theirs = (char *)mmap((char *)heap_start + at, 4096, PROT_NONE,
				      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
		ASSERT_EQ(theirs, (char *)heap_start + at);
		for (size_t bytes = 0; bytes < 200 * MiB; bytes += PAGE_BYTES << 8)
			ASSERT_NE(take(8), nullptr);
		EXPECT_FALSE(is_open(theirs));
	};
	EXPECT_EQ(harness::in_child(body), 0);
}

/* The kernel has no memory for more: the request fails, and a later one does not. */
TEST(closed, a_refusal_is_no_memory)
{
	auto body = [] {
		bool is_zero;
		char *first;

		start::page(GiB, GiB);
		first = take(0);
		ASSERT_NE(first, nullptr);
		answer = -ENOMEM;
		EXPECT_EQ(take(7), nullptr);
		EXPECT_EQ(superblock_alloc(2, 1, 0, false, &is_zero), nullptr);
		EXPECT_FALSE(superblock_extend((char *)heap_start, 1, 1));
		for (int i = 0; i < 63; i++)
			EXPECT_NE(take(0), nullptr) << "what is open";
		answer = 0;
		EXPECT_NE(take(7), nullptr);
		EXPECT_NE(superblock_alloc(2, 1, 0, false, &is_zero), nullptr);
	};
	EXPECT_EQ(harness::in_child(body), 0);
}

/* A filter that came late refuses the call: the heap is mapped instead. */
TEST(closed, a_filter_may_refuse_the_call)
{
	auto body = [] {
		start::page(GiB, GiB);
		answer = -EPERM;
		for (size_t bytes = 0; bytes < 32 * MiB; bytes += PAGE_BYTES << 8)
			ASSERT_NE(take(8), nullptr);
	};
	EXPECT_EQ(harness::in_child(body), 0);
}

/* The limit on data leaves less than a step: blocks are had to the end of it. */
TEST(closed, a_limit_on_data_is_used_up)
{
	auto body = [] {
		struct rlimit limit;
		size_t n = 0;

		start::page(GiB, GiB);
		ASSERT_NE(take(0), nullptr);
		limit.rlim_cur = limit.rlim_max = 0;
		ASSERT_EQ(setrlimit(RLIMIT_DATA, &limit), 0);
		while (take(0))
			n++;
		EXPECT_EQ(n, 63u);
	};
	EXPECT_EQ(harness::in_child(body), 0);
}

} /* namespace */
