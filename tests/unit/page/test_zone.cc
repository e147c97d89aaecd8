/* SPDX-License-Identifier: MIT */
/* core/page/zone.c: buddies, against a map of who has which page. */
#include <algorithm>
#include <gtest/gtest.h>

#include "giving.h"
#include "start.h"
#include "walk.h"

namespace {

const size_t heap_bytes = 96ul << 20;

struct block {
	char *start;
	uint32_t order;
	uint32_t node;
	bool written;
	bool clean;	/* it was, and nobody wrote to it */
};

class zone : public testing::Test {
protected:
	static void SetUpTestSuite()
	{
		start::once([] { start::page(heap_bytes, 64ul << 20, 2); });
	}
	void TearDown() override
	{
		release_all();
		expect_all_merged();
	}
	std::vector<bool> used = std::vector<bool>(heap_bytes / PAGE_BYTES);
	std::vector<block> blocks;
	harness::Random random{1};
	bool look_inside = true;

	bool alloc(uint32_t order, uint32_t node)
	{
		bool is_zero = false;
		auto *start = (char *)zone_alloc(order, node, &is_zero);
		size_t bytes = PAGE_BYTES << order;

		if (!start)
			return false;
		EXPECT_EQ((uintptr_t)start % bytes, 0u);
		EXPECT_GE((uintptr_t)start, heap_start);
		EXPECT_LE((uintptr_t)start + bytes, heap_start + pagemap_committed());
		EXPECT_NE(page_type(page_of(start)), TYPE_FREE);
		for (size_t i = 0; i < (size_t)1 << order; i++) {
			EXPECT_FALSE(used[heap_page(start) + i]) << "given out twice";
			used[heap_page(start) + i] = true;
		}
		/* Reading maps the system's zero page. */
		if (is_zero && look_inside) {
			EXPECT_EQ(harness::first_nonzero(start, bytes), bytes) << "not zero";
		}
		/* A block nobody writes to stays what it is. */
		bool write = random.below(3) != 0;
		for (size_t i = 0; write && i < bytes; i += 512)
			start[i] = 1;
		blocks.push_back({ start, order, node, write, is_zero && !write });
		return true;
	}
	void release(size_t at)
	{
		struct block block = blocks[at];

		blocks[at] = blocks.back();
		blocks.pop_back();
		for (size_t i = 0; i < (size_t)1 << block.order; i++)
			used[heap_page(block.start) + i] = false;
		zone_free(block.start, block.order, block.node, !block.clean);
	}
	void release_all()
	{
		while (!blocks.empty())
			release(random.below(blocks.size()));
	}
	void expect_all_merged()
	{
		EXPECT_TRUE(free_blocks().empty()) << "a superblock was not put together again";
		EXPECT_EQ(superblock_nr_used(), 0u);
		EXPECT_EQ(zone_nr_dirty(), 0u);
	}
};

TEST_F(zone, one_block_of_each_order)
{
	for (uint32_t order = 0; order <= BLOCK_ORDER_MAX; order++) {
		ASSERT_TRUE(alloc(order, 0));
		EXPECT_EQ(superblock_nr_used(), 1u);
		expect_zones_whole(used);
		release_all();
		expect_all_merged();
	}
}

TEST_F(zone, smallest_fitting_block_is_split)
{
	/* 256 + 128 + ... + 1 + 1 pages: the whole superblock, without another one. */
	for (uint32_t order = BLOCK_ORDER_MAX + 1; order-- > 0;)
		ASSERT_TRUE(alloc(order, 0));
	EXPECT_EQ(superblock_nr_used(), 1u);
	ASSERT_TRUE(alloc(0, 0));
	EXPECT_EQ(superblock_nr_used(), 1u);
	EXPECT_TRUE(free_blocks().empty());
	ASSERT_TRUE(alloc(0, 0));
	EXPECT_EQ(superblock_nr_used(), 2u);
	expect_zones_whole(used);
}

TEST_F(zone, dirty_blocks_go_first)
{
	bool is_zero;
	void *keep = zone_alloc(0, 0, &is_zero);
	void *one = zone_alloc(0, 0, &is_zero);
	void *two = zone_alloc(1, 0, &is_zero);

	/* Two single pages are free now: one clean, one dirty. */
	zone_free(two, 1, 0, false);
	void *clean = zone_alloc(0, 0, &is_zero);
	void *second = zone_alloc(0, 0, &is_zero);
	zone_free(clean, 0, 0, false);
	zone_free(one, 0, 0, true);
	EXPECT_EQ(zone_alloc(0, 0, &is_zero), one);
	EXPECT_FALSE(is_zero);
	zone_free(one, 0, 0, true);
	zone_free(second, 0, 0, true);
	zone_free(keep, 0, 0, true);
	expect_all_merged();
}

/* What is merged of both kinds counts what has memory, and its parts have a share of it. */
TEST_F(zone, a_merged_block_counts_the_pages_with_memory)
{
	bool is_zero;
	void *one, *two;

	page_purge_all();
	one = zone_alloc(4, 0, &is_zero);
	two = zone_alloc(4, 0, &is_zero);
	ASSERT_EQ(zone_nr_dirty(), 0u);
	zone_free(one, 4, 0, true);
	EXPECT_EQ(zone_nr_dirty(), 16u);
	zone_free(two, 4, 0, false);
	EXPECT_EQ(zone_nr_dirty(), 0u) << "it was merged to a superblock";
	EXPECT_EQ(superblock_nr_dirty(), 16u) << "and all the rest is clean";
	one = zone_alloc(BLOCK_ORDER_MAX, 0, &is_zero);
	EXPECT_FALSE(is_zero) << "nobody knows which";
	EXPECT_EQ(superblock_nr_dirty(), 0u);
	EXPECT_EQ(zone_nr_dirty(), 8u) << "half of it has half of them";
	two = zone_alloc(0, 0, &is_zero);
	EXPECT_FALSE(is_zero);
	expect_zones_whole([&] {
		std::vector<bool> mine(heap_bytes / PAGE_BYTES);
		for (size_t p = 0; p < 256; p++)
			mine[heap_page(one) + p] = true;
		mine[heap_page(two)] = true;
		return mine;
	}());
	zone_free(one, BLOCK_ORDER_MAX, 0, true);
	zone_free(two, 0, 0, true);
	expect_all_merged();
	page_purge(0);
	EXPECT_EQ(page_nr_dirty(), 0u);
}

/*
 * Idle memory that is enough, but in two halves of different blocks, serves a request before
 * clean memory does; one that asks for an alignment, or for a power of two, does not get it.
 */
TEST_F(zone, a_row_goes_before_clean_memory)
{
	std::vector<bool> mine(heap_bytes / PAGE_BYTES);
	auto take = [&](void *start, size_t pages, bool is_taken) {
		for (size_t p = 0; p < pages; p++)
			mine[heap_page(start) + p] = is_taken;
	};
	char *quarters[4], *row, *aligned;
	bool is_zero;

	for (auto &quarter : quarters) {
		quarter = (char *)zone_alloc(7, 0, &is_zero);
		ASSERT_NE(quarter, nullptr);
		take(quarter, 128, true);
	}
	ASSERT_EQ(superblock_nr_used(), 1u);
	std::sort(quarters, quarters + 4);
	for (int i : { 1, 2 }) {
		zone_free(quarters[i], 7, 0, true);
		take(quarters[i], 128, false);
	}
	aligned = (char *)zone_alloc_front(200, 512 << 10, 0, &is_zero);
	EXPECT_EQ((uintptr_t)aligned % (512 << 10), 0u);
	EXPECT_EQ(superblock_nr_used(), 2u);
	for (size_t p = 200; p-- > 0;)
		zone_free(aligned + p * PAGE_BYTES, 0, 0, false);
	ASSERT_EQ(superblock_nr_used(), 1u);
	row = (char *)zone_alloc_front(200, PAGE_BYTES, 0, &is_zero);
	EXPECT_EQ(row, quarters[1]);
	EXPECT_FALSE(is_zero);
	EXPECT_EQ(superblock_nr_used(), 1u) << "no more memory";
	take(row, 200, true);
	expect_zones_whole(mine);
	for (size_t p = 200; p-- > 0;)
		zone_free(row + p * PAGE_BYTES, 0, 0, true);
	zone_free(quarters[0], 7, 0, true);
	zone_free(quarters[3], 7, 0, true);
	expect_all_merged();
}

/* Requests of any number of pages: none is given out twice, and all is put together again. */
TEST_F(zone, rows_at_random)
{
	std::vector<bool> mine(heap_bytes / PAGE_BYTES);
	std::vector<std::pair<char *, size_t>> taken;
	bool is_zero;

	for (int i = 0; i < 20000; i++) {
		if (taken.size() < 100 || (taken.size() < 300 && random.below(2))) {
			size_t pages = 1 + random.below(1 + random.below(200));
			size_t align = random.below(8) ? PAGE_BYTES : 16 * PAGE_BYTES;
			char *start = (char *)zone_alloc_front(pages, align, 0, &is_zero);

			if (!start)
				continue;
			ASSERT_EQ((uintptr_t)start % align, 0u);
			for (size_t p = 0; p < pages; p++) {
				ASSERT_FALSE(mine[heap_page(start) + p]) << "given out twice";
				mine[heap_page(start) + p] = true;
			}
			taken.emplace_back(start, pages);
		} else {
			std::swap(taken[random.below(taken.size())], taken.back());
			auto [start, pages] = taken.back();
			taken.pop_back();
			for (size_t p = 0; p < pages; p++) {
				mine[heap_page(start) + p] = false;
				zone_free(start + p * PAGE_BYTES, 0, 0, true);
			}
		}
		if (i % 500 == 0) {
			ASSERT_NO_FATAL_FAILURE(expect_zones_whole(mine));
		}
	}
	for (auto [start, pages] : taken) {
		for (size_t p = 0; p < pages; p++)
			zone_free(start + p * PAGE_BYTES, 0, 0, true);
	}
	expect_all_merged();
}

TEST_F(zone, random_operations)
{
	for (int i = 0; i < 30000; i++) {
		bool grow = random.below(2 * 400) > blocks.size();

		if (grow || blocks.empty()) {
			/* Small orders more often, all of them often enough. */
			uint64_t most = random.below(BLOCK_ORDER_MAX + 1);
			alloc((uint32_t)random.below(most + 1), (uint32_t)random.below(2));
		} else {
			release(random.below(blocks.size()));
		}
		if (i % 500 == 0) {
			ASSERT_NO_FATAL_FAILURE(expect_zones_whole(used));
		}
		ASSERT_FALSE(HasFailure()) << "operation " << i;
	}
	expect_zones_whole(used);
}

TEST_F(zone, exhaustion_is_an_answer_and_is_survived)
{
	size_t n = 0;

	while (alloc(BLOCK_ORDER_MAX, 0))
		n++;
	EXPECT_EQ(n, heap_bytes / (PAGE_BYTES << BLOCK_ORDER_MAX));
	EXPECT_FALSE(alloc(0, 0));
	EXPECT_FALSE(alloc(0, 1));
	release(0);
	EXPECT_TRUE(alloc(3, 0));
	expect_zones_whole(used);
}

TEST_F(zone, nodes_do_not_share_superblocks)
{
	for (int i = 0; i < 200; i++)
		ASSERT_TRUE(alloc((uint32_t)random.below(4), (uint32_t)i % 2));
	std::map<size_t, uint32_t> owner;
	for (auto &block : blocks) {
		size_t superblock = heap_page(block.start) / SUPERBLOCK_PAGES;

		auto [at, fresh] = owner.emplace(superblock, block.node);
		EXPECT_TRUE(fresh || at->second == block.node);
	}
	for (auto &[first, block] : free_blocks()) {
		auto at = owner.find(first / SUPERBLOCK_PAGES);

		EXPECT_TRUE(at == owner.end() || at->second == block.node);
	}
}

TEST_F(zone, purge_leaves_clean_blocks_with_no_memory_behind)
{
	if (os_page_size() != PAGE_BYTES)
		GTEST_SKIP() << "the system's pages are larger";
	look_inside = false;
	for (int i = 0; i < 300; i++)
		ASSERT_TRUE(alloc((uint32_t)random.below(6), (uint32_t)random.below(2)));
	for (int i = 0; i < 150; i++)
		release(random.below(blocks.size()));
	size_t before = zone_nr_dirty();
	ASSERT_GT(before, 100u);
	purge_zones(superblock_nr_dirty() + before / 2);
	EXPECT_LE(zone_nr_dirty(), before / 2);
	expect_zones_whole(used);
	/* What is in use kept its contents, what is clean has no memory. */
	purge_zones(0);
	EXPECT_EQ(zone_nr_dirty(), 0u);
	expect_zones_whole(used);
	for (auto &[first, block] : free_blocks()) {
		char *start = (char *)heap_start + first * PAGE_BYTES;

		EXPECT_FALSE(block.dirty);
		EXPECT_EQ(resident_pages(start, PAGE_BYTES << block.order), 0u);
	}
	for (auto &block : blocks) {
		if (block.written) {
			EXPECT_EQ(block.start[512], 1);
		}
	}
}

} /* namespace */
