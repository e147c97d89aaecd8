/* SPDX-License-Identifier: MIT */
/* What the descriptors say about the heap, counted anew: for comparison with what is kept. */
#ifndef SLUB_TESTS_UNIT_WALK_H
#define SLUB_TESTS_UNIT_WALK_H

#include <gtest/gtest.h>
#include <map>
#include <sys/mman.h>
#include <vector>

#include "harness.h"
#include "slub.h"

struct free_block {
	uint32_t order;
	uint32_t node;
	bool dirty;
	size_t pages;	/* of them with memory */
};

/* All free blocks of the zones, by the number of their first page in the heap. */
inline std::map<size_t, free_block> free_blocks()
{
	std::map<size_t, free_block> blocks;
	size_t pages = pagemap_committed() / PAGE_BYTES;

	for (size_t i = 0; i < pages; i++) {
		struct page *page = page_of((char *)heap_start + i * PAGE_BYTES);

		if (page_type(page) == TYPE_FREE)
			blocks[i] = { page_order(page), page_node(page),
				      (page->flags & PAGE_DIRTY) != 0, page->count };
	}
	return blocks;
}

inline size_t count_dirty(const std::map<size_t, free_block> &blocks)
{
	size_t pages = 0;

	for (auto &[first, block] : blocks)
		pages += block.pages;
	return pages;
}

/*
 * @used: pages that somebody has, by number in the heap.  Every page of a superblock in use is
 * either in one free block or used by one, no two buddies are both free (PAGE-2), and the sums
 * that are kept are right.
 */
inline void expect_zones_whole(const std::vector<bool> &used, size_t used_by_others = 0)
{
	auto blocks = free_blocks();
	size_t total = 0, in_use = 0, next = 0;

	for (auto &[first, block] : blocks) {
		size_t size = (size_t)1 << block.order;

		ASSERT_LE(block.order, (uint32_t)BLOCK_ORDER_MAX);
		ASSERT_LE(block.pages, size);
		ASSERT_EQ(block.pages > 0, block.dirty);
		ASSERT_EQ(first % size, 0u) << "free block out of line";
		ASSERT_GE(first, next) << "free blocks overlap";
		next = first + size;
		total += size;
		auto buddy = blocks.find(first ^ size);
		ASSERT_FALSE(buddy != blocks.end() && buddy->second.order == block.order)
			<< "two free buddies at page " << first;
		for (size_t i = first; i < next; i++)
			ASSERT_FALSE(i < used.size() && used[i]) << "page " << i
								 << " free and in use";
	}
	for (bool one : used)
		in_use += one;
	EXPECT_EQ(zone_nr_dirty(), count_dirty(blocks));
	EXPECT_EQ(total + in_use + used_by_others, superblock_nr_used() * SUPERBLOCK_PAGES);
}

inline size_t heap_page(const void *addr)
{
	return ((uintptr_t)addr - heap_start) / PAGE_BYTES;
}

/* Pages of [start, start + bytes) that have memory behind them. */
inline size_t resident_pages(const void *start, size_t bytes)
{
	/* The system's pages may be larger. */
	const size_t unit = os_page_size(), from = round_down((uintptr_t)start, unit);
	const size_t end = (uintptr_t)start + bytes;
	std::vector<unsigned char> map(round_up(end - from, unit) / unit);
	size_t n = 0;

	if (mincore((void *)from, end - from, map.data()))
		return SIZE_MAX;
	for (uintptr_t at = (uintptr_t)start; at < end; at += PAGE_BYTES)
		n += map[(at - from) / unit] & 1;
	return n;
}

#endif
