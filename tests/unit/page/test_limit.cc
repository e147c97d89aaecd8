/* SPDX-License-Identifier: MIT */
/* core/page/limit.c: what counts as used, and what is refused beyond a limit. */
#include <atomic>
#include <gtest/gtest.h>
#include <thread>

#include "start.h"
#include "walk.h"

namespace {

const size_t MiB = 1ul << 20;

class limit : public testing::Test {
protected:
	static void SetUpTestSuite()
	{
		start::once([] { start::page(512 * MiB, 16 * MiB); });
	}
	void SetUp() override
	{
		used = page_used_bytes();
		if (SLUB_CONFIG_HARDENED)
			GTEST_SKIP() << "fences count, too, and blocks wait before they go";
	}
	void TearDown() override
	{
		page_set_growth_hook(nullptr);
		page_limit_set(0);
		EXPECT_EQ(page_used_bytes(), used) << "the account is off";
	}
	/* Above what other tests of this process keep in the lists. */
	void allow(size_t bytes)
	{
		page_limit_set(used + bytes);
	}
	size_t used;
};

TEST_F(limit, none_at_first)
{
	EXPECT_EQ(page_limit_bytes(), 0u);
	EXPECT_EQ(page_limit_room(), SIZE_MAX);
}

TEST_F(limit, zone_blocks_count_while_they_are_out)
{
	bool is_zero;

	for (uint32_t order = 0; order <= BLOCK_ORDER_MAX; order++) {
		void *block = zone_alloc(order, 0, &is_zero);

		EXPECT_EQ(page_used_bytes(), used + (PAGE_BYTES << order));
		zone_free(block, order, 0, true);
		EXPECT_EQ(page_used_bytes(), used);
	}
	page_purge(0);
	EXPECT_EQ(page_used_bytes(), used) << "what is purged was not in use";
}

/* A block of a zone is twice as large at the most as what is wanted of it. */
TEST_F(limit, what_fits_is_not_refused_for_its_surroundings)
{
	for (size_t pages : { 9, 18, 72, 144, 224 }) {
		size_t bytes = pages * PAGE_BYTES;
		bool is_zero;

		ASSERT_EQ(large_bytes_for(bytes), bytes);
		allow(bytes);
		void *block = large_alloc(bytes, PAGE_BYTES, &is_zero);

		ASSERT_NE(block, nullptr) << pages;
		EXPECT_EQ(page_used_bytes(), used + bytes);
		EXPECT_EQ(large_alloc(bytes, PAGE_BYTES, &is_zero), nullptr);
		large_free(block);
		page_purge(0);
		EXPECT_TRUE(free_blocks().empty());
	}
}

TEST_F(limit, runs_count_by_their_pages)
{
	bool is_zero;
	char *run = (char *)large_alloc(5 * MiB + 1, PAGE_BYTES, &is_zero);

	EXPECT_EQ(page_used_bytes(), used + 5 * MiB + PAGE_BYTES);
	run = (char *)large_resize(run, 9 * MiB);
	ASSERT_NE(run, nullptr);
	EXPECT_EQ(page_used_bytes(), used + 9 * MiB) << "longer";
	run = (char *)large_resize(run, 3 * MiB);
	EXPECT_EQ(page_used_bytes(), used + 3 * MiB) << "shorter";
	void *wall = large_alloc(3 * MiB, PAGE_BYTES, &is_zero);
	char *moved = (char *)large_resize(run, 60 * MiB);
	ASSERT_NE(moved, nullptr);
	EXPECT_EQ(page_used_bytes(), used + 63 * MiB) << "moved or not";
	large_free(moved);
	large_free(wall);
	EXPECT_EQ(page_used_bytes(), used);
}

/* A huge page is there whole, also behind the end of a block. */
TEST_F(limit, runs_that_may_be_huge_count_whole)
{
	EXPECT_EQ(harness::in_child([] {
		size_t before = page_used_bytes();
		bool is_zero;

		start::option("HUGE=block");
		void *run = large_alloc(5 * MiB + 1, PAGE_BYTES, &is_zero);
		if (page_used_bytes() != before + 6 * MiB)
			_exit(1);
		run = large_resize(run, 9 * MiB);
		if (page_used_bytes() != before + 10 * MiB)
			_exit(2);
		run = large_resize(run, MiB);
		if (page_used_bytes() != before + MiB)
			_exit(3);
		large_free(run);
		if (page_used_bytes() != before)
			_exit(4);
	}), 0);
}

TEST_F(limit, refuses_beyond_it_and_not_before)
{
	std::vector<void *> blocks;
	bool is_zero;
	void *block;

	allow(1 * MiB);
	EXPECT_EQ(page_limit_bytes(), used + MiB);
	while ((block = zone_alloc(2, 0, &is_zero)))
		blocks.push_back(block);
	EXPECT_EQ(blocks.size(), MiB / (PAGE_BYTES << 2));
	EXPECT_EQ(page_limit_room(), 0u);
	EXPECT_EQ(zone_alloc(0, 0, &is_zero), nullptr);
	EXPECT_EQ(large_alloc(3 * MiB, PAGE_BYTES, &is_zero), nullptr);
	zone_free(blocks.back(), 2, 0, true);
	blocks.pop_back();
	EXPECT_EQ(zone_alloc(3, 0, &is_zero), nullptr) << "four pages are free, not eight";
	EXPECT_EQ(page_used_bytes(), used + MiB - (PAGE_BYTES << 2)) << "nothing is lost";
	block = zone_alloc(2, 0, &is_zero);
	EXPECT_NE(block, nullptr);
	blocks.push_back(block);
	for (void *one : blocks)
		zone_free(one, 2, 0, true);
}

TEST_F(limit, growing_and_moving_keep_to_it)
{
	bool is_zero;

	allow(12 * MiB);
	char *run = (char *)large_alloc(8 * MiB, PAGE_BYTES, &is_zero);
	ASSERT_NE(run, nullptr);
	harness::fill(run, 8 * MiB, 1);
	EXPECT_EQ(large_resize(run, 13 * MiB), nullptr);
	EXPECT_EQ(page_used_bytes(), used + 8 * MiB);
	EXPECT_TRUE(harness::intact(run, 8 * MiB, 1)) << "refused, so unchanged";
	/* A move holds both ranges for a moment, but its memory only once. */
	void *wall = superblock_alloc(1, 1, 0, true, &is_zero);
	char *longer = (char *)large_resize(run, 12 * MiB);
	ASSERT_NE(longer, nullptr);
	EXPECT_TRUE(harness::intact(longer, 8 * MiB, 1));
	EXPECT_EQ(page_limit_room(), 0u);
	large_free(longer);
	superblock_free((char *)wall, 1, true);
}

TEST_F(limit, a_limit_below_what_is_used_refuses_all_and_takes_nothing)
{
	bool is_zero;
	void *run = large_alloc(4 * MiB, PAGE_BYTES, &is_zero);

	page_limit_set(used + MiB);
	EXPECT_EQ(zone_alloc(0, 0, &is_zero), nullptr);
	EXPECT_EQ(page_limit_room(), 0u);
	memset(run, 1, 4 * MiB);
	page_limit_set(1);
	EXPECT_EQ(zone_alloc(0, 0, &is_zero), nullptr);
	EXPECT_EQ(page_limit_bytes(), PAGE_BYTES);
	page_limit_set(0);
	void *block = zone_alloc(0, 0, &is_zero);
	EXPECT_NE(block, nullptr);
	zone_free(block, 0, 0, true);
	large_free(run);
}

/* Used and idle memory together are what a cgroup counts. */
TEST_F(limit, idle_memory_makes_room)
{
	bool is_zero;
	auto *first = (char *)large_alloc(6 * MiB, PAGE_BYTES, &is_zero);
	auto *wall = (char *)large_alloc(3 * MiB, PAGE_BYTES, &is_zero);

	page_purge(0);
	memset(first, 1, 6 * MiB);
	page_limit_set(page_used_bytes() + 4 * MiB);
	large_free(first);
	EXPECT_LE(page_nr_dirty(), page_limit_room());
	/* 8 MiB do not fit where the 6 were: they are new memory. */
	page_limit_set(page_used_bytes() + 9 * MiB);
	auto *second = (char *)large_alloc(8 * MiB, PAGE_BYTES, &is_zero);
	ASSERT_NE(second, nullptr);
	EXPECT_LE(page_nr_dirty(), page_limit_room());
	EXPECT_LE(page_budget(), page_limit_room() * PAGE_BYTES);
	large_free(second);
	large_free(wall);
}

size_t hook_calls, hook_bytes;
void *hook_block;

bool hook_frees(size_t bytes, enum growth_cause)
{
	hook_calls++;
	hook_bytes = bytes;
	if (!hook_block)
		return false;
	zone_free(hook_block, BLOCK_ORDER_MAX, 0, true);
	hook_block = nullptr;
	return true;
}

bool hook_lies(size_t, enum growth_cause)
{
	hook_calls++;
	return true;
}

TEST_F(limit, asks_the_hook_before_it_refuses)
{
	bool is_zero;

	hook_block = zone_alloc(BLOCK_ORDER_MAX, 0, &is_zero);
	hook_calls = 0;
	page_limit_set(page_used_bytes());
	page_set_growth_hook(hook_frees);
	void *block = zone_alloc(1, 0, &is_zero);
	ASSERT_NE(block, nullptr) << "the hook has made room";
	EXPECT_EQ(hook_calls, 1u);
	EXPECT_EQ(hook_bytes, 2 * PAGE_BYTES);
	page_limit_set(page_used_bytes());
	EXPECT_EQ(zone_alloc(1, 0, &is_zero), nullptr);
	EXPECT_EQ(hook_calls, 2u) << "in vain this time";
	zone_free(block, 1, 0, true);
}

TEST_F(limit, a_hook_that_lies_is_not_asked_for_ever)
{
	bool is_zero;

	hook_calls = 0;
	page_limit_set(std::max(used, PAGE_BYTES));
	page_set_growth_hook(hook_lies);
	EXPECT_EQ(zone_alloc(BLOCK_ORDER_MAX, 0, &is_zero), nullptr);
	EXPECT_LE(hook_calls, 100u);
	hook_calls = 0;
	page_limit_set(PAGE_BYTES);
	EXPECT_EQ(zone_alloc(1, 0, &is_zero), nullptr);
	EXPECT_EQ(hook_calls, 0u) << "it could not help";
}

TEST_F(limit, threads_never_exceed_it_together)
{
	const size_t most = 8 * MiB;
	std::atomic<bool> exceeded{false};
	std::vector<std::thread> threads;

	allow(most);
	for (int t = 0; t < 4; t++)
		threads.emplace_back([&, t] {
			harness::Random random((uint64_t)t);
			std::vector<std::pair<void *, uint32_t>> mine;

			for (int i = 0; i < 20000; i++) {
				auto order = (uint32_t)random.below(BLOCK_ORDER_MAX + 1);
				bool is_zero;
				void *block = zone_alloc(order, 0, &is_zero);

				if (block)
					mine.emplace_back(block, order);
				if (page_used_bytes() > used + most)
					exceeded = true;
				if (!mine.empty() && (!block || random.below(2))) {
					zone_free(mine.back().first, mine.back().second, 0, true);
					mine.pop_back();
				}
			}
			for (auto &[block, order] : mine)
				zone_free(block, order, 0, true);
		});
	for (auto &thread : threads)
		thread.join();
	EXPECT_FALSE(exceeded);
}

} /* namespace */
