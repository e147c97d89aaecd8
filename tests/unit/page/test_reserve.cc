/* SPDX-License-Identifier: MIT */
/*
 * features/reserve/reserve.c: blocks kept aside, taken, and made up for by the frees that follow.
 */
#include <atomic>
#include <gtest/gtest.h>
#include <thread>

#include "start.h"
#include "walk.h"

namespace {

const size_t MiB = 1ul << 20;

class reserve : public testing::Test {
protected:
	static void SetUpTestSuite()
	{
		start::once([] { start::page(64 * MiB, 16 * MiB, 2); });
	}
	void TearDown() override
	{
		page_limit_set(0);
		EXPECT_EQ(page_reserve_set(0), 0);
		page_purge(0);
		EXPECT_EQ(page_reserve_bytes(), 0u);
		EXPECT_EQ(page_reserve_short, 0u);
		EXPECT_EQ(page_used_bytes(), 0u);
		EXPECT_EQ(superblock_nr_used(), 0u) << "a block was lost";
	}
	static std::vector<std::pair<void *, uint32_t>> take_all(uint32_t order)
	{
		std::vector<std::pair<void *, uint32_t>> all;
		bool is_zero;

		for (uint32_t node = 0; node < 2; node++)
			while (void *block = zone_alloc(order, node, &is_zero))
				all.emplace_back(block, node);
		return all;
	}
	static void free_all(const std::vector<std::pair<void *, uint32_t>> &all, uint32_t order)
	{
		for (auto &[block, node] : all)
			zone_free(block, order, node, true);
	}
};

TEST_F(reserve, nothing_at_first)
{
	EXPECT_EQ(page_reserve_bytes(), 0u);
	EXPECT_EQ(page_reserve_take(0, 0), nullptr);
}

TEST_F(reserve, set_keeps_that_much_resident_and_used)
{
	EXPECT_EQ(page_reserve_set(MiB), 0);
	EXPECT_EQ(page_reserve_bytes(), MiB);
	EXPECT_EQ(page_used_bytes(), MiB);
	page_purge(0);
	EXPECT_EQ(resident_pages((void *)heap_start, pagemap_committed()), MiB / PAGE_BYTES);
	EXPECT_EQ(page_reserve_set(MiB + 1), 0);
	EXPECT_EQ(page_reserve_bytes(), MiB + RESERVE_BYTES) << "rounded up";
	EXPECT_EQ(page_reserve_set(100), 0);
	EXPECT_EQ(page_reserve_bytes(), RESERVE_BYTES);
}

/* Blocks that lie side by side, and the tail goes back at once. */
TEST_F(reserve, several_blocks_are_one_large_block)
{
	ASSERT_EQ(page_reserve_set(32 * RESERVE_BYTES), 0);
	for (size_t bytes : { RESERVE_BYTES, RESERVE_BYTES + 1, 5 * RESERVE_BYTES - PAGE_BYTES,
			      8 * RESERVE_BYTES }) {
		auto *block = (char *)reserve_take_large(bytes, PAGE_BYTES);
		size_t pages = (bytes + PAGE_BYTES - 1) / PAGE_BYTES;

		ASSERT_NE(block, nullptr) << bytes;
		EXPECT_EQ(pagemap_get(block), (uint32_t)MAP_LARGE);
		EXPECT_EQ(large_bytes(block), pages * PAGE_BYTES);
		EXPECT_EQ(large_nr_pages(), pages);
		memset(block, 0xff, pages * PAGE_BYTES);
		large_free(block);
		EXPECT_EQ(large_nr_pages(), 0u);
		EXPECT_EQ(page_reserve_bytes(), 32 * RESERVE_BYTES);
	}
	EXPECT_EQ(reserve_take_large((RESERVE_PAGES_MAX + 1) * PAGE_BYTES, PAGE_BYTES), nullptr);
	EXPECT_EQ(reserve_take_large(RESERVE_BYTES, (size_t)1 << 40), nullptr);
}

/* A hole in a row is none of it. */
TEST_F(reserve, a_row_has_no_holes)
{
	std::vector<char *> blocks;

	ASSERT_EQ(page_reserve_set(64 * RESERVE_BYTES), 0);
	for (uint32_t node = 0; node < 2; node++)
		while (auto *block = (char *)page_reserve_take(RESERVE_ORDER, node))
			blocks.push_back(block);
	ASSERT_EQ(blocks.size(), 64u);
	std::sort(blocks.begin(), blocks.end());
	auto all = take_all(0);
	/* Every second one goes back: nothing lies side by side. */
	for (size_t i = 0; i < blocks.size(); i += 2)
		zone_free(blocks[i], RESERVE_ORDER, page_node(page_of(blocks[i])), true);
	EXPECT_EQ(page_reserve_bytes(), 32 * RESERVE_BYTES);
	EXPECT_EQ(reserve_take_large(2 * RESERVE_BYTES, PAGE_BYTES), nullptr);
	EXPECT_EQ(page_reserve_bytes(), 32 * RESERVE_BYTES);
	void *one = reserve_take_large(RESERVE_BYTES, RESERVE_BYTES);
	EXPECT_NE(one, nullptr);
	for (size_t i = 1; i < blocks.size(); i += 2)
		zone_free(blocks[i], RESERVE_ORDER, page_node(page_of(blocks[i])), true);
	free_all(all, 0);
	large_free(one);
	EXPECT_EQ(page_reserve_bytes(), 64 * RESERVE_BYTES);
}

TEST_F(reserve, each_order_up_to_its_own)
{
	ASSERT_EQ(page_reserve_set(8 * RESERVE_BYTES), 0);
	page_purge(0);
	for (uint32_t order = 0; order <= RESERVE_ORDER; order++) {
		auto *block = (char *)page_reserve_take(order, 0);

		ASSERT_NE(block, nullptr);
		EXPECT_EQ((uintptr_t)block % (PAGE_BYTES << order), 0u);
		EXPECT_EQ(pagemap_get(block), (uint32_t)MAP_NONE);
		memset(block, 0xff, PAGE_BYTES << order);
		zone_free(block, order, page_node(page_of(block)), true);
		EXPECT_EQ(page_reserve_bytes(), 8 * RESERVE_BYTES) << "order " << order;
	}
	EXPECT_EQ(page_reserve_take(RESERVE_ORDER + 1, 0), nullptr);
}

TEST_F(reserve, works_when_all_else_fails)
{
	ASSERT_EQ(page_reserve_set(6 * RESERVE_BYTES), 0);
	auto all = take_all(BLOCK_ORDER_MAX);
	auto rest = take_all(0);
	std::vector<char *> taken;

	for (int i = 0; i < 6; i++) {
		taken.push_back((char *)page_reserve_take(RESERVE_ORDER, (uint32_t)i % 2));
		ASSERT_NE(taken.back(), nullptr);
		memset(taken.back(), 1, RESERVE_BYTES);
	}
	EXPECT_EQ(page_reserve_take(RESERVE_ORDER, 0), nullptr) << "used up";
	EXPECT_EQ(page_reserve_bytes(), 0u);
	free_all(rest, 0);
	free_all(all, BLOCK_ORDER_MAX);
	EXPECT_EQ(page_reserve_bytes(), 6 * RESERVE_BYTES);
	for (char *block : taken)
		zone_free(block, RESERVE_ORDER, page_node(page_of(block)), true);
}

TEST_F(reserve, works_beyond_the_limit)
{
	bool is_zero;

	ASSERT_EQ(page_reserve_set(RESERVE_BYTES), 0);
	page_limit_set(page_used_bytes());
	EXPECT_EQ(zone_alloc(0, 0, &is_zero), nullptr);
	void *block = page_reserve_take(RESERVE_ORDER, 0);
	EXPECT_NE(block, nullptr);
	EXPECT_EQ(zone_alloc(0, 0, &is_zero), nullptr);
	zone_free(block, RESERVE_ORDER, page_node(page_of(block)), true);
	EXPECT_EQ(page_reserve_bytes(), RESERVE_BYTES);
}

/* Whoever else wants the block that is freed comes second. */
TEST_F(reserve, refills_before_anyone_else_gets_something)
{
	bool is_zero;

	ASSERT_EQ(page_reserve_set(4 * RESERVE_BYTES), 0);
	auto all = take_all(BLOCK_ORDER_MAX);
	auto rest = take_all(0);
	for (int i = 0; i < 4; i++)
		all.emplace_back(page_reserve_take(RESERVE_ORDER, (uint32_t)i % 2), 9);
	ASSERT_EQ(page_reserve_short, 4u);
	/* A page at a time, node by node: eight that are one block make up for one. */
	std::sort(rest.begin(), rest.end(), [](auto &a, auto &b) {
		return std::make_pair(a.second, a.first) < std::make_pair(b.second, b.first);
	});
	std::vector<std::pair<void *, uint32_t>> others;
	for (auto &[block, node] : rest) {
		zone_free(block, 0, node, true);
		if (void *other = zone_alloc(RESERVE_ORDER, node, &is_zero)) {
			others.emplace_back(other, node);
			EXPECT_GE(page_reserve_bytes(), (node + 1) * 2 * RESERVE_BYTES);
		}
	}
	EXPECT_FALSE(others.empty());
	free_all(others, RESERVE_ORDER);
	size_t filled = page_reserve_bytes();
	for (auto &[block, node] : all) {
		if (node == 9)
			continue;
		zone_free(block, BLOCK_ORDER_MAX, node, true);
		EXPECT_GE(page_reserve_bytes(), std::min(filled + RESERVE_BYTES,
							 4 * RESERVE_BYTES));
		filled = page_reserve_bytes();
	}
	EXPECT_EQ(filled, 4 * RESERVE_BYTES);
	EXPECT_EQ(page_reserve_short, 0u);
	for (auto &[block, node] : all)
		if (node == 9)
			zone_free(block, RESERVE_ORDER, page_node(page_of(block)), true);
}

/* Otherwise nothing would be left to the program: all of it, and each free, would be kept. */
TEST_F(reserve, more_than_there_is_leaves_it_as_it_was)
{
	bool is_zero;
	void *used = zone_alloc(BLOCK_ORDER_MAX, 0, &is_zero);

	EXPECT_EQ(page_reserve_set(80 * MiB), -12);
	EXPECT_EQ(page_reserve_bytes(), 0u);
	EXPECT_EQ(page_reserve_set(MiB), 0);
	EXPECT_EQ(page_reserve_set(64 * MiB), -12);
	EXPECT_EQ(page_reserve_bytes(), MiB);
	EXPECT_EQ(page_reserve_short, 0u);
	void *block = zone_alloc(BLOCK_ORDER_MAX, 1, &is_zero);
	ASSERT_NE(block, nullptr);
	zone_free(block, BLOCK_ORDER_MAX, 1, true);
	zone_free(used, BLOCK_ORDER_MAX, 0, true);
	EXPECT_EQ(page_reserve_bytes(), MiB);
	page_limit_set(2 * MiB);
	EXPECT_EQ(page_reserve_set(3 * MiB), -12) << "the limit counts";
	EXPECT_EQ(page_reserve_bytes(), MiB);
	EXPECT_EQ(page_reserve_set(2 * MiB), 0);
}

TEST_F(reserve, an_unreachable_size_is_an_error_and_no_overflow)
{
	for (size_t bytes : { SIZE_MAX, SIZE_MAX - 4095, (size_t)1 << 47, 64 * MiB + 1 }) {
		EXPECT_EQ(page_reserve_set(bytes), -12);
		EXPECT_EQ(page_reserve_bytes(), 0u);
		EXPECT_EQ(superblock_nr_used(), 0u) << "nothing was tried";
	}
}

TEST_F(reserve, threads)
{
	std::atomic<int> failures{0};
	std::vector<std::thread> threads;

	ASSERT_EQ(page_reserve_set(2 * MiB), 0);
	for (int t = 0; t < 4; t++)
		threads.emplace_back([&, t] {
			harness::Random random((uint64_t)t);

			for (int i = 0; i < 20000; i++) {
				auto order = (uint32_t)random.below(RESERVE_ORDER + 1);
				bool is_zero, spare = random.below(2);
				auto node = (uint32_t)t % 2;
				auto *block = (char *)(spare ? page_reserve_take(order, node)
							     : zone_alloc(order, node, &is_zero));

				if (!block) {
					failures++;
					continue;
				}
				block[0] = (char)t;
				block[(PAGE_BYTES << order) - 1] = (char)t;
				if (block[0] != (char)t)
					failures++;
				zone_free(block, order, page_node(page_of(block)), true);
			}
		});
	for (auto &thread : threads)
		thread.join();
	EXPECT_EQ(failures, 0);
	page_reserve_refill();
	EXPECT_EQ(page_reserve_bytes(), 2 * MiB);
	EXPECT_EQ(page_used_bytes(), 2 * MiB);
}

} /* namespace */
