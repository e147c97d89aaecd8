/* SPDX-License-Identifier: MIT */
/*
 * Promise: what a program leaves on a block of 128 KiB or more, whose address it asked for by the
 * page, is gone when the block is free: as under the C library, which unmaps such a block.
 */
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/userfaultfd.h>
#include <malloc.h>
#include <string>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>

#include "harness.h"

namespace {

const size_t page = 4096;
const size_t sizes[] = {200 << 10, 1 << 20, 4 << 20, 40 << 20};

/* A descriptor of this process's own, which stays open; -1: none is allowed. */
int fault_descriptor()
{
	static int fd = -1;

	if (fd >= 0)
		return fd;
#ifdef USERFAULTFD_IOC_NEW
	int device = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);

	if (device >= 0) {
		fd = ioctl(device, USERFAULTFD_IOC_NEW, O_CLOEXEC | UFFD_USER_MODE_ONLY);
		close(device);
	}
#endif
	if (fd < 0)
		fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
	uffdio_api api = {};

	api.api = UFFD_API;
	if (fd >= 0 && ioctl(fd, UFFDIO_API, &api) != 0)
		return -1;
	return fd;
}

/* Nobody answers: who touches a page of it that is not there waits for ever. */
int leave_descriptor(void *block, size_t bytes)
{
	uffdio_register range = {};

	range.range.start = reinterpret_cast<uintptr_t>(block);
	range.range.len = bytes;
	range.mode = UFFDIO_REGISTER_MODE_MISSING;
	return fault_descriptor() < 0 ? -1 : ioctl(fault_descriptor(), UFFDIO_REGISTER, &range);
}

const int policy_bind = 2, policy_of_address = 2;

int leave_policy(void *block, size_t bytes)
{
	unsigned long node_0 = 1;

	return (int)syscall(SYS_mbind, block, bytes, policy_bind, &node_0, 8 * sizeof(node_0), 0);
}

/* Is memory there bound?  Not whether it is preferred, as the library's own may be. */
bool is_bound(const void *block)
{
	int policy = 0;

	return syscall(SYS_get_mempolicy, &policy, nullptr, 0, block, policy_of_address) == 0 &&
	       policy == policy_bind;
}

/* No thread may touch it but who sets his rights so. */
int leave_key(void *block, size_t bytes)
{
	static int key = pkey_alloc(0, PKEY_DISABLE_ACCESS);

	return key < 0 ? -1 : pkey_mprotect(block, bytes, PROT_READ | PROT_WRITE, key);
}

struct left {
	const char *name;
	int (*leave)(void *, size_t);
};

const left lefts[] = {
	{"dontfork", [](void *p, size_t n) { return madvise(p, n, MADV_DONTFORK); }},
	{"wipeonfork", [](void *p, size_t n) { return madvise(p, n, MADV_WIPEONFORK); }},
	{"read_only", [](void *p, size_t n) { return mprotect(p, n, PROT_READ); }},
	{"a_closed_page", [](void *p, size_t) { return mprotect(p, page, PROT_NONE); }},
	{"mlock", [](void *p, size_t n) { return mlock(p, n); }},
	{"a_locked_page", [](void *p, size_t) { return mlock(p, page); }},
	{"userfaultfd", leave_descriptor},
	{"mbind", leave_policy},
	{"pkey", leave_key},
};

long minor_faults()
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_minflt;
}

size_t locked_kib()
{
	FILE *status = fopen("/proc/self/status", "re");
	char line[200];
	size_t kib = 0;

	while (status && fgets(line, sizeof(line), status))
		sscanf(line, "VmLck: %zu", &kib);
	if (status)
		fclose(status);
	return kib;
}

/* Small and large blocks, written to here and read in a child: 0 if all is right. */
int use_what_was_freed(size_t bytes)
{
	bool bound = false;
	std::vector<std::pair<void *, size_t>> blocks;

	for (size_t i = 0; i < 1000; i++)
		blocks.emplace_back(malloc(100 + i % 50 * 500), 100 + i % 50 * 500);
	/* More than were left, and not a gigabyte. */
	for (size_t i = 0; i < (bytes > 4 << 20 ? 6 : 20); i++)
		blocks.emplace_back(malloc(bytes), bytes);
	for (auto &[block, n] : blocks) {
		memset(block, 0x5a, n);
		bound |= is_bound(block);
	}
	int status = harness::in_child([&] {
		for (auto &[block, n] : blocks) {
			for (size_t i = 0; i < n; i += 512) {
				if (static_cast<char *>(block)[i] != 0x5a)
					_exit(1);
			}
		}
		_exit(0);
	});
	for (auto &[block, n] : blocks)
		free(block);
	return bound ? -1 : status;
}

/* In a process that has freed nothing of the size yet. */
void leave_and_use(const left &left, size_t bytes)
{
	void *blocks[4];

	for (void *&block : blocks) {
		if (posix_memalign(&block, page, bytes))
			_exit(2);
		memset(block, 1, bytes);
		if (left.leave(block, bytes))
			_exit(77);
	}
	for (void *block : blocks)
		free(block);
	if (locked_kib())
		_exit(3);
	_exit(use_what_was_freed(bytes) ? 4 : 0);
}

} /* namespace */

class LeftOnBlock : public testing::TestWithParam<left> {};

TEST_P(LeftOnBlock, IsGoneAtItsFree)
{
	int skipped = 0;

	if (harness::is_emulated())
		GTEST_SKIP() << "what is left is the emulator's";
	for (size_t bytes : sizes) {
		int status = harness::in_child([&] { leave_and_use(GetParam(), bytes); });

		if (harness::describe_status(status) == "exit 77") {
			skipped++;
			continue;
		}
		EXPECT_EQ(harness::describe_status(status), "exit 0") << bytes;
	}
	/* RLIMIT_MEMLOCK, vm.unprivileged_userfaultfd, a sandbox; CPUs without keys. */
	if (skipped)
		GTEST_SKIP() << "the kernel refuses " << GetParam().name << " here";
}

INSTANTIATE_TEST_SUITE_P(, LeftOnBlock, testing::ValuesIn(lefts),
			 [](const auto &info) { return std::string(info.param.name); });

/* A loop pays for it once: its memory stays, as it would without. */
TEST(LeftOnBlocks, ALoopKeepsItsMemory)
{
	const size_t bytes = 512 << 10;
	auto loop = [] {
		long faults = 0;

		for (int i = 0; i < 50; i++) {
			void *block = nullptr;
			long before = minor_faults();

			if (posix_memalign(&block, page, bytes))
				_exit(2);
			memset(block, 1, bytes);
			free(block);
			if (i >= 2)
				faults += minor_faults() - before;
		}
		/* 128 pages each time otherwise. */
		_exit(faults < 128 * 10 ? 0 : 1);
	};

	/* In a child, so that this process has freed nothing of the size. */
	EXPECT_EQ(harness::describe_status(harness::in_child(loop)), "exit 0");
}
