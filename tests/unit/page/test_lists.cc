/* SPDX-License-Identifier: MIT */
/* core/page/block.c: large blocks in the lists of a CPU, under the backend of SLUB_FASTPATH. */
#include <atomic>
#include <gtest/gtest.h>
#include <sched.h>
#include <thread>
#include <vector>

#include "lists.h"
#include "start.h"
#include "walk.h"


namespace {

std::atomic<int> barriers;

} /* namespace */

/* os_barrier_rseq() and os_barrier() of this program, by the linker's --wrap. */
extern "C" {

int __real_os_barrier_rseq();
int __wrap_os_barrier_rseq()
{
	barriers++;
	return __real_os_barrier_rseq();
}

int __real_os_barrier();
int __wrap_os_barrier()
{
	barriers++;
	return __real_os_barrier();
}

}

namespace {

const size_t MiB = 1ul << 20;

/* As a caller that has not seen a block kept: large_free() without its look at the budget. */
void give(void *block)
{
	size_t pages = page_of(block)->count;
	uint32_t flags = page_flags_read(page_of(block));

	large_unmark(block);
	large_give(block, pages, flags);
}

char *alloc(size_t bytes)
{
	bool is_zero;

	return (char *)large_alloc(bytes, 16, &is_zero);
}

/* @what on a CPU of its own, the second that this process may run on; false: there is none. */
template <typename What> bool on_another_cpu(What what)
{
	cpu_set_t may, one;
	int first = -1, second = -1;

	sched_getaffinity(0, sizeof(may), &may);
	for (int cpu = 0; cpu < CPU_SETSIZE && second < 0; cpu++)
		if (CPU_ISSET(cpu, &may))
			(first < 0 ? first : second) = cpu;
	if (second < 0 || !SLUB_CONFIG_SMP)
		return false;
	auto pin = [&](int cpu) {
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		sched_setaffinity(0, sizeof(one), &one);
		percpu_enter();
	};
	pin(first);
	std::atomic<bool> done{false};
	std::thread other([&] {
		pin(second);
		what();
		done = true;
	});
	/* A number that the kernel gives out anew belongs to a thread while it runs. */
	while (!done)
		;
	other.join();
	sched_setaffinity(0, sizeof(may), &may);
	return true;
}

class lists : public testing::Test {
protected:
	static void SetUpTestSuite()
	{
		start::once([] { start::page(256 * MiB, 1ul << 40); });
	}
	void SetUp() override
	{
		if (SLUB_CONFIG_HARDENED)
			GTEST_SKIP() << "blocks lie between fences, and wait before they go";
		if (!start::has_wanted_backend())
			GTEST_SKIP() << "this process cannot have that backend";
		if (!start::can_empty_lists())
			GTEST_SKIP() << "without membarrier(2) no CPU can be stopped";
		page_purge_all();
		ASSERT_EQ(superblock_nr_used(), 0u);
		ASSERT_EQ(quick_nr_pages(), 0u);
		barriers = 0;
	}
	void TearDown() override
	{
		if (IsSkipped())
			return;
		page_purge_all();
		EXPECT_EQ(quick_nr_pages(), 0u);
		EXPECT_EQ(large_nr_pages(), 0u);
		EXPECT_EQ(page_used_bytes(), 0u);
		EXPECT_EQ(superblock_nr_used(), 0u) << "a block was lost";
	}
};

TEST_F(lists, classes_are_eight_per_doubling)
{
	uint32_t class_ = 0;

	for (size_t pages = 9; pages <= 256; pages++) {
		ASSERT_TRUE(is_kept_size(pages));
		ASSERT_GE(kept_class(pages), class_);
		class_ = kept_class(pages);
		ASSERT_LT(class_, (uint32_t)KEPT_CLASSES);
		ASSERT_GE(kept_class_pages(class_), pages);
		ASSERT_LE(kept_class_pages(class_), pages + pages / 8);
	}
	EXPECT_FALSE(is_kept_size(8));
	EXPECT_FALSE(is_kept_size(257));
}

/* A size that nobody had yet: does it take clean memory, or what was kept? */
static size_t kept_beside(size_t pages)
{
	char *other = alloc(pages * PAGE_BYTES);
	size_t kept = quick_nr_pages();

	give(other);
	return kept;
}

TEST_F(lists, many_blocks_of_a_class_keep_their_places)
{
	start::one_cpu stays;
	std::vector<char *> mine;
	size_t freed = 0;

	for (size_t i = 0; i < KEPT_CLASSES * 64 + 300; i++)
		mine.push_back(alloc(16 * PAGE_BYTES));
	/* No two side by side: merged they serve nobody, and all go. */
	for (; freed < 100; freed++)
		give(mine[2 * freed]);
	EXPECT_EQ(kept_beside(10), 1600u);
	/* More than an eighth of what is in use. */
	for (; freed < 450; freed++)
		give(mine[2 * freed]);
	EXPECT_EQ(kept_beside(11), 0u);
	for (size_t i = 0; i < mine.size(); i++)
		if (i % 2 || i >= 2 * freed)
			give(mine[i]);
}

TEST_F(lists, few_blocks_of_a_class_are_merged_for_another_size)
{
	start::one_cpu stays;
	std::vector<char *> mine;

	for (int i = 0; i < 200; i++)
		mine.push_back(alloc(9 * PAGE_BYTES));
	for (int i = 0; i < 20; i += 2)
		give(mine[i]);
	EXPECT_EQ(kept_beside(10), 0u);
	for (int i = 0; i < 200; i++)
		if (i % 2 || i >= 20)
			give(mine[i]);
}

TEST_F(lists, what_was_freed_last_comes_back_first_and_is_counted)
{
	start::one_cpu stays;

	/* One of 1 MiB is mapped anew at its first free. */
	for (size_t pages = 9; pages <= 240; pages++) {
		char *one = alloc(pages * PAGE_BYTES), *two = alloc(pages * PAGE_BYTES);
		size_t whole = page_of(one)->count, kept = quick_nr_pages();

		give(one);
		give(two);
		ASSERT_EQ(quick_nr_pages(), kept + 2 * whole) << pages;
		ASSERT_EQ(large_nr_pages(), 0u);
		ASSERT_EQ(alloc(pages * PAGE_BYTES), two);
		ASSERT_EQ(alloc(whole * PAGE_BYTES), one);
		ASSERT_EQ(quick_nr_pages(), kept);
		give(one);
		give(two);
	}
}

/* Many more than a word hides, of all classes: each is there once, and the sum is right. */
TEST_F(lists, a_sum_is_right_however_often_a_word_is_folded)
{
	start::one_cpu stays;
	harness::Random random(3);
	std::vector<char *> mine;
	size_t kept = 0;

	for (int i = 0; i < 20000; i++) {
		if (random.below(2) && mine.size() < 100) {
			size_t bytes = (random.below(232) + 9) * PAGE_BYTES;
			size_t before = quick_nr_pages();

			mine.push_back(alloc(bytes));
			ASSERT_NE(mine.back(), nullptr);
			ASSERT_LE(quick_nr_pages(), before);
			kept = quick_nr_pages();
		} else if (!mine.empty()) {
			kept += page_of(mine.back())->count;
			give(mine.back());
			mine.pop_back();
			ASSERT_EQ(quick_nr_pages(), kept);
		}
	}
	for (char *one : mine)
		give(one);
}

TEST_F(lists, another_cpu_has_others_and_is_not_stopped_for_them)
{
	size_t kept = 0;
	char *here = nullptr, *there = nullptr;

	if (!on_another_cpu([&] { here = alloc(100000); give(here); kept = quick_nr_pages(); }))
		GTEST_SKIP() << "one CPU";
	EXPECT_EQ(kept, 26u);
	start::one_cpu stays;
	there = alloc(100000);
	if (percpu_backend != BACKEND_RSEQ) {
		EXPECT_EQ(there, here) << "what needs no stop goes before clean memory";
		give(there);
		return;
	}
	give(there);
	if (there == here)
		GTEST_SKIP() << "the kernel gave that thread's number to this one";
	/* Without a stop: its own alone, and what no CPU has to be stopped for. */
	quick_flush_here();
	EXPECT_EQ(barriers, 0);
	EXPECT_EQ(quick_nr_pages(), 26u);
	block_flush(COLLECT_LISTS);
	EXPECT_EQ(quick_nr_pages(), 0u);
	EXPECT_EQ(barriers, 1);
}

/* An ordinary free that finds too much idle memory takes its own lists, and stops nobody. */
TEST_F(lists, a_free_stops_no_cpu)
{
	std::vector<char *> mine;

	for (int i = 0; i < 200; i++)
		mine.push_back(alloc(200000));
	for (char *one : mine)
		large_free(one);
	page_purge(0);
	EXPECT_EQ(barriers, 0);
}

/* It merges what was freed in another size before it takes clean memory. */
TEST_F(lists, a_request_of_another_size_takes_them_first)
{
	start::one_cpu stays;
	std::vector<char *> mine;
	size_t superblocks;

	for (int i = 0; i < 32; i++)
		mine.push_back(alloc(64 * PAGE_BYTES));
	superblocks = superblock_nr_used();
	for (char *one : mine)
		give(one);
	EXPECT_EQ(quick_nr_pages(), 32 * 64u);
	mine.clear();
	for (int i = 0; i < 8; i++)
		mine.push_back(alloc(256 * PAGE_BYTES));
	EXPECT_EQ(superblock_nr_used(), superblocks);
	for (char *one : mine)
		give(one);
}

/* Each page has one owner at a time, while other threads stop CPUs and merge. */
TEST_F(lists, threads)
{
	std::vector<std::atomic<int>> owner(256 * MiB >> PAGE_SHIFT);
	std::atomic<int> errors{0}, nr_done{0};
	std::vector<std::thread> threads;

	for (int t = 1; t <= 4; t++)
		threads.emplace_back([&, t] {
			std::vector<char *> mine;
			harness::Random random((uint64_t)t);

			percpu_enter();
			for (int i = 0; i < 10000; i++) {
				if (mine.size() < 30 && random.below(2)) {
					size_t size = 1ul << (16 + random.below(4));
					char *one = alloc(size + random.below(size));

					if (!one)
						continue;
					errors += owner[heap_page(one)].exchange(t) != 0;
					errors += owner[heap_page(one) + page_of(one)->count - 1]
							  .exchange(t) != 0;
					mine.push_back(one);
				} else if (!mine.empty()) {
					char *one = mine.back();

					mine.pop_back();
					errors += owner[heap_page(one)].exchange(0) != t;
					errors += owner[heap_page(one) + page_of(one)->count - 1]
							  .exchange(0) != t;
					give(one);
				}
				if (t == 1 && i % 500 == 0)
					block_flush(COLLECT_LISTS);
				if (t == 2 && i % 700 == 0)
					page_purge(0);
			}
			for (char *one : mine) {
				owner[heap_page(one)] = 0;
				owner[heap_page(one) + page_of(one)->count - 1] = 0;
				give(one);
			}
			nr_done++;
		});
	for (auto &thread : threads)
		thread.join();
	EXPECT_EQ(errors, 0);
	EXPECT_EQ(nr_done, 4);
	EXPECT_EQ(large_nr_pages(), 0u);
}

/* A child has what its parent had, and may take and give it. */
TEST_F(lists, a_forked_child_has_them)
{
	start::one_cpu stays;
	char *one = alloc(200000);

	give(one);
	EXPECT_EQ(harness::in_child([&] {
		if (quick_nr_pages() != 52)
			_exit(1);
		char *two = alloc(200000);
		if (!two || quick_nr_pages() != (two == one ? 0u : 52u))
			_exit(2);
		give(two);
		_exit(0);
	}), 0);
}

} /* namespace */
