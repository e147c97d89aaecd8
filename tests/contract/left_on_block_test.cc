/* SPDX-License-Identifier: MIT */
/*
 * Promise: what a program leaves on a block of 128 KiB or more, whose address it asked for by the
 * page, is gone when the block is free: as under the C library, which unmaps such a block.
 */
#include <cstring>
#include <gtest/gtest.h>
#include <malloc.h>
#include <string>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#include <vector>

#include "harness.h"

namespace {

const size_t page = 4096;

struct left {
	const char *name;
	int (*leave)(void *, size_t);
};

const left lefts[] = {
	{"MADV_DONTFORK", [](void *p, size_t n) { return madvise(p, n, MADV_DONTFORK); }},
	{"MADV_WIPEONFORK", [](void *p, size_t n) { return madvise(p, n, MADV_WIPEONFORK); }},
	{"read only", [](void *p, size_t n) { return mprotect(p, n, PROT_READ); }},
	{"a closed page", [](void *p, size_t) { return mprotect(p, page, PROT_NONE); }},
	{"mlock", [](void *p, size_t n) { return mlock(p, n); }},
	{"a locked page", [](void *p, size_t) { return mlock(p, page); }},
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
	std::vector<std::pair<void *, size_t>> blocks;

	for (size_t i = 0; i < 1000; i++)
		blocks.emplace_back(malloc(100 + i % 50 * 500), 100 + i % 50 * 500);
	for (size_t i = 0; i < 20; i++)
		blocks.emplace_back(malloc(bytes), bytes);
	for (auto &[block, n] : blocks)
		memset(block, 0x5a, n);
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
	return status;
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

TEST(LeftOnBlock, IsGoneAtItsFree)
{
	if (harness::is_emulated())
		GTEST_SKIP() << "what is left is the emulator's";
	for (size_t bytes : {size_t{200} << 10, size_t{256} << 10, size_t{1} << 20, size_t{4} << 20,
			     size_t{40} << 20}) {
		for (const left &left : lefts) {
			int status = harness::in_child([&] { leave_and_use(left, bytes); });

			if (harness::describe_status(status) == "exit 77")
				continue;	/* RLIMIT_MEMLOCK */
			EXPECT_EQ(harness::describe_status(status), "exit 0")
				<< left.name << " on " << bytes;
		}
	}
}

/* A loop pays for it once: its memory stays, as it would without. */
TEST(LeftOnBlock, ALoopKeepsItsMemory)
{
	const size_t bytes = 512 << 10;
	long faults = 0;

	for (int i = 0; i < 50; i++) {
		void *block = nullptr;
		long before = minor_faults();

		ASSERT_EQ(posix_memalign(&block, page, bytes), 0);
		memset(block, 1, bytes);
		free(block);
		if (i >= 2)
			faults += minor_faults() - before;
	}
	/* 128 pages each time otherwise. */
	EXPECT_LT(faults, 128 * 10);
}
