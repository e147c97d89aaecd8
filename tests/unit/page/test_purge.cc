/* SPDX-License-Identifier: MIT */
/*
 * core/page/budget.c: what a free spends on giving memory back, and what the kernel will not take.
 */
#include <gtest/gtest.h>

#include <cerrno>
#include <set>

#include "clock.h"
#include "run.h"
#include "walk.h"

namespace {

const size_t MiB = 1ul << 20;
unsigned nr_calls;
/* Superblocks with a page that the program has locked, so to speak. */
std::set<uintptr_t> locked;
bool all_is_locked;
/* ... and sealed, so that nothing can be mapped in its place. */
bool is_sealed;

bool is_refused(void *start, size_t bytes)
{
	auto at = locked.lower_bound((uintptr_t)start);

	return all_is_locked || (at != locked.end() && *at < (uintptr_t)start + bytes);
}

} /* namespace */

/* By the linker's --wrap. */
extern "C" int __real_os_purge(void *, size_t);

extern "C" int __wrap_os_purge(void *start, size_t bytes)
{
	nr_calls++;
	return is_refused(start, bytes) ? -EINVAL : __real_os_purge(start, bytes);
}

extern "C" int __real_os_map_anew(void *, size_t);

extern "C" int __wrap_os_map_anew(void *start, size_t bytes)
{
	return is_sealed && is_refused(start, bytes) ? -EPERM : __real_os_map_anew(start, bytes);
}

namespace {

class purging : public testing::Test {
protected:
	static void SetUpTestSuite()
	{
		start::once([] { start::page(4096 * MiB, 16 * MiB); });
	}
	void SetUp() override
	{
		page_purge_all();
		/* All regret is forgotten. */
		now_ns += 100000000000;
		clock_step_ns = 1000;
		nr_calls = 0;
	}
	void TearDown() override
	{
		locked.clear();
		all_is_locked = is_sealed = false;
		page_purge_all();
	}
	/* Frees it as a block of a zone is freed: nothing goes back by itself. */
	static void drop(const run &run)
	{
		page_uncharge(run.second * SUPERBLOCK_PAGES);
		superblock_free(run.first, run.second, true);
	}
};

TEST_F(purging, a_call_begins_none_when_its_time_is_over)
{
	auto some = take(200 * MiB);

	drop(some);
	clock_step_ns = 90000;
	page_purge_if_needed();
	EXPECT_EQ(nr_calls, 3u) << "200 us";
	while (page_purge_if_needed())
		;
	EXPECT_LE(idle(), MiB);
}

/* Else lists stay short, and the fast path of malloc() closed, for as long as the program runs. */
TEST_F(purging, what_is_wanted_again_is_owed_no_more)
{
	auto some = take(200 * MiB);

	drop(some);
	clock_step_ns = 90000;
	while (idle() > 100 * MiB)
		page_purge_if_needed();
	ASSERT_TRUE(page_purge_is_owed());
	clock_step_ns = 1000;
	auto few = take(20 * MiB), rest = take(80 * MiB), more = take(40 * MiB);
	EXPECT_GE(page_budget(), 40 * MiB) << "regret";
	ASSERT_TRUE(page_purge_is_owed());
	drop(few);
	ASSERT_EQ(idle(), 20 * MiB);
	EXPECT_EQ(page_purge_if_needed(), 0u) << "the budget has room";
	EXPECT_FALSE(page_purge_is_owed());
	for (auto &run : { rest, more })
		drop(run);
}

TEST_F(purging, a_call_makes_sixteen_system_calls_at_the_most)
{
	std::vector<void *> blocks;
	bool is_zero;

	/* Every second one is freed, so that none merges. */
	for (int i = 0; i < 4000; i++) {
		blocks.push_back(zone_alloc(1, 0, &is_zero));
		*(char *)blocks.back() = 1;
	}
	for (int i = 0; i < 4000; i += 2)
		zone_free(blocks[i], 1, 0, true);
	unsigned most = 0, calls = 0, before;
	do {
		before = nr_calls;
		calls++;
		page_purge_if_needed();
		most = std::max(most, nr_calls - before);
	} while (nr_calls > before);
	EXPECT_GT(most, 0u);
	EXPECT_LE(most, 16u);
	EXPECT_GT(calls, 50u) << "the rest is left to the next calls";
	EXPECT_LE(idle(), page_budget()) << "which end where one without a bound would";
	for (int i = 1; i < 4000; i += 2)
		zone_free(blocks[i], 1, 0, true);
}

TEST_F(purging, a_run_goes_back_whole_in_the_call_that_frees_it)
{
	bool is_zero;
	auto *ptr = (char *)large_alloc(256 * MiB, 16, &is_zero);

	ASSERT_NE(ptr, nullptr);
	memset(ptr, 1, 256 * MiB);
	nr_calls = 0;
	large_free(ptr);
	if (!SLUB_CONFIG_HARDENED) {
		EXPECT_EQ(nr_calls, 1u);
		EXPECT_LE(idle(), MiB);
	}
}

TEST_F(purging, a_locked_page_goes_with_its_mapping)
{
	auto some = take(200 * MiB);

	locked.insert((uintptr_t)some.first + 101 * MiB);
	drop(some);
	page_purge(0);
	EXPECT_EQ(page_nr_stuck() + page_nr_dirty(), 0u);
	EXPECT_EQ(resident_pages(some.first, 200 * MiB), 0u);
}

TEST_F(purging, a_sealed_page_holds_up_its_own_superblock)
{
	auto some = take(200 * MiB);

	is_sealed = true;

	locked.insert((uintptr_t)some.first + 101 * MiB);
	drop(some);
	while (page_purge_if_needed())
		;
	EXPECT_EQ(page_nr_stuck(), SUPERBLOCK_PAGES);
	EXPECT_LE(idle(), MiB);
	EXPECT_LE(resident_pages(some.first, 200 * MiB) * PAGE_BYTES, idle() + SUPERBLOCK_BYTES);
	nr_calls = 0;
	for (int i = 0; i < 1000; i++)
		page_purge_if_needed();
	EXPECT_EQ(nr_calls, 0u) << "it is not tried again at once";
	locked.clear();
	page_purge(0);
	EXPECT_EQ(page_nr_stuck(), 0u) << "but whenever somebody asks for memory";
	EXPECT_EQ(resident_pages(some.first, 200 * MiB), 0u);
}

TEST_F(purging, what_is_set_aside_is_handed_out_again)
{
	auto some = take(20 * MiB);

	is_sealed = true;
	locked.insert((uintptr_t)some.first);
	drop(some);
	page_purge(0);
	ASSERT_EQ(page_nr_stuck(), SUPERBLOCK_PAGES);
	auto again = take(20 * MiB, false);
	EXPECT_EQ(again.first, some.first);
	EXPECT_EQ(page_nr_stuck(), 0u);
	EXPECT_EQ(again.first[0], 1) << "it was not zero, and nobody may take it for that";
	locked.clear();
	drop(again);
}

TEST_F(purging, a_locked_block_of_a_zone_holds_up_no_other)
{
	std::vector<void *> blocks;
	bool is_zero;

	for (int i = 0; i < 2000; i++) {
		blocks.push_back(zone_alloc(3, 0, &is_zero));
		*(char *)blocks.back() = 1;
	}
	for (int i = 0; i < 2000; i += 200)
		locked.insert((uintptr_t)blocks[i]);
	for (int i = 0; i < 2000; i += 2)
		zone_free(blocks[i], 3, 0, true);
	page_purge(0);
	EXPECT_EQ(page_nr_dirty(), 0u);
	EXPECT_EQ(page_nr_stuck(), 10u * 8);
	for (int i = 1; i < 2000; i += 2)
		zone_free(blocks[i], 3, 0, true);
	locked.clear();
	page_purge(0);
	EXPECT_EQ(page_nr_stuck() + page_nr_dirty(), 0u);
	EXPECT_EQ(resident_pages((void *)heap_start, pagemap_committed()), 0u);
}

/* As after mlockall(): each free tries in vain, and none of the next ones does. */
TEST_F(purging, a_kernel_that_refuses_everything_is_not_asked_again)
{
	all_is_locked = true;
	for (int round = 0; round < 3; round++) {
		if (round == 1)
			nr_calls = 0;
		for (int i = 0; i < 1000; i++) {
			auto one = take(8 * MiB, false);

			drop(one);
			page_purge_if_needed();
		}
	}
	EXPECT_LE(nr_calls, 64u) << "of 2,000 frees";
}

/* Address space that nobody touched is no memory, and nobody wants it back. */
TEST_F(purging, a_sparse_run_buys_no_regret)
{
	if (SLUB_CONFIG_HARDENED)
		GTEST_SKIP() << "a block between fences waits before it goes";
	size_t most = 0;

	/* As long as a call takes that finds nothing. */
	clock_step_ns = 300;
	for (int i = 0; i < 10; i++) {
		bool is_zero;
		auto *ptr = (char *)large_alloc(1024 * MiB, 16, &is_zero);

		ASSERT_NE(ptr, nullptr);
		ptr[0] = 1;
		large_free(ptr);
		most = std::max(most, page_budget());
	}
	EXPECT_LE(most, 2 * MiB);
	EXPECT_LE(resident_pages((void *)heap_start, pagemap_committed()), 2 * SUPERBLOCK_PAGES);
}

/* 37 KiB for each superblock, of which nothing is used. */
TEST_F(purging, descriptors_go_with_what_they_describe)
{
	std::vector<void *> blocks;
	bool is_zero;

	for (int i = 0; i < 500; i++)
		blocks.push_back(zone_alloc(BLOCK_ORDER_MAX, 0, &is_zero));
	for (void *block : blocks)
		zone_free(block, BLOCK_ORDER_MAX, 0, true);
	while (page_purge_if_needed())
		;
	EXPECT_LE(superblock_nr_clean() * DESCRIPTORS_BYTES + idle(), MiB);
}

} /* namespace */
