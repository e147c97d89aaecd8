/* SPDX-License-Identifier: MIT */
/* page/purge.c, with a clock that stands still unless it is moved on. */
#include <gtest/gtest.h>

#include "run.h"
#include "walk.h"

static uint64_t now_ns = 1000000000000ull;

extern "C" uint64_t os_clock_ns(void)
{
	return now_ns;
}

namespace {

const size_t MiB = 1ul << 20;
const size_t retain = 16 * MiB;
const uint64_t millisecond = 1000000;

/* Some 4 MiB runs that count as used, and their end. */
std::vector<run> use(size_t nr)
{
	std::vector<run> runs;
	bool is_zero;

	for (size_t i = 0; i < nr; i++)
		runs.push_back({ superblock_alloc(2, 1, 0, true, &is_zero), 2 });
	page_charge_always(nr * 2 * SUPERBLOCK_PAGES);
	return runs;
}

void drop(std::vector<run> &runs, size_t left)
{
	for (; runs.size() > left; runs.pop_back())
		give(runs.back());
}

class purge : public testing::Test {
protected:
	static void SetUpTestSuite()
	{
		start::once([] { start::page(1024 * MiB, retain); });
	}
	void SetUp() override
	{
		if (superblock_nr_used() || page_nr_dirty())
			settle();
		ASSERT_EQ(superblock_nr_used(), 0u);
	}
	void TearDown() override
	{
		settle();
	}
	/*
	 * Lets the limit fall to where it was before anything raised it: it halves at a purge that
	 * comes after a quiet second.
	 */
	void settle()
	{
		/* The first is a fall, if the test left a high heap; the second grows again. */
		for (int i = 0; i < 2; i++) {
			now_ns += 20000 * millisecond;
			auto runs = use(8);
			drop(runs, 0);
		}
		now_ns += 20000 * millisecond;
		EXPECT_FALSE(page_has_fallen());
		for (int i = 0; i == 0 || (i < 12 && page_idle_limit() > 4 * MiB); i++) {
			size_t bytes = round_up(page_idle_limit() + 8 * MiB, SUPERBLOCK_BYTES);

			now_ns += 2000 * millisecond;
			give(take(bytes, false));
		}
		page_purge(0);
		now_ns += 2000 * millisecond;
	}
};

/* The first test: memory that was never given back is not bought back. */
TEST_F(purge, a_first_growing_does_not_raise_the_limit)
{
	size_t first = page_idle_limit();
	std::vector<run> runs;

	for (int i = 0; i < 4; i++)
		runs.push_back(take(8 * MiB));
	EXPECT_EQ(page_idle_limit(), first);
	for (auto &run : runs)
		give(run);
	EXPECT_LE(idle(), first);
}

TEST_F(purge, limit_is_an_eighth_of_what_is_used_within_bounds)
{
	EXPECT_EQ(page_idle_limit(), 4 * MiB);
	auto some = take(24 * MiB);
	EXPECT_EQ(page_idle_limit(), 4 * MiB);
	now_ns += 200 * millisecond;
	auto more = take(40 * MiB);
	EXPECT_EQ(page_idle_limit(), 8 * MiB);
	now_ns += 200 * millisecond;
	auto most = take(192 * MiB);
	EXPECT_EQ(page_idle_limit(), retain);
	give(most);
	give(more);
	give(some);
	EXPECT_LE(idle(), page_idle_limit());
}

TEST_F(purge, a_heap_at_half_of_its_height_keeps_less_until_it_grows)
{
	auto runs = use(40);

	now_ns += 20000 * millisecond;
	drop(runs, 30);
	EXPECT_FALSE(page_has_fallen());
	drop(runs, 8);
	EXPECT_TRUE(page_has_fallen());
	EXPECT_EQ(page_idle_limit(), 1 * MiB);
	EXPECT_LE(idle(), 1 * MiB);

	/* It grows again, so it is at work, and the next fall is none. */
	auto more = use(24);
	drop(more, 20);
	EXPECT_FALSE(page_has_fallen());
	drop(more, 0);
	EXPECT_FALSE(page_has_fallen());
	EXPECT_GE(page_idle_limit(), 4 * MiB);

	/* But after a while, again; a small heap has no falls. */
	now_ns += 20000 * millisecond;
	drop(runs, 0);
	EXPECT_TRUE(page_has_fallen());
	runs = use(6);
	drop(runs, 0);
	EXPECT_FALSE(page_has_fallen());
}

TEST_F(purge, a_heap_that_goes_up_and_down_keeps_what_is_idle)
{
	std::vector<run> runs;
	auto grow_to = [&](size_t nr) {
		for (auto run : use(nr - runs.size()))
			runs.push_back(run);
	};

	for (size_t nr = 1; nr <= 24; nr++) {
		grow_to(nr);
		now_ns += 2000 * millisecond;
	}
	drop(runs, 14);
	EXPECT_LE(idle(), 12 * MiB) << "it has bought nothing back as yet: an eighth";
	for (int i = 0; i < 2; i++) {
		grow_to(24);
		drop(runs, 20);
	}
	ASSERT_LT(page_idle_limit(), 40 * MiB);
	/* Now it swings: one run is taken for two that go. */
	while (runs.size() > 10) {
		drop(runs, runs.size() - 2);
		grow_to(runs.size() + 1);
	}
	EXPECT_GE(idle(), 40 * MiB);
	EXPECT_FALSE(page_has_fallen()) << "that is none";
	/* And now it only falls. */
	grow_to(24);
	drop(runs, 4);
	EXPECT_TRUE(page_has_fallen());
	EXPECT_LE(idle(), page_idle_limit());
	/* The same in one piece. */
	grow_to(24);
	for (; runs.size() > 4; runs.pop_back()) {
		page_uncharge(2 * SUPERBLOCK_PAGES);
		superblock_free(runs.back().first, 2, true);
	}
	page_purge_if_needed();
	EXPECT_LE(idle(), page_idle_limit());
	EXPECT_LT(page_idle_limit(), 80 * MiB);

	/* For the other tests: one more fall, for a small heap has none. */
	now_ns += 20000 * millisecond;
	drop(runs, 0);
	runs = use(6);
	drop(runs, 0);
	EXPECT_FALSE(page_has_fallen());
}

TEST_F(purge, only_as_much_goes_back_as_is_to)
{
	auto runs = use(10);

	for (auto &run : runs)
		superblock_free(run.first, run.second, true);
	page_uncharge(20 * SUPERBLOCK_PAGES);
	EXPECT_EQ(idle(), 40 * MiB);
	EXPECT_EQ(page_purge(30 * MiB), 10 * MiB / PAGE_BYTES) << "of one run of 40";
	EXPECT_EQ(idle(), 30 * MiB);
}

TEST_F(purge, idle_memory_stays_within_the_limit_and_goes_to_half_of_it)
{
	std::vector<run> runs;

	for (int i = 0; i < 8; i++) {
		runs.push_back(take(2 * MiB));
		now_ns += 200 * millisecond;
	}
	give(runs[0]);
	give(runs[1]);
	EXPECT_EQ(idle(), 4 * MiB) << "at the limit nothing happens";
	give(runs[2]);
	EXPECT_LE(idle(), 2 * MiB) << "beyond it, half of it is kept";
	for (int i = 3; i < 8; i++) {
		give(runs[(size_t)i]);
		EXPECT_LE(idle(), 4 * MiB);
	}
}

/* Beyond SLUB_RETAIN, which they may hold beside the free pages. */
TEST_F(purge, what_barns_keep_is_idle_too)
{
	auto runs = use(8);
	bool is_zero;
	void *blocks[2] = { zone_alloc(7, 0, &is_zero), zone_alloc(7, 0, &is_zero) };

	page_purge(0);
	page_kept_bytes = retain;
	drop(runs, 7);
	EXPECT_EQ(idle(), 4 * MiB) << "at the limit nothing happens";
	page_kept_bytes = retain + 3 * MiB;
	drop(runs, 6);
	EXPECT_EQ(idle(), 0u) << "half of it, less what they keep";
	page_kept_bytes = retain + 8 * MiB;
	drop(runs, 5);
	EXPECT_EQ(idle(), 0u);
	zone_free(blocks[0], 7, 0, true);
	page_purge_if_needed();
	EXPECT_EQ(idle(), MiB / 2) << "they keep more than may be idle: not page by page";
	page_kept_bytes = 0;
	zone_free(blocks[1], 7, 0, true);
	drop(runs, 0);
}

TEST_F(purge, what_barns_keep_holds_nothing_back_where_there_is_no_room)
{
	bool is_zero;
	void *blocks[2] = { zone_alloc(7, 0, &is_zero), zone_alloc(7, 0, &is_zero) };

	page_purge(0);
	page_kept_bytes = retain + PAGE_BYTES;
	page_limit_set(1);
	zone_free(blocks[0], 7, 0, true);
	ASSERT_EQ(idle(), MiB / 2);
	page_purge_if_needed();
	EXPECT_EQ(idle(), 0u);
	page_limit_set(0);
	page_kept_bytes = 0;
	zone_free(blocks[1], 7, 0, true);
}

/* realloc() frees as free() does; nobody may call again. */
TEST_F(purge, what_is_cut_off_a_large_block_goes_back_in_the_same_call)
{
	for (size_t left : { 8 * MiB, 3 * MiB, MiB, 40 * PAGE_BYTES }) {
		bool is_zero;
		auto *ptr = (char *)large_alloc(100 * MiB, 16, &is_zero);

		ASSERT_NE(ptr, nullptr);
		harness::fill(ptr, 100 * MiB, 1);
		ptr = (char *)large_resize(ptr, left);
		EXPECT_LE(idle(), page_idle_limit()) << left;
		EXPECT_TRUE(harness::intact(ptr, left, 1));
		large_free(ptr);
		now_ns += 20000 * millisecond;
	}
}

TEST_F(purge, nothing_is_purged_under_a_lock_or_within_reclaim)
{
	auto run = take(12 * MiB);

	superblock_free(run.first, run.second, true);
	slub_thread.locks_held = 1;
	EXPECT_EQ(page_purge_if_needed(), 0u);
	slub_thread.locks_held = 0;
	slub_thread.flags |= THREAD_IN_RECLAIM;
	EXPECT_EQ(page_purge_if_needed(), 0u);
	slub_thread.flags &= ~(uint32_t)THREAD_IN_RECLAIM;
	EXPECT_EQ(idle(), 12 * MiB);
	EXPECT_GT(page_purge_if_needed(), 0u);
	EXPECT_LE(idle(), 4 * MiB);
	EXPECT_EQ(slub_thread.flags & THREAD_IN_RECLAIM, 0u);
}

/* The sum that is kept is the one that is counted, and means resident memory. */
TEST_F(purge, accounting)
{
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

TEST_F(purge, buying_back_quickly_raises_the_limit)
{
	/* Each round gives 12 MiB back, less what may stay, and buys them at once. */
	size_t first = page_idle_limit();

	for (int i = 0; i < 20; i++)
		give(take(12 * MiB));
	EXPECT_GT(page_idle_limit(), first);
	EXPECT_GE(page_idle_limit(), 12 * MiB) << "until it is enough for the program";
	EXPECT_EQ(idle(), 12 * MiB) << "nothing is given back any more";
	settle();
	EXPECT_EQ(page_idle_limit(), first);
}

/* What would stay when the program falls silent now is at most half of its peak, for a while. */
TEST_F(purge, a_raised_limit_is_bounded_by_half_of_the_peak_until_that_was_paid_for)
{
	now_ns += 30000 * millisecond;
	for (int i = 0; i < 6; i++) {
		give(take(64 * MiB));
		EXPECT_LE(page_idle_limit(), 32 * MiB) << "round " << i;
		EXPECT_LE(idle(), 32 * MiB) << "round " << i;
	}
	EXPECT_GT(page_idle_limit(), 16 * MiB);
	for (int i = 0; i < 30; i++)
		give(take(64 * MiB));
	EXPECT_GE(page_idle_limit(), 64 * MiB) << "it has bought back twelve times the peak";
	EXPECT_EQ(idle(), 64 * MiB);
}

TEST_F(purge, buying_back_slowly_does_not)
{
	size_t first = page_idle_limit();

	for (int i = 0; i < 20; i++) {
		give(take(12 * MiB));
		now_ns += 200 * millisecond;
	}
	EXPECT_EQ(page_idle_limit(), first);
}

TEST_F(purge, raised_limit_halves_with_each_quiet_second)
{
	for (int i = 0; i < 20; i++)
		give(take(12 * MiB));
	size_t raised = page_idle_limit();
	ASSERT_GE(raised, 12 * MiB);
	/* Within the second it holds. */
	give(take(raised + 8 * MiB));
	EXPECT_GE(page_idle_limit(), raised);
	raised = page_idle_limit();
	now_ns += 1100 * millisecond;
	give(take(raised + 8 * MiB));
	EXPECT_EQ(page_idle_limit(), std::max(raised / 2, 4 * MiB));
	settle();
	EXPECT_EQ(page_idle_limit(), 4 * MiB);
}

/* Filling the heap once more buys back a lot at once: it may double the limit, no more. */
TEST_F(purge, one_regrowth_doubles_the_limit_at_most)
{
	std::vector<run> runs;

	for (int round = 0; round < 4; round++) {
		size_t before = page_idle_limit();

		for (int i = 0; i < 10; i++)
			runs.push_back(take(8 * MiB));
		/* An eighth of what is in use it may be in any case. */
		EXPECT_LE(page_idle_limit(), std::max(2 * before, 10 * MiB)) << "round " << round;
		for (auto &run : runs)
			give(run);
		runs.clear();
		EXPECT_LE(idle(), 2 * before) << "round " << round;
	}
}

TEST_F(purge, the_limit_rises_by_what_was_bought_back_at_most)
{
	/* Raises it to 64 MiB. */
	while (page_idle_limit() < 64 * MiB)
		give(take(80 * MiB));
	size_t raised = page_idle_limit();
	auto run = take(raised + 2 * MiB);
	give(run);
	size_t kept = idle();
	ASSERT_LE(kept, raised / 2);
	/* What is idle is used first, then 12 MiB are bought. */
	auto reused = take(kept, false);
	now_ns += 200 * millisecond;
	auto some = take(8 * MiB, false), more = take(4 * MiB, false), last = take(8 * MiB, false);
	EXPECT_LE(page_idle_limit(), raised + 20 * MiB);
	for (auto &one : { reused, some, more, last })
		give(one);
}

/* No purge has to happen: who frees a little after a while finds the limit low. */
TEST_F(purge, raised_limit_falls_though_nothing_was_purged)
{
	for (int i = 0; i < 20; i++)
		give(take(12 * MiB));
	ASSERT_EQ(idle(), 12 * MiB);
	ASSERT_GE(page_idle_limit(), 12 * MiB);
	now_ns += 900 * millisecond;
	EXPECT_EQ(page_purge_if_needed(), 0u);
	EXPECT_EQ(idle(), 12 * MiB);
	now_ns += 9000 * millisecond;
	EXPECT_GT(page_purge_if_needed(), 0u) << "ten seconds of silence";
	EXPECT_LE(idle(), 4 * MiB);
	EXPECT_EQ(page_idle_limit(), 4 * MiB);
}

TEST_F(purge, raised_limit_has_a_bound)
{
	/* A sixteenth of the 16 GiB that start.h says the machine has. */
	const size_t bound = 1024 * MiB;

	for (int i = 0; i < 60; i++)
		give(take(512 * MiB, false));
	EXPECT_LE(page_idle_limit(), bound);
	EXPECT_LE(idle(), bound);
}

} /* namespace */
