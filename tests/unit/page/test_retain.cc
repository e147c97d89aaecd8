/* SPDX-License-Identifier: MIT */
/*
 * core/page/budget.c where SLUB_RETAIN is given: that much may lie idle, whatever the heap's size.
 */
#include <gtest/gtest.h>

#include <vector>

#include "run.h"

namespace {

const size_t MiB = 1ul << 20;
const size_t retain = 96 * MiB;

class given : public testing::Test {
protected:
	static void SetUpTestSuite()
	{
		start::once([] { start::page(1024 * MiB, retain); });
	}
	void TearDown() override
	{
		page_purge(0);
	}
};

TEST_F(given, a_small_heap_has_the_whole_limit)
{
	EXPECT_EQ(page_budget(), retain);
	auto small = take(8 * MiB);
	EXPECT_EQ(page_budget(), retain);
	give(small);
	EXPECT_EQ(idle(), 8 * MiB);
}

/* By default 1 MiB would stay. */
TEST_F(given, a_heap_that_falls_keeps_it_too)
{
	auto first = take(48 * MiB), second = take(48 * MiB);

	give(first);
	EXPECT_EQ(idle(), 48 * MiB);
	give(second);
	EXPECT_EQ(idle(), 96 * MiB);
	EXPECT_EQ(page_budget(), retain);
}

TEST_F(given, beyond_it_memory_goes_back_to_half)
{
	auto whole = take(96 * MiB), more = take(2 * MiB);

	give(whole);
	EXPECT_EQ(idle(), 96 * MiB);
	give(more);
	EXPECT_LE(idle(), 48 * MiB);
	EXPECT_GT(idle(), 48 * MiB - 2 * SUPERBLOCK_BYTES);
}

/* What lies in the lists of a CPU is counted in part only: the part is less than the budget. */
TEST_F(given, a_small_one_holds_for_blocks_that_cpus_keep)
{
	const size_t little = 128 << 10, size = 48 << 10;
	std::vector<void *> blocks;
	bool is_zero;

	start::option("RETAIN=" + std::to_string(little));
	page_retain_changed();
	for (int i = 0; i < 20; i++)
		blocks.push_back(large_alloc(size, PAGE_BYTES, &is_zero));
	for (void *block : blocks)
		large_free(block);
	EXPECT_LE(page_nr_dirty() * PAGE_BYTES, little);
	start::option("RETAIN=" + std::to_string(retain));
	page_retain_changed();
}

}  // namespace
