/* SPDX-License-Identifier: MIT */
/* page/purge.c where SLUB_RETAIN is given: that much may lie idle, whatever the heap's size. */
#include <gtest/gtest.h>

#include "start.h"

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
	static char *take(size_t bytes)
	{
		bool is_zero;
		char *run = superblock_alloc(bytes / SUPERBLOCK_BYTES, 1, 0, true, &is_zero);

		EXPECT_NE(run, nullptr);
		page_charge_always(bytes / PAGE_BYTES);
		return run;
	}
	static void give(char *run, size_t bytes)
	{
		page_uncharge(bytes / PAGE_BYTES);
		superblock_free(run, bytes / SUPERBLOCK_BYTES, true);
		page_purge_if_needed();
	}
	static size_t idle()
	{
		return page_nr_dirty() * PAGE_BYTES;
	}
};

TEST_F(given, a_small_heap_has_the_whole_limit)
{
	EXPECT_EQ(page_idle_limit(), retain);
	char *small = take(8 * MiB);
	EXPECT_EQ(page_idle_limit(), retain);
	give(small, 8 * MiB);
	EXPECT_EQ(idle(), 8 * MiB);
}

/* By default the second of these would be the end of a burst, of which 1 MiB stays. */
TEST_F(given, a_heap_that_falls_keeps_it_too)
{
	char *first = take(48 * MiB), *second = take(48 * MiB);

	give(first, 48 * MiB);
	EXPECT_EQ(idle(), 48 * MiB);
	give(second, 48 * MiB);
	EXPECT_EQ(idle(), 96 * MiB);
	EXPECT_EQ(page_idle_limit(), retain);
}

TEST_F(given, beyond_it_memory_goes_back_to_half)
{
	char *run = take(96 * MiB), *more = take(2 * MiB);

	give(run, 96 * MiB);
	EXPECT_EQ(idle(), 96 * MiB);
	give(more, 2 * MiB);
	EXPECT_LE(idle(), 48 * MiB);
	EXPECT_GT(idle(), 48 * MiB - 2 * SUPERBLOCK_BYTES);
}

}  // namespace
