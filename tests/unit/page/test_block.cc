/* SPDX-License-Identifier: MIT */
/* core/page/block.c: blocks through the lists of a CPU, under the backend of SLUB_FASTPATH. */
#include <atomic>
#include <cerrno>
#include <gtest/gtest.h>
#include <mutex>
#include <thread>

#include "lists.h"
#include "start.h"
#include "walk.h"

namespace {

bool populate_breaks_off;

} /* namespace */

/* os_populate() of this program, by the linker's --wrap. */
extern "C" {

int __real_os_populate(void *start, size_t bytes);

int __wrap_os_populate(void *start, size_t bytes)
{
	if (!populate_breaks_off)
		return __real_os_populate(start, bytes);
	for (size_t at = 0; at < bytes / 2; at += PAGE_BYTES)
		((volatile char *)start)[at] = 0;
	return -ENOMEM;
}

}

namespace {

class block : public testing::Test {
protected:
	static void SetUpTestSuite()
	{
		start::once([] { start::page(256ul << 20, 1ul << 40); });
	}
	void SetUp() override
	{
		if (!start::has_wanted_backend())
			GTEST_SKIP() << "this process cannot have that backend";
		if (!start::can_empty_lists())
			GTEST_SKIP() << "without membarrier(2) no CPU can be stopped";
		empty_lists();
		ASSERT_EQ(superblock_nr_used(), 0u);
	}
	void TearDown() override
	{
		if (IsSkipped())
			return;
		empty_lists();
		EXPECT_EQ(superblock_nr_used(), 0u) << "a block was lost";
		EXPECT_TRUE(free_blocks().empty());
	}
	static void empty_lists()
	{
		struct collection all;

		ASSERT_TRUE(percpu_collect_begin(&all, COLLECT_USED));
		while (percpu_collect(&all)) {
			for (uint32_t i = 0; i < all.nr_lists; i++)
				if (block_owns_slot(collection_slot(&all, i)))
					block_free_collected(collection_slot(&all, i),
							     &all.lists[i]);
		}
		percpu_collect_end();
	}
};

TEST_F(block, special_slots_are_nobody_s)
{
	size_t owned = 0;

	for (uint32_t s = 0; s < MAP_SPECIAL_END; s += SLOT_BYTES)
		EXPECT_FALSE(block_owns_slot(s)) << s;
	for (uint32_t s = 0; s < AREA_BYTES; s += SLOT_BYTES)
		owned += block_owns_slot(s);
	EXPECT_EQ(owned, (size_t)BLOCK_ORDER_MAX + 1 + KEPT_CLASSES);
}

TEST_F(block, what_was_freed_last_comes_back_first)
{
	start::one_cpu stays;

	for (uint32_t order = 0; order <= BLOCK_ORDER_MAX; order++) {
		bool is_zero = false;
		void *one = block_alloc(order, 0, &is_zero), *two = block_alloc(order, 0, nullptr);

		ASSERT_NE(one, nullptr);
		EXPECT_TRUE(order > 0 || is_zero) << "fresh from the system";
		EXPECT_EQ((uintptr_t)one % (PAGE_BYTES << order), 0u);
		EXPECT_EQ(pagemap_get(one), (uint32_t)MAP_NONE);
		block_free(one, order, 0);
		block_free(two, order, 0);
		EXPECT_EQ(block_alloc(order, 0, &is_zero), two);
		EXPECT_FALSE(is_zero) << "whoever had it may have written to it";
		EXPECT_EQ(block_alloc(order, 0, &is_zero), one);
		EXPECT_FALSE(is_zero);
		block_free(one, order, 0);
		block_free(two, order, 0);
	}
}

TEST_F(block, freeing_touches_no_memory_of_the_block)
{
	start::one_cpu stays;
	char *one = (char *)block_alloc(3, 0, nullptr);

	harness::fill(one, PAGE_BYTES << 3, 5);
	block_free(one, 3, 0);
	ASSERT_EQ(block_alloc(3, 0, nullptr), one);
	EXPECT_TRUE(harness::intact(one, PAGE_BYTES << 3, 5));
	block_free(one, 3, 0);
}

bool kernel_can_populate()
{
	void *page = mmap(nullptr, PAGE_BYTES, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool can = madvise(page, PAGE_BYTES, 23 /* MADV_POPULATE_WRITE */) == 0;

	munmap(page, PAGE_BYTES);
	return can;
}

/* Its memory is there, and so is what the next blocks are taken from, as idle memory. */
TEST_F(block, a_touched_block_brings_its_window)
{
	if (os_page_size() != PAGE_BYTES)
		GTEST_SKIP() << "the system's pages are larger";
	if (!kernel_can_populate() || harness::is_emulated())
		GTEST_SKIP() << "Linux before 5.14, or an emulator, which ignores this advice";
	page_purge_all();
	ASSERT_EQ(page_nr_dirty(), 0u);
	auto *one = (char *)block_alloc_touched(1, 0);
	ASSERT_NE(one, nullptr);
	EXPECT_EQ(resident_pages(one, 16 * PAGE_BYTES), 16u);
	EXPECT_EQ(resident_pages(one + 16 * PAGE_BYTES, 16 * PAGE_BYTES), 0u);
	EXPECT_EQ(page_nr_dirty(), 14u);
	expect_zones_whole([&] {
		std::vector<bool> used(256ul << (20 - PAGE_SHIFT));
		used[heap_page(one)] = used[heap_page(one) + 1] = true;
		return used;
	}());
	/* Not again for one of these, nor for what was not said to be touched. */
	auto *two = (char *)block_alloc_touched(1, 0);
	EXPECT_EQ(two, one + 2 * PAGE_BYTES);
	EXPECT_EQ(page_nr_dirty(), 12u);
	auto *large = (char *)block_alloc(5, 0, nullptr);
	EXPECT_EQ(resident_pages(large, 32 * PAGE_BYTES), 0u);
	/* One larger than a window is a window. */
	auto *larger = (char *)block_alloc_touched(6, 0);
	EXPECT_EQ(resident_pages(larger, 64 * PAGE_BYTES), 64u);
	EXPECT_EQ(page_nr_dirty(), 12u);
	block_free(one, 1, 0);
	block_free(two, 1, 0);
	block_free(large, 5, 0);
	block_free(larger, 6, 0);
}

/* The memory of half of it is there, and nobody would ever give it back. */
TEST_F(block, a_window_that_broke_off_is_idle_memory)
{
	if (os_page_size() != PAGE_BYTES)
		GTEST_SKIP() << "the system's pages are larger";
	page_purge_all();
	populate_breaks_off = true;
	auto *one = (char *)block_alloc_touched(0, 0);
	populate_breaks_off = false;
	ASSERT_NE(one, nullptr);
	EXPECT_EQ(resident_pages(one, 16 * PAGE_BYTES), 8u);
	page_purge_all();
	EXPECT_EQ(resident_pages(one, 16 * PAGE_BYTES), 1u);
	block_free(one, 0, 0);
}

/* At most 128 KiB, or two blocks where these are larger, stay with the CPU. */
TEST_F(block, a_full_list_goes_back_whole)
{
	start::one_cpu stays;

	for (uint32_t order = 0; order <= BLOCK_ORDER_MAX; order++) {
		std::vector<void *> blocks;
		size_t most = std::max<size_t>((128ul << 10) / (PAGE_BYTES << order), 2);

		for (int i = 0; i < 64; i++)
			blocks.push_back(block_alloc(order, 0, nullptr));
		for (void *one : blocks)
			block_free(one, order, 0);
		size_t in_zones = 0;
		for (auto &[first, free] : free_blocks())
			in_zones += (size_t)1 << free.order;
		size_t kept = (superblock_nr_used() * SUPERBLOCK_PAGES - in_zones) >> order;
		EXPECT_LE(kept, most) << "order " << order;
		empty_lists();
		EXPECT_EQ(superblock_nr_used(), 0u) << "order " << order;
	}
}

TEST_F(block, random_operations)
{
	std::vector<bool> used(256ul << (20 - PAGE_SHIFT));
	std::vector<std::pair<char *, uint32_t>> mine;
	harness::Random random(11);

	for (int i = 0; i < 40000; i++) {
		if (random.below(400) > mine.size()) {
			auto order = (uint32_t)random.below(random.below(BLOCK_ORDER_MAX + 1) + 1);
			bool is_zero = false;
			auto *start = (char *)block_alloc(order, 0, &is_zero);
			size_t bytes = PAGE_BYTES << order;

			ASSERT_NE(start, nullptr);
			if (is_zero) {
				ASSERT_EQ(harness::first_nonzero(start, bytes), bytes);
			}
			memset(start + random.below(bytes - 8), 0xff, 8);
			for (size_t p = 0; p < (size_t)1 << order; p++) {
				ASSERT_FALSE(used[heap_page(start) + p]);
				used[heap_page(start) + p] = true;
			}
			mine.emplace_back(start, order);
		} else if (!mine.empty()) {
			size_t at = random.below(mine.size());
			auto [start, order] = mine[at];

			mine[at] = mine.back();
			mine.pop_back();
			for (size_t p = 0; p < (size_t)1 << order; p++)
				used[heap_page(start) + p] = false;
			block_free(start, order, 0);
		}
		if (i % 4000 == 0) {
			empty_lists();
			ASSERT_NO_FATAL_FAILURE(expect_zones_whole(used));
		}
		if (i % 1500 == 0)
			page_purge(random.below(2) * (1ul << 20));
	}
	for (auto &[start, order] : mine)
		block_free(start, order, 0);
}

/* Each page has one owner at a time, while lists are emptied now and then. */
TEST_F(block, threads)
{
	std::vector<std::atomic<int>> owner(256ul << (20 - PAGE_SHIFT));
	std::atomic<int> errors{0};
	auto own = [&](char *start, size_t p) -> auto & { return owner[heap_page(start) + p]; };
	std::vector<std::thread> threads;

	for (int t = 1; t <= 4; t++)
		threads.emplace_back([&, t] {
			std::vector<std::pair<char *, uint32_t>> mine;
			harness::Random random((uint64_t)t);

			percpu_enter();
			for (int i = 0; i < 20000; i++) {
				uint32_t order = (uint32_t)random.below(5);

				if (mine.size() < 50 && random.below(2)) {
					auto *start = (char *)block_alloc(order, 0, nullptr);
					for (size_t p = 0; p < 1ul << order; p++)
						errors += own(start, p).exchange(t) != 0;
					mine.emplace_back(start, order);
				} else if (!mine.empty()) {
					auto [start, old] = mine.back();
					mine.pop_back();
					for (size_t p = 0; p < 1ul << old; p++)
						errors += own(start, p).exchange(0) != t;
					block_free(start, old, 0);
				}
				if (t == 1 && i % 500 == 0)
					empty_lists();
			}
			for (auto &[start, order] : mine) {
				for (size_t p = 0; p < 1ul << order; p++)
					errors += own(start, p).exchange(0) != t;
				block_free(start, order, 0);
			}
		});
	for (auto &thread : threads)
		thread.join();
	EXPECT_EQ(errors, 0);
}

} /* namespace */
