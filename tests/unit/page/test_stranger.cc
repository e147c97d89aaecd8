/* SPDX-License-Identifier: MIT */
/* Somebody maps memory where the heap is to grow, at an address of his own choice. */
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <vector>

#include "harness.h"
#include "giving.h"
#include "start.h"

namespace {

const size_t MiB = 1ul << 20, heap_bytes = 64 * MiB, bytes = 65536;

char *map_theirs(size_t at)
{
	char *want = (char *)heap_start + at;
	void *got = mmap(want, bytes, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	EXPECT_EQ(got, want);
	harness::fill(want, bytes, at);
	return want;
}

TEST(stranger, heap_goes_on_behind_what_is_his)
{
	if (SLUB_CONFIG_HARDENED)
		GTEST_SKIP() << "the block lies behind a fence, and waits before it goes";
	const size_t places[] = { 5 * MiB, 6 * MiB, 22 * MiB - bytes, 48 * MiB };
	std::vector<char *> blocks;
	bool is_zero;

	start::page(heap_bytes, 1ul << 40);
	for (size_t at : places)
		map_theirs(at);
	/* More than fits before any of them but the last two. */
	auto *run = (char *)large_alloc(7 * MiB, PAGE_BYTES, &is_zero);
	ASSERT_EQ(run, (char *)heap_start + 8 * MiB);
	harness::fill(run, 7 * MiB, 1);
	while (char *block = superblock_alloc(1, 1, 0, false, &is_zero)) {
		EXPECT_TRUE(is_zero);
		harness::fill(block, SUPERBLOCK_BYTES, 2);
		blocks.push_back(block);
	}
	/* 32 there are, four have the run, and in four is something of somebody's. */
	EXPECT_EQ(blocks.size(), 32u - 4 - 4);
	EXPECT_TRUE(harness::intact(run, 7 * MiB, 1));
	for (size_t at : places) {
		char *theirs = (char *)heap_start + at;

		EXPECT_TRUE(harness::intact(theirs, bytes, at)) << at;
		EXPECT_EQ(pagemap_get(theirs), (uint32_t)MAP_NONE);
		EXPECT_EQ(page_type(page_of(theirs)), TYPE_NONE);
		EXPECT_EQ(munmap(theirs, bytes), 0);
	}
	EXPECT_EQ(superblock_nr_used(), 28u);
	/* What was his is lost, and all others come back. */
	for (char *block : blocks)
		superblock_free(block, 1, true);
	large_free(run);
	EXPECT_EQ(superblock_nr_used(), 0u);
	purge_superblocks(0);
}

} /* namespace */
