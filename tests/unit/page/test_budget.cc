/* SPDX-License-Identifier: MIT */
/* core/page/budget.c, with a clock that stands still unless it is moved on. */
#include <gtest/gtest.h>

#include "clock.h"
#include "run.h"
#include "walk.h"

namespace {

const size_t MiB = 1ul << 20;
const size_t retain = 16 * MiB;
const uint64_t second = 1000000000;

/* Some 4 MiB runs that count as used, and their end. */
std::vector<run> use(size_t nr)
{
	std::vector<run> runs;
	bool is_zero;

	for (size_t i = 0; i < nr; i++)
		runs.push_back({ superblock_alloc(2, 1, 0, false, &is_zero), 2 });
	page_charge_always(nr * 2 * SUPERBLOCK_PAGES);
	return runs;
}

void drop(std::vector<run> &runs, size_t left)
{
	for (; runs.size() > left; runs.pop_back())
		give(runs.back());
}

class budget : public testing::Test {
protected:
	static void SetUpTestSuite()
	{
		start::once([] { start::page(2048 * MiB, retain); });
	}
	/* All is forgotten after so many seconds. */
	void SetUp() override
	{
		page_purge_all();
		now_ns += 100 * second;
		page_budget_has_room(retain + 1);
		ASSERT_EQ(page_budget(), MiB);
	}
	void TearDown() override
	{
		page_purge(0);
	}
};

/* The first test: memory that was never given back is not wanted again. */
TEST_F(budget, a_first_growth_is_no_regret)
{
	auto run = take(48 * MiB);

	EXPECT_EQ(page_budget(), 6 * MiB);
	give(run);
	EXPECT_EQ(page_budget(), MiB);
}

TEST_F(budget, is_an_eighth_of_what_is_used_within_bounds)
{
	auto some = take(4 * MiB);
	EXPECT_EQ(page_budget(), MiB);
	auto more = take(60 * MiB);
	EXPECT_EQ(page_budget(), 8 * MiB);
	auto most = take(192 * MiB);
	EXPECT_EQ(page_budget(), retain);
	for (auto &run : { most, more, some })
		give(run);
	EXPECT_LE(idle(), MiB);
}

TEST_F(budget, memory_goes_back_in_the_call_that_frees_too_much)
{
	auto whole = take(64 * MiB);
	auto runs = use(4);

	/* Of 80 MiB 10; 4 at a time, and half of the base below it. */
	drop(runs, 2);
	EXPECT_EQ(idle(), 8 * MiB) << "there is room";
	drop(runs, 1);
	EXPECT_LE(idle(), 68 * MiB / 8 / 2);
	drop(runs, 0);
	give(whole);
	EXPECT_LE(idle(), MiB) << "of a burst that is over";
}

TEST_F(budget, barns_and_free_pages_share_it)
{
	auto whole = take(64 * MiB);
	auto runs = use(2);

	EXPECT_TRUE(page_budget_has_room(9 * MiB));
	EXPECT_FALSE(page_budget_has_room(9 * MiB + 1)) << "72 / 8";
	page_kept_bytes = 6 * MiB;
	EXPECT_TRUE(page_budget_has_room(MiB));
	EXPECT_FALSE(page_budget_has_room(3 * MiB)) << "what barns hold is not in use: 66 / 8";
	drop(runs, 1);
	EXPECT_EQ(idle(), 0u) << "10 MiB are too much: down to half of 7.75, less the 6";
	page_kept_bytes = 0;
	drop(runs, 0);
	EXPECT_EQ(idle(), 4 * MiB);
	give(whole);
}

/* Frees one with the look of a large block's free. */
static void drop_one(std::vector<run> &runs)
{
	page_uncharge(runs.back().second * SUPERBLOCK_PAGES);
	superblock_free(runs.back().first, runs.back().second, true);
	runs.pop_back();
	purge_look();
}

/* Which of them looks at the budget shows by what barns hold too much meanwhile. */
TEST_F(budget, a_free_looks_where_it_may_find_something)
{
	auto whole = take(64 * MiB);
	auto runs = use(4);

	/* So that one call gives all back. */
	clock_step_ns = 1000;
	drop_one(runs);
	page_kept_bytes = 8 * MiB;
	purge_look();
	EXPECT_EQ(idle(), 4 * MiB) << "no page more is idle, and no time has passed";
	now_ns += 4000000;
	purge_look();
	EXPECT_EQ(idle(), 0u) << "time has passed";
	page_kept_bytes = 0;
	now_ns += 4000000;
	drop_one(runs);
	EXPECT_EQ(idle(), 4 * MiB) << "there is room for 5";
	page_kept_bytes = 8 * MiB;
	drop_one(runs);
	EXPECT_EQ(idle(), 0u) << "more idles than half of that";
	page_kept_bytes = 0;
	drop(runs, 0);
	give(whole);
	clock_step_ns = 150000;
}

/* Else each free of a page near the budget would give that page back. */
TEST_F(budget, a_few_pages_stay_where_barns_hold_all_of_it)
{
	bool is_zero;
	void *blocks[2] = { zone_alloc(4, 0, &is_zero), zone_alloc(6, 0, &is_zero) };
	void *buddy = zone_alloc(4, 0, &is_zero);

	page_purge_all();
	page_kept_bytes = 4 * MiB;
	zone_free(blocks[0], 4, 0, true);
	ASSERT_LT(page_nr_dirty(), 64u);
	EXPECT_EQ(page_purge_if_needed(), 0u) << "less than 256 KiB";
	zone_free(blocks[1], 6, 0, true);
	EXPECT_GT(page_purge_if_needed(), 0u) << "and more";
	EXPECT_EQ(page_nr_dirty(), 0u);
	zone_free(buddy, 4, 0, true);
	page_kept_bytes = 0;
}

TEST_F(budget, regret_is_what_was_given_back_and_is_wanted_again)
{
	auto run = take(64 * MiB);

	give(run);
	size_t given = 64 * MiB - idle();
	EXPECT_EQ(page_budget(), MiB) << "nothing is wanted yet";
	run = take(64 * MiB);
	EXPECT_EQ(page_budget(), 8 * MiB + given);
	give(run);
	EXPECT_EQ(idle(), 64 * MiB) << "so it stays from the second time on";
	run = take(64 * MiB);
	EXPECT_EQ(page_budget(), 8 * MiB + given) << "and costs nothing";
	give(run);
}

TEST_F(budget, regret_is_for_no_more_than_was_given_back)
{
	auto run = take(16 * MiB);

	give(run);
	size_t given = 16 * MiB - idle();
	run = take(512 * MiB, false);
	EXPECT_EQ(page_budget(), retain + given);
	give(run);
}

/* A block that is free again beside one that went back does not hide that it was wanted. */
TEST_F(budget, what_went_back_and_was_merged_is_regretted_when_it_is_wanted)
{
	bool is_zero;
	void *one = zone_alloc(7, 0, &is_zero), *two = zone_alloc(7, 0, &is_zero);

	memset(one, 1, PAGE_BYTES << 7);
	memset(two, 1, PAGE_BYTES << 7);
	zone_free(one, 7, 0, true);
	page_purge(0);
	ASSERT_EQ(page_nr_dirty(), 0u);
	zone_free(two, 7, 0, true);
	EXPECT_EQ(page_nr_dirty(), 128u);
	EXPECT_EQ(page_budget(), MiB) << "nothing is wanted yet";
	/* Half of a superblock, and of its 128 pages with memory. */
	one = zone_alloc(8, 0, &is_zero);
	EXPECT_EQ(page_budget(), MiB + (PAGE_BYTES << 7)) << "192 pages, of 128 that went";
	zone_free(one, 8, 0, true);
}

/* Else a heap whose idle memory grows makes a mistake for each page that it grows by. */
TEST_F(budget, where_mistakes_go_on_regret_is_ahead_of_them)
{
	std::vector<run> rest;
	/* Gives 4 MiB back that are wanted each time, behind 20 that nobody wants. */
	auto mistake = [] {
		auto run = take(4 * MiB);

		superblock_free(run.first, run.second, true);
		page_uncharge(run.second * SUPERBLOCK_PAGES);
		page_purge(20 * MiB);
		EXPECT_EQ(idle(), 20 * MiB);
	};

	for (int i = 0; i < 20; i++)
		rest.push_back(take(2 * MiB));
	for (size_t i = 0; i < 10; i++) {
		auto run = rest[i];

		rest.erase(rest.begin() + (ptrdiff_t)i);
		superblock_free(run.first, run.second, true);
		page_uncharge(SUPERBLOCK_PAGES);
	}
	ASSERT_EQ(idle(), 20 * MiB);
	/* The base is 2.5 MiB.  4; 4 and 4 more for one base in it; 4 and 16 more for four. */
	for (size_t regret : { 0, 4, 12, 32 }) {
		mistake();
		EXPECT_EQ(page_budget(), 5 * MiB / 2 + regret * MiB);
	}
	mistake();
	EXPECT_EQ(page_budget(), 5 * MiB / 2 + 48 * MiB) << "no more than twice what it could hold";
	now_ns += second;
	EXPECT_EQ(page_budget(), 5 * MiB / 2 + 24 * MiB);
	for (auto &run : rest)
		give(run);
}

TEST_F(budget, half_of_the_regret_is_forgotten_each_second)
{
	auto run = take(64 * MiB);

	give(run);
	size_t given = 64 * MiB - idle();
	give(take(64 * MiB));
	EXPECT_EQ(page_budget(), MiB + given);
	now_ns += second * 9 / 10;
	EXPECT_EQ(page_budget(), MiB + given);
	now_ns += second / 10;
	EXPECT_EQ(page_budget(), MiB + given / 2);
	now_ns += 2 * second;
	EXPECT_EQ(page_budget(), MiB + given / 8);
	now_ns += 100 * second;
	EXPECT_EQ(page_budget(), MiB);
	EXPECT_EQ(idle(), 64 * MiB) << "nobody has freed anything since";
	give(take(2 * MiB));
	EXPECT_LE(idle(), MiB) << "now somebody has";
}

TEST_F(budget, what_was_given_back_long_ago_is_no_regret)
{
	give(take(64 * MiB));
	now_ns += 60 * second;
	auto run = take(64 * MiB);
	EXPECT_EQ(page_budget(), 8 * MiB);
	give(run);
}

TEST_F(budget, another_threads_clock_may_be_behind)
{
	give(take(64 * MiB));
	auto run = take(64 * MiB);
	size_t before = page_budget();
	now_ns -= second / 2;
	EXPECT_EQ(page_budget(), before);
	now_ns += second / 2;
	give(run);
}

/* A sixteenth of the 16 GiB that start.h says the machine has. */
TEST_F(budget, regret_has_a_bound)
{
	for (int i = 0; i < 4; i++)
		give(take(1536 * MiB, false));
	EXPECT_LE(page_budget(), 1024 * MiB + retain);
	EXPECT_LE(idle(), 1024 * MiB + retain);
}

/* Near a limit free memory gives way. */
TEST_F(budget, is_no_more_than_there_is_room)
{
	auto run = take(64 * MiB);

	page_limit_set(64 * MiB + PAGE_BYTES);
	EXPECT_EQ(page_budget(), (size_t)PAGE_BYTES);
	EXPECT_FALSE(page_budget_has_room(2 * PAGE_BYTES));
	page_limit_set(0);
	EXPECT_EQ(page_budget(), 8 * MiB);
	give(run);
}

TEST_F(budget, only_as_much_goes_back_as_is_to)
{
	auto runs = use(10);

	for (auto &run : runs)
		superblock_free(run.first, run.second, true);
	page_uncharge(20 * SUPERBLOCK_PAGES);
	EXPECT_EQ(idle(), 40 * MiB);
	EXPECT_EQ(page_purge(30 * MiB), 10 * MiB / PAGE_BYTES) << "of one run of 40";
	EXPECT_EQ(idle(), 30 * MiB);
}

/* realloc() frees as free() does; nobody may call again. */
TEST_F(budget, what_is_cut_off_a_large_block_goes_back_in_the_same_call)
{
	if (SLUB_CONFIG_HARDENED)
		GTEST_SKIP() << "a block between fences is copied, and waits before it goes";
	for (size_t left : { 8 * MiB, 3 * MiB, MiB, 40 * PAGE_BYTES }) {
		bool is_zero;
		auto *ptr = (char *)large_alloc(100 * MiB, 16, &is_zero);

		ASSERT_NE(ptr, nullptr);
		harness::fill(ptr, 100 * MiB, 1);
		ptr = (char *)large_resize(ptr, left);
		EXPECT_LE(idle(), page_budget()) << left;
		EXPECT_TRUE(harness::intact(ptr, left, 1));
		large_free(ptr);
		now_ns += 20 * second;
	}
}

TEST_F(budget, nothing_is_purged_under_a_lock_or_within_reclaim)
{
	auto run = take(12 * MiB);

	superblock_free(run.first, run.second, true);
	page_uncharge(run.second * SUPERBLOCK_PAGES);
	slub_thread.locks_held = 1;
	EXPECT_EQ(page_purge_if_needed(), 0u);
	slub_thread.locks_held = 0;
	slub_thread.flags |= THREAD_IN_RECLAIM;
	EXPECT_EQ(page_purge_if_needed(), 0u);
	slub_thread.flags &= ~(uint32_t)THREAD_IN_RECLAIM;
	EXPECT_EQ(idle(), 12 * MiB);
	EXPECT_GT(page_purge_if_needed(), 0u);
	while (page_purge_if_needed())
		;
	EXPECT_LE(idle(), MiB);
	EXPECT_EQ(slub_thread.flags & THREAD_IN_RECLAIM, 0u);
}

/* The sum that is kept is the one that is counted, and means resident memory. */
TEST_F(budget, accounting)
{
	if (os_page_size() != PAGE_BYTES)
		GTEST_SKIP() << "the system's pages are larger";
	harness::Random random(3);
	std::vector<std::pair<char *, uint32_t>> blocks;

	for (int i = 0; i < 5000; i++) {
		if (random.below(600) > blocks.size()) {
			uint32_t order = (uint32_t)random.below(BLOCK_ORDER_MAX + 1) / 2;
			bool is_zero;
			auto *start = (char *)zone_alloc(order, 0, &is_zero);
			memset(start, 1, PAGE_BYTES << order);
			blocks.emplace_back(start, order);
		} else if (!blocks.empty()) {
			size_t at = random.below(blocks.size());
			auto [start, order] = blocks[at];
			blocks[at] = blocks.back();
			blocks.pop_back();
			zone_free(start, order, 0, true);
		}
		if (i % 250 == 0) {
			size_t target = random.below(8) * MiB / 2, before = page_nr_dirty();
			size_t given = page_purge(target);

			EXPECT_EQ(given, before - page_nr_dirty());
			EXPECT_LE(idle(), target);
			EXPECT_EQ(zone_nr_dirty(), count_dirty(free_blocks()));
		}
	}
	page_purge(0);
	EXPECT_EQ(page_nr_dirty(), 0u);
	size_t in_use = 0;
	for (auto &[start, order] : blocks)
		in_use += (size_t)1 << order;
	EXPECT_EQ(resident_pages((void *)heap_start, pagemap_committed()), in_use);
	for (auto &[start, order] : blocks)
		zone_free(start, order, 0, true);
	page_purge(0);
	EXPECT_EQ(resident_pages((void *)heap_start, pagemap_committed()), 0u);
}

} /* namespace */
