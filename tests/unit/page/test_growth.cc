/* SPDX-License-Identifier: MIT */
/*
 * features/growth/growth.c: when the hook is asked, and how often; with a clock moved on by hand.
 */
#include <gtest/gtest.h>

#include "clock.h"
#include "start.h"
#include "walk.h"

namespace {

const size_t MiB = 1ul << 20;
const uint64_t millisecond = 1000000;

std::vector<size_t> asked;
bool answer;
char *kept;		/* what the hook frees, a run of 4 superblocks */
size_t nested;

bool hook(size_t bytes, enum growth_cause)
{
	bool is_zero;

	asked.push_back(bytes);
	EXPECT_NE(slub_thread.flags & THREAD_IN_RECLAIM, 0u);
	EXPECT_EQ(slub_thread.locks_held, 0u);
	if (kept) {
		superblock_free(kept, 4, true);
		kept = nullptr;
	}
	/* It may allocate, and that does not ask again. */
	size_t before = asked.size();
	char *more = superblock_alloc(20, 1, 0, true, &is_zero);
	nested += asked.size() - before;
	if (more)
		superblock_free(more, 20, true);
	return answer;
}

class growth : public testing::Test {
protected:
	static void SetUpTestSuite()
	{
		start::once([] { start::page(256 * MiB, 1ul << 40); });
	}
	void SetUp() override
	{
		now_ns += 10000 * millisecond;
		asked.clear();
		answer = false;
		nested = 0;
		page_set_growth_hook(hook);
	}
	void TearDown() override
	{
		page_set_growth_hook(nullptr);
		EXPECT_EQ(nested, 0u);
		EXPECT_EQ(slub_thread.flags & THREAD_IN_RECLAIM, 0u);
	}
};

/* The first test: the heap is small, so the hook is asked before it grows. */
TEST_F(growth, asks_before_the_heap_grows_and_looks_again)
{
	bool is_zero;
	size_t committed;

	kept = superblock_alloc(4, 1, 0, true, &is_zero);
	ASSERT_NE(kept, nullptr);
	char *freed = kept;
	EXPECT_EQ(asked, std::vector<size_t>{ 4 * SUPERBLOCK_BYTES }) << "no heap yet";
	std::vector<char *> rest;
	committed = pagemap_committed();
	while (superblock_nr_used() * SUPERBLOCK_BYTES < committed)
		rest.push_back(superblock_alloc(1, 1, 0, true, &is_zero));
	now_ns += 1000 * millisecond;
	asked.clear();
	answer = true;
	char *one = superblock_alloc(2, 1, 0, true, &is_zero);
	EXPECT_EQ(asked, std::vector<size_t>{ 2 * SUPERBLOCK_BYTES });
	EXPECT_EQ(one, freed) << "what the hook freed is used";
	superblock_free(one, 2, true);
	for (char *start : rest)
		superblock_free(start, 1, true);
}

TEST_F(growth, does_not_ask_while_there_is_room)
{
	bool is_zero;
	char *run = superblock_alloc(2, 1, 0, true, &is_zero);

	asked.clear();
	superblock_free(run, 2, true);
	run = superblock_alloc(2, 1, 0, true, &is_zero);
	void *block = zone_alloc(0, 0, &is_zero);
	EXPECT_TRUE(asked.empty());
	zone_free(block, 0, 0, true);
	superblock_free(run, 2, true);
}

TEST_F(growth, a_rate_bounds_the_calls)
{
	EXPECT_FALSE(page_growth_ask(1, GROWTH_MORE));
	for (int i = 0; i < 99; i++) {
		now_ns += millisecond;
		page_growth_ask(1, GROWTH_MORE);
	}
	EXPECT_EQ(asked.size(), 1u) << "ten a second";
	now_ns += millisecond;
	page_growth_ask(1, GROWTH_MORE);
	EXPECT_EQ(asked.size(), 2u);
}

TEST_F(growth, who_would_fail_asks_as_long_as_it_helps)
{
	answer = true;
	for (int i = 0; i < 5; i++)
		EXPECT_TRUE(page_growth_ask(1, GROWTH_FAILED));
	EXPECT_FALSE(page_growth_ask(1, GROWTH_MORE)) << "the rate holds for growth";
	answer = false;
	EXPECT_FALSE(page_growth_ask(1, GROWTH_FAILED));
	EXPECT_EQ(asked.size(), 6u);
	EXPECT_FALSE(page_growth_ask(1, GROWTH_FAILED));
	EXPECT_EQ(asked.size(), 6u) << "it was in vain a moment ago";
	now_ns += 100 * millisecond;
	EXPECT_FALSE(page_growth_ask(1, GROWTH_FAILED));
	EXPECT_EQ(asked.size(), 7u);
}

/* However little time has passed: a program may take all that is left within it. */
TEST_F(growth, near_the_limit_what_was_in_vain_is_tried_again_as_the_heap_grows)
{
	std::vector<void *> blocks;
	bool is_zero;

	page_purge_all();
	page_limit_set(64 * MiB);
	page_set_tight_hook([](size_t bytes, enum growth_cause) {
		asked.push_back(bytes);
		return false;
	});
	for (size_t bytes = 0; bytes < 63 * MiB; bytes += 2 * MiB) {
		blocks.push_back(zone_alloc(BLOCK_ORDER_MAX, 0, &is_zero));
		blocks.push_back(zone_alloc(BLOCK_ORDER_MAX, 0, &is_zero));
		ASSERT_NE(blocks.back(), nullptr);
		if (bytes < 44 * MiB) {
			ASSERT_TRUE(asked.empty()) << "a quarter is left at " << bytes;
		}
	}
	size_t all = asked.size();
	EXPECT_GE(all, 4u);
	EXPECT_LE(all, 16u) << "and no more often than that";
	/* Not for what comes and goes. */
	for (int i = 0; i < 1000; i++) {
		zone_free(blocks.back(), BLOCK_ORDER_MAX, 0, false);
		blocks.back() = zone_alloc(BLOCK_ORDER_MAX, 0, &is_zero);
	}
	EXPECT_LE(asked.size(), all + 1);
	page_set_tight_hook(nullptr);
	for (void *block : blocks)
		zone_free(block, BLOCK_ORDER_MAX, 0, true);
	page_limit_set(0);
}

/* Free objects of a page or more get their memory back where they lie: nobody buys it. */
TEST_F(growth, near_the_limit_what_becomes_resident_counts_though_nobody_bought_it)
{
	std::vector<void *> blocks;
	bool is_zero;

	page_purge_all();
	page_limit_set(64 * MiB);
	page_set_tight_hook([](size_t bytes, enum growth_cause) {
		asked.push_back(bytes);
		return true;
	});
	while (page_nr_resident() * PAGE_BYTES < 56 * MiB) {
		blocks.push_back(zone_alloc(BLOCK_ORDER_MAX, 0, &is_zero));
		ASSERT_NE(blocks.back(), nullptr);
	}
	page_charge_always(4 * MiB / PAGE_BYTES);
	page_tight_look();
	asked.clear();
	page_tight_look();
	EXPECT_TRUE(asked.empty()) << "nothing since";
	for (size_t turn = 1; turn <= 3; turn++) {
		page_uncharge(4 * MiB / PAGE_BYTES);	/* what a shrinker freed, say */
		page_tight_look();
		page_charge_always(4 * MiB / PAGE_BYTES);
		page_tight_look();
		EXPECT_EQ(asked.size(), turn);
	}
	EXPECT_EQ(asked.back(), 4 * MiB);
	page_uncharge(4 * MiB / PAGE_BYTES);
	page_set_tight_hook(nullptr);
	for (void *block : blocks)
		zone_free(block, BLOCK_ORDER_MAX, 0, true);
	page_limit_set(0);
}

TEST_F(growth, never_under_a_lock_or_within_reclaim)
{
	slub_thread.locks_held++;
	EXPECT_FALSE(page_growth_ask(1, GROWTH_FAILED));
	slub_thread.locks_held--;
	slub_thread.flags |= THREAD_IN_RECLAIM;
	EXPECT_FALSE(page_growth_ask(1, GROWTH_FAILED));
	slub_thread.flags &= ~(uint32_t)THREAD_IN_RECLAIM;
	page_set_growth_hook(nullptr);
	EXPECT_FALSE(page_growth_ask(1, GROWTH_FAILED));
	EXPECT_TRUE(asked.empty());
}

TEST_F(growth, asks_when_the_heap_is_used_up)
{
	std::vector<char *> all;
	bool is_zero;

	kept = superblock_alloc(4, 1, 0, true, &is_zero);
	page_set_growth_hook(nullptr);
	while (char *start = superblock_alloc(1, 1, 0, true, &is_zero))
		all.push_back(start);
	page_set_growth_hook(hook);
	answer = true;
	char *last = superblock_alloc(3, 1, 0, true, &is_zero);
	EXPECT_NE(last, nullptr) << "the hook has freed four";
	EXPECT_EQ(asked.size(), 1u);
	answer = false;
	asked.clear();
	EXPECT_EQ(superblock_alloc(3, 1, 0, true, &is_zero), nullptr);
	EXPECT_EQ(asked.size(), 1u) << "for growth the turn is over, for failure not";
	superblock_free(last, 3, true);
	for (char *start : all)
		superblock_free(start, 1, true);
}

TEST_F(growth, a_rate_of_0_is_never)
{
	EXPECT_EQ(harness::in_child([] {
		start::option("RECLAIM_RATE=0");
		answer = true;
		if (page_growth_ask(1, GROWTH_FAILED) || !asked.empty())
			_exit(1);
	}), 0);
}

} /* namespace */
