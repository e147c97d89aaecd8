/* SPDX-License-Identifier: MIT */
/* core/page/large.c: blocks of any number of pages, grown, shrunk and moved. */
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include "start.h"
#include "walk.h"

namespace {

const size_t MiB = 1ul << 20;

class large : public testing::Test {
protected:
	static void SetUpTestSuite()
	{
		start::once([] { start::page(256 * MiB, 1ul << 40); });
	}
	void SetUp() override
	{
		if (SLUB_CONFIG_HARDENED)
			GTEST_SKIP() << "blocks lie between fences, and wait before they go";
		page_purge(0);
		ASSERT_EQ(large_nr_pages(), 0u);
	}
	/* Each has its harness::fill() in the first @bytes, by number; then nothing is left. */
	static void free_intact(const std::vector<char *> &blocks, size_t bytes)
	{
		for (size_t i = 0; i < blocks.size(); i++) {
			EXPECT_TRUE(harness::intact(blocks[i], bytes, i));
			large_free(blocks[i]);
		}
		EXPECT_EQ(large_nr_pages(), 0u);
		page_purge(0);
		EXPECT_EQ(superblock_nr_used(), 0u);
		EXPECT_EQ(page_used_bytes(), 0u);
	}
	char *alloc(size_t bytes, size_t align = 16)
	{
		bool is_zero = false;
		auto *ptr = (char *)large_alloc(bytes, align, &is_zero);

		if (!ptr) {
			ADD_FAILURE() << "no memory for " << bytes;
			return nullptr;
		}
		EXPECT_EQ((uintptr_t)ptr % std::max(align, PAGE_BYTES), 0u);
		EXPECT_GE(large_bytes(ptr), bytes);
		EXPECT_LT(large_bytes(ptr), std::max<size_t>(bytes, 1) + bytes / 8 + PAGE_BYTES);
		EXPECT_EQ(pagemap_get(ptr), (uint32_t)MAP_LARGE);
		EXPECT_EQ(page_type(page_of(ptr)), TYPE_LARGE);
		if (large_bytes(ptr) > PAGE_BYTES) {
			EXPECT_EQ(pagemap_get(ptr + PAGE_BYTES), (uint32_t)MAP_NONE);
			EXPECT_EQ(pagemap_get(ptr + large_bytes(ptr) - 1), (uint32_t)MAP_NONE);
		}
		if (is_zero) {
			EXPECT_EQ(harness::first_nonzero(ptr, large_bytes(ptr)), large_bytes(ptr))
				<< "said to be zero: " << bytes;
		}
		return ptr;
	}
	/* Fresh memory for every page of the heap that is free: none of it may be a lie. */
	void expect_free_memory_truthful()
	{
		std::vector<char *> all;
		bool is_zero;
		char *ptr;

		while ((ptr = (char *)large_alloc(2 * MiB, 16, &is_zero))) {
			if (is_zero) {
				EXPECT_EQ(harness::first_nonzero(ptr, 2 * MiB), 2 * MiB)
					<< "a block said to be zero is not";
			}
			all.push_back(ptr);
		}
		for (char *one : all)
			large_free(one);
	}
};

TEST_F(large, sizes_and_alignments)
{
	for (size_t align : { 16ul, 4096ul, 8192ul, 65536ul, MiB, 2 * MiB, 8 * MiB })
		for (size_t bytes : { 1ul, 4096ul, 4097ul, 32769ul, 100000ul, MiB - 1,
				      MiB, MiB + 1, 2 * MiB, 3 * MiB + 5, 9 * MiB }) {
			char *ptr = alloc(bytes, align);

			ASSERT_NE(ptr, nullptr);
			harness::fill(ptr, large_bytes(ptr), bytes);
			EXPECT_EQ(large_nr_pages(), large_bytes(ptr) / PAGE_BYTES);
			large_free(ptr);
			EXPECT_EQ(pagemap_get(ptr), (uint32_t)MAP_NONE);
			EXPECT_EQ(large_nr_pages(), 0u);
		}
}

TEST_F(large, more_than_there_is)
{
	bool is_zero;

	for (size_t bytes : { heap_reserved_bytes + 1, (size_t)1 << 47, SIZE_MAX / 2,
			      SIZE_MAX - 4095, SIZE_MAX })
		EXPECT_EQ(large_alloc(bytes, 16, &is_zero), nullptr) << bytes;
	EXPECT_EQ(large_alloc(4096, (size_t)1 << 46, &is_zero), nullptr);
	EXPECT_EQ(large_nr_pages(), 0u);
	char *ptr = alloc(100000);
	EXPECT_EQ(large_resize(ptr, SIZE_MAX / 2), nullptr);
	EXPECT_EQ(large_bytes(ptr), 106496u) << "unchanged";
	large_free(ptr);
}

/* What is beyond the last page of a block is free, and somebody else's. */
TEST_F(large, tail_of_the_last_block_goes_back)
{
	std::vector<bool> used(256 * MiB / PAGE_BYTES);
	std::vector<char *> mine;

	for (size_t pages = 9; pages < 250; pages += 7)
		mine.push_back(alloc(pages * PAGE_BYTES));
	for (char *ptr : mine)
		for (size_t p = 0; p < large_bytes(ptr) / PAGE_BYTES; p++) {
			ASSERT_FALSE(used[heap_page(ptr) + p]);
			used[heap_page(ptr) + p] = true;
		}
	for (char *ptr : mine)
		large_free(ptr);
}

TEST_F(large, grows_in_place_within_its_superblocks_and_behind)
{
	char *ptr = alloc(1100000);

	harness::fill(ptr, 1100000, 1);
	EXPECT_EQ(large_resize(ptr, 2 * MiB), ptr);
	EXPECT_EQ(large_bytes(ptr), 2 * MiB);
	EXPECT_EQ(large_resize(ptr, 7 * MiB), ptr) << "what is behind is free";
	EXPECT_EQ(large_nr_pages(), 7 * MiB / PAGE_BYTES);
	EXPECT_TRUE(harness::intact(ptr, 1100000, 1));
	harness::fill(ptr, 7 * MiB, 2);
	char *next = alloc(2 * MiB);
	EXPECT_GE(next, ptr + 8 * MiB) << "overlaps";
	EXPECT_TRUE(harness::intact(ptr, 7 * MiB, 2));
	large_free(next);
	large_free(ptr);
}

TEST_F(large, shrinking_gives_memory_back)
{
	size_t before = superblock_nr_used();
	char *ptr = alloc(8 * MiB);

	harness::fill(ptr, 8 * MiB, 3);
	ASSERT_EQ(resident_pages(ptr, 8 * MiB), 8 * MiB / PAGE_BYTES);
	EXPECT_EQ(large_resize(ptr, 5 * MiB), ptr);
	EXPECT_EQ(large_nr_pages(), 5 * MiB / PAGE_BYTES);
	EXPECT_TRUE(harness::intact(ptr, 5 * MiB, 3));
	/* Whole superblocks are free now; the rest of the last has no memory. */
	EXPECT_EQ(superblock_nr_used(), before + 3);
	EXPECT_EQ(resident_pages(ptr + 5 * MiB, MiB), 0u);
	page_purge(0);
	EXPECT_EQ(resident_pages(ptr + 5 * MiB, 3 * MiB), 0u);
	EXPECT_TRUE(harness::intact(ptr, 5 * MiB, 3));
	large_free(ptr);
}

TEST_F(large, a_block_cut_from_a_zone_grows_into_what_is_free_behind_it)
{
	char *ptr = alloc(72 * PAGE_BYTES), *wall;

	harness::fill(ptr, 72 * PAGE_BYTES, 9);
	/* Cut from 128 pages, out of a superblock that nobody else has blocks in. */
	EXPECT_EQ(large_resize(ptr, 79 * PAGE_BYTES), ptr);
	EXPECT_EQ(large_bytes(ptr), 80 * PAGE_BYTES);
	EXPECT_EQ(large_resize(ptr, 224 * PAGE_BYTES), ptr) << "across a larger free block";
	EXPECT_EQ(large_bytes(ptr), 224 * PAGE_BYTES);
	EXPECT_EQ(large_nr_pages(), 224u);
	EXPECT_TRUE(harness::intact(ptr, 72 * PAGE_BYTES, 9));
	harness::fill(ptr, 224 * PAGE_BYTES, 10);
	wall = alloc(32 * PAGE_BYTES);
	ASSERT_EQ(wall, ptr + 224 * PAGE_BYTES);
	EXPECT_EQ(large_resize(ptr, 225 * PAGE_BYTES), nullptr) << "has no room to grow";
	EXPECT_TRUE(harness::intact(ptr, 224 * PAGE_BYTES, 10));
	EXPECT_EQ(large_nr_pages(), 256u);
	large_free(ptr);
	large_free(wall);
	EXPECT_EQ(large_nr_pages(), 0u);
	page_purge(0);
	EXPECT_EQ(superblock_nr_used(), 0u) << "all of it was merged";
}

TEST_F(large, one_that_was_freed_comes_back_whole)
{
	char *ptr = alloc(40 * PAGE_BYTES);
	size_t dirty = page_nr_dirty();

	large_free(ptr);
	EXPECT_EQ(page_nr_dirty(), dirty + 40) << "it is idle memory";
	EXPECT_EQ(large_nr_pages(), 0u);
	EXPECT_EQ(alloc(37 * PAGE_BYTES), ptr) << "of the same class";
	EXPECT_EQ(page_nr_dirty(), dirty);
	large_free(ptr);
	/* What it is part of is wanted in another size: that comes before clean memory. */
	char *whole = alloc(64 * PAGE_BYTES);
	EXPECT_EQ(whole, ptr);
	large_free(whole);
}

TEST_F(large, shrinking_a_block_cut_from_a_zone_frees_its_tail)
{
	char *ptr = alloc(208 * PAGE_BYTES);

	harness::fill(ptr, 208 * PAGE_BYTES, 4);
	EXPECT_EQ(large_resize(ptr, 208 * PAGE_BYTES - 1), ptr);
	EXPECT_EQ(large_resize(ptr, 72 * PAGE_BYTES), ptr);
	EXPECT_EQ(large_bytes(ptr), 72 * PAGE_BYTES);
	EXPECT_EQ(large_nr_pages(), 72u);
	EXPECT_TRUE(harness::intact(ptr, 72 * PAGE_BYTES, 4));
	/* The next one may lie in the tail and must not reach back. */
	char *next = alloc(64 * PAGE_BYTES);
	harness::fill(next, 64 * PAGE_BYTES, 5);
	EXPECT_TRUE(harness::intact(ptr, 72 * PAGE_BYTES, 4));
	large_free(ptr);
	EXPECT_TRUE(harness::intact(next, 64 * PAGE_BYTES, 5));
	large_free(next);
}

/* A program that reads into a large buffer, and keeps what there was: no hole for each. */
TEST_F(large, a_block_of_which_little_is_wanted_is_there_again_whole)
{
	const size_t left = 100000;
	std::vector<char *> mine;

	for (size_t i = 0; i < 200; i++) {
		char *ptr = alloc(MiB);

		ASSERT_NE(ptr, nullptr) << i;
		harness::fill(ptr, left, i);
		mine.push_back((char *)large_resize(ptr, left));
		ASSERT_NE(mine.back(), nullptr);
		ASSERT_EQ(large_bytes(mine.back()), 26 * PAGE_BYTES);
		ASSERT_TRUE(harness::intact(mine.back(), left, i));
	}
	EXPECT_LE(superblock_nr_used(), 200 * 26 / SUPERBLOCK_PAGES + 3);
	EXPECT_EQ(large_nr_pages(), 200 * 26u);
	free_intact(mine, left);
}

TEST_F(large, room_to_grow_stays_until_the_block_shrinks)
{
	char *ptr = alloc(24 * PAGE_BYTES);

	large_has_room(ptr, 17 * PAGE_BYTES);
	EXPECT_EQ(large_resize(ptr, 18 * PAGE_BYTES), ptr);
	EXPECT_EQ(large_bytes(ptr), 24 * PAGE_BYTES) << "it grows on";
	EXPECT_EQ(large_resize(ptr, 18 * PAGE_BYTES - 1), ptr);
	EXPECT_EQ(large_bytes(ptr), 24 * PAGE_BYTES) << "as many pages";
	EXPECT_TRUE(large_stays(ptr, 22 * PAGE_BYTES));
	EXPECT_EQ(large_resize(ptr, 18 * PAGE_BYTES), ptr);
	EXPECT_EQ(large_bytes(ptr), 18 * PAGE_BYTES) << "it got shorter";
	EXPECT_FALSE(large_stays(ptr, 16 * PAGE_BYTES));
	EXPECT_FALSE(large_stays(ptr, 20 * PAGE_BYTES));
	large_free(ptr);
	ptr = alloc(24 * PAGE_BYTES);
	EXPECT_FALSE(large_stays(ptr, 18 * PAGE_BYTES)) << "another block has none";
	large_free(ptr);
	EXPECT_EQ(large_nr_pages(), 0u);
}

/* Else 100 KiB would keep 2 MiB of the heap's range, which would be full at a twentieth. */
TEST_F(large, a_run_that_shrinks_to_little_leaves_its_superblock)
{
	const size_t left = 100000;
	std::vector<char *> mine;

	for (size_t i = 0; i < 1000; i++) {
		char *ptr = alloc(3 * MiB);

		ASSERT_NE(ptr, nullptr) << i;
		harness::fill(ptr, left, i);
		mine.push_back((char *)large_resize(ptr, left));
		ASSERT_NE(mine.back(), nullptr);
		ASSERT_EQ(large_bytes(mine.back()), 26 * PAGE_BYTES);
	}
	EXPECT_LT(superblock_nr_used(), 64u);
	EXPECT_EQ(large_nr_pages(), 1000 * 26u);
	free_intact(mine, left);
}

TEST_F(large, a_run_that_finds_no_other_place_shrinks_where_it_is)
{
	std::vector<char *> mine;
	bool is_zero;

	while (auto *ptr = (char *)large_alloc(2 * MiB, 16, &is_zero))
		mine.push_back(ptr);
	ASSERT_FALSE(mine.empty());
	harness::fill(mine[0], 100000, 1);
	EXPECT_EQ(large_resize(mine[0], 100000), mine[0]);
	EXPECT_TRUE(harness::intact(mine[0], 100000, 1));
	EXPECT_EQ(large_bytes(mine[0]), 26 * PAGE_BYTES);
	for (char *one : mine)
		large_free(one);
}

TEST_F(large, moves_pages_and_keeps_what_is_in_them)
{
	char *ptr = alloc(4 * MiB);
	char *wall = alloc(2 * MiB);

	ASSERT_EQ(wall, ptr + 4 * MiB);
	harness::fill(ptr, 4 * MiB, 6);
	auto *to = (char *)large_resize(ptr, 9 * MiB);
	ASSERT_NE(to, nullptr);
	ASSERT_NE(to, ptr);
	EXPECT_TRUE(harness::intact(to, 4 * MiB, 6));
	EXPECT_EQ(large_bytes(to), 9 * MiB);
	EXPECT_EQ(pagemap_get(ptr), (uint32_t)MAP_NONE);
	EXPECT_EQ(pagemap_get(to), (uint32_t)MAP_LARGE);
	EXPECT_EQ(large_nr_pages(), 11 * MiB / PAGE_BYTES);
	if (!harness::is_emulated()) {	/* what moved away is not mapped there */
		EXPECT_EQ(resident_pages(ptr, 4 * MiB), 0u) << "its pages were moved, not copied";
	}
	large_free(to);
	large_free(wall);
	expect_free_memory_truthful();
}

/* Moved while memory lies behind its end: what was cut off, or was there before. */
TEST_F(large, moving_leaves_nothing_behind_that_is_said_to_be_zero)
{
	char *ptr = alloc(4 * MiB);
	char *wall = alloc(2 * MiB);

	harness::fill(ptr, 4 * MiB, 7);
	/* Fewer pages than are worth a call to the system. */
	ASSERT_EQ(large_resize(ptr, 4 * MiB - 40 * PAGE_BYTES), ptr);
	auto *to = (char *)large_resize(ptr, 9 * MiB);
	ASSERT_NE(to, nullptr);
	ASSERT_NE(to, ptr);
	expect_free_memory_truthful();
	large_free(to);
	large_free(wall);
}

TEST_F(large, moving_a_run_made_of_used_memory)
{
	char *ptr = alloc(4 * MiB);
	char *wall = alloc(2 * MiB);

	harness::fill(ptr, 4 * MiB, 8);
	large_free(ptr);
	ASSERT_EQ(alloc(3 * MiB), ptr) << "the same superblocks, dirty at their end";
	auto *to = (char *)large_resize(ptr, 9 * MiB);
	ASSERT_NE(to, nullptr);
	ASSERT_NE(to, ptr);
	expect_free_memory_truthful();
	large_free(to);
	large_free(wall);
}

/* The limit is set after the start, as by a sandbox: the kernel unmaps the target, then refuses. */
TEST_F(large, a_move_that_leaves_a_hole_is_the_last)
{
	EXPECT_EQ(harness::in_child([this] {
		const struct rlimit low = { 64 * MiB, 64 * MiB };
		char *ptr = alloc(4 * MiB), *wall = alloc(2 * MiB);
		size_t used = superblock_nr_used();

		harness::fill(ptr, 4 * MiB, 1);
		if (wall != ptr + 4 * MiB || setrlimit(RLIMIT_AS, &low))
			_exit(1);
		for (int i = 0; i < 20; i++)
			if (large_resize(ptr, 9 * MiB))
				_exit(0);	/* another kernel */
		if (superblock_nr_used() > used + 5)
			_exit(2);
		_exit(harness::intact(ptr, 4 * MiB, 1) ? 0 : 3);
	}), 0) << "2: each of them takes part of the heap away";
}

TEST_F(large, random_operations)
{
	struct one { char *ptr; size_t bytes; uint64_t seed; };
	std::vector<one> mine;
	harness::Random random(21);
	size_t pages = 0;

	for (int i = 0; i < 1500 && !HasFailure(); i++) {
		/* Mostly blocks of zones; runs of up to four superblocks. */
		size_t bytes = random.below(random.below(8) ? MiB / 2 : 8 * MiB) + 1;
		size_t at = mine.empty() ? 0 : random.below(mine.size());

		switch (random.below(4)) {
		case 0: case 1: {
			if (mine.size() >= 16)
				break;
			char *ptr = alloc(bytes, (size_t)16 << random.below(12));
			ASSERT_NE(ptr, nullptr);
			harness::fill(ptr, bytes, (uint64_t)i);
			mine.push_back({ ptr, bytes, (uint64_t)i });
			pages += large_bytes(ptr) / PAGE_BYTES;
			break;
		}
		case 2: {
			if (mine.empty())
				break;
			size_t before = large_bytes(mine[at].ptr) / PAGE_BYTES;
			auto *to = (char *)large_resize(mine[at].ptr, bytes);

			ASSERT_TRUE(harness::intact(to ? to : mine[at].ptr,
						    to ? std::min(bytes, mine[at].bytes) :
							 mine[at].bytes, mine[at].seed));
			if (!to)
				break;
			pages += large_bytes(to) / PAGE_BYTES - before;
			harness::fill(to, bytes, (uint64_t)i);
			mine[at] = { to, bytes, (uint64_t)i };
			break;
		}
		case 3:
			if (mine.empty())
				break;
			ASSERT_TRUE(harness::intact(mine[at].ptr, mine[at].bytes, mine[at].seed));
			pages -= large_bytes(mine[at].ptr) / PAGE_BYTES;
			large_free(mine[at].ptr);
			mine[at] = mine.back();
			mine.pop_back();
			if (random.below(20) == 0)
				page_purge(random.below(2) * 8 * MiB);
			break;
		}
		ASSERT_EQ(large_nr_pages(), pages);
	}
	for (auto &one : mine)
		large_free(one.ptr);
	EXPECT_EQ(large_nr_pages(), 0u);
	page_purge(0);
	EXPECT_EQ(page_nr_dirty(), 0u);
}

} /* namespace */
