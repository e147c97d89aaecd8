/* SPDX-License-Identifier: MIT */
/*
 * Promise: a block of any size holds what was asked for, overlaps no other block, is aligned as
 * its size allows, and loses at most an eighth to rounding.
 */
#include <algorithm>
#include <gtest/gtest.h>
#include <malloc.h>
#include <vector>

#include "harness.h"

struct Block {
	unsigned char *address;
	size_t bytes;
};

static bool is_aligned(const void *address, size_t alignment)
{
	return reinterpret_cast<uintptr_t>(address) % alignment == 0;
}

/* Returns the number of blocks that begin before their predecessor ends. */
static size_t overlaps(std::vector<Block> blocks)
{
	size_t count = 0;

	std::sort(blocks.begin(), blocks.end(),
		  [](const Block &a, const Block &b) { return a.address < b.address; });
	for (size_t i = 1; i < blocks.size(); i++)
		if (blocks[i - 1].address + blocks[i - 1].bytes > blocks[i].address)
			count++;
	return count;
}

TEST(Size, EveryByteIsTheOwners)
{
	for (size_t n : harness::sizes()) {
		void *block = malloc(n);
		ASSERT_NE(block, nullptr) << n;
		harness::fill(block, n, n);
		void *neighbour = malloc(n);
		ASSERT_NE(neighbour, nullptr) << n;
		harness::fill(neighbour, n, ~n);
		EXPECT_EQ(harness::first_damage(block, n, n), n);
		EXPECT_EQ(harness::first_damage(neighbour, n, ~n), n);
		free(block);
		EXPECT_EQ(harness::first_damage(neighbour, n, ~n), n) << "by freeing the other";
		free(neighbour);
	}
}

TEST(Size, LiveBlocksDoNotOverlap)
{
	std::vector<Block> blocks;

	for (int round = 0; round < 3; round++) {
		for (size_t n : harness::sizes()) {
			if (n > (256u << 10))
				break;
			auto *block = static_cast<unsigned char *>(malloc(n));
			ASSERT_NE(block, nullptr);
			blocks.push_back({block, malloc_usable_size(block)});
			harness::fill(block, blocks.back().bytes, blocks.size());
		}
	}
	EXPECT_EQ(overlaps(blocks), 0u);
	for (size_t i = 0; i < blocks.size(); i++)
		EXPECT_EQ(harness::first_damage(blocks[i].address, blocks[i].bytes, i + 1),
			  blocks[i].bytes);
	for (const Block &block : blocks)
		free(block.address);
}

TEST(Size, SixteenBytesOfAlignmentAtLeast)
{
	for (size_t n : harness::sizes()) {
		void *several[3];
		for (void *&block : several) {
			block = malloc(n);
			EXPECT_TRUE(is_aligned(block, 16)) << n << " at " << block;
		}
		for (void *block : several)
			free(block);
	}
}

TEST(Size, PowersOfTwoAreAlignedToThemselves)
{
	for (size_t n = 1; n <= 4096; n *= 2) {
		std::vector<void *> blocks;
		for (int i = 0; i < 300; i++)
			blocks.push_back(malloc(n));
		for (void *block : blocks)
			EXPECT_TRUE(is_aligned(block, n)) << n << " at " << block;
		for (void *block : blocks)
			free(block);
	}
	for (size_t n = 8192; n <= 4u << 20; n *= 2) {
		void *block = malloc(n);
		EXPECT_TRUE(is_aligned(block, 4096)) << n << " at " << block;
		free(block);
	}
}

/* A structure with a cache line's alignment has a size that is a multiple of it. */
TEST(Size, MultiplesOfAPowerAreAlignedToIt)
{
	for (size_t alignment : {32, 64}) {
		for (size_t n = alignment; n <= 16384; n += alignment) {
			void *several[9];
			for (void *&block : several) {
				block = malloc(n);
				EXPECT_TRUE(is_aligned(block, alignment)) << n << " at " << block;
			}
			for (void *block : several)
				free(block);
		}
	}
}

TEST(Size, RoundingLosesAnEighthAtMost)
{
	for (size_t n : harness::sizes()) {
		void *block = malloc(n);
		size_t usable = malloc_usable_size(block);
		EXPECT_GE(usable, n);
		size_t most = n > 128 ? n + n / 8 + 16 : n + 32;
		EXPECT_LE(usable, most) << "for malloc(" << n << ")";
		free(block);
	}
}

TEST(Size, LargerThanTheLargestClass)
{
	for (size_t n : {size_t{8} << 20, (size_t{64} << 20) + 1, size_t{300} << 20,
			 (size_t{1} << 30) + 4097}) {
		auto *block = static_cast<unsigned char *>(malloc(n));
		ASSERT_NE(block, nullptr) << n;
		EXPECT_GE(malloc_usable_size(block), n);
		EXPECT_TRUE(is_aligned(block, 16));
		harness::fill(block, 4096, n);
		harness::fill(block + n - 4096, 4096, ~n);
		EXPECT_TRUE(harness::intact(block, 4096, n));
		EXPECT_TRUE(harness::intact(block + n - 4096, 4096, ~n));
		free(block);
	}
}
