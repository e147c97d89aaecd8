/* SPDX-License-Identifier: MIT */
/*
 * Promise: realloc keeps the contents over every growth and shrinkage, behaves as malloc on NULL,
 * frees on size 0 and returns NULL as the C library does, and on failure leaves the block alone.
 */
#include <cerrno>
#include <cstring>
#include <gtest/gtest.h>
#include <malloc.h>
#include <vector>

#include "harness.h"

using harness::opaque;

static void *resized(void *block, size_t from, size_t to, uint64_t seed)
{
	harness::fill(block, from, seed);
	void *moved = realloc(block, to);
	EXPECT_NE(moved, nullptr) << from << " -> " << to;
	size_t kept = std::min(from, to);
	EXPECT_EQ(harness::first_damage(moved, kept, seed), kept) << from << " -> " << to;
	EXPECT_GE(malloc_usable_size(moved), to);
	harness::fill(moved, to, ~seed);
	EXPECT_EQ(harness::first_damage(moved, to, ~seed), to);
	return moved;
}

TEST(Realloc, ContentsKeptBetweenAllPairs)
{
	const size_t list[] = {
		1,     8,     15,    16,    17,	    24,	    48,	     64,      100,	128,
		129,   500,   512,   1000,  1024,   1025,   2048,    3000,    4096,	4097,
		8192,  9000,  16384, 16385, 32768,  40000,  65536,   100000,  262144,	300000,
		1 << 20, (1 << 20) + 1, 3 << 20, 4 << 20,
	};

	for (size_t from : list) {
		for (size_t to : list) {
			void *block = malloc(from);
			ASSERT_NE(block, nullptr);
			free(resized(block, from, to, from ^ (to << 20)));
		}
	}
}

TEST(Realloc, ContentsKeptOverEveryStep)
{
	void *block = malloc(1);
	size_t before = 1;

	for (size_t n : harness::sizes()) {
		if (n == 0 || n > (512u << 10))
			continue;
		block = resized(block, before, n, n);
		before = n;
	}
	auto list = harness::sizes();
	for (size_t i = list.size(); i-- > 1;) {
		if (list[i] > (512u << 10))
			continue;
		block = resized(block, before, list[i], list[i]);
		before = list[i];
	}
	free(block);
}

TEST(Realloc, ContentsKeptInHugeBlocks)
{
	const size_t mib = 1 << 20;
	size_t before = 5 * mib;
	void *block = malloc(before);

	for (size_t to : {9 * mib, 64 * mib, 65 * mib + 1, 200 * mib, 100 * mib, 7 * mib - 1, mib,
			  80 * mib, size_t{100}}) {
		block = resized(block, before, to, to);
		before = to;
	}
	free(block);
}

TEST(Realloc, RandomWalkOfManyBlocks)
{
	struct Live {
		void *block;
		size_t bytes;
		uint64_t seed;
	};
	std::vector<Live> live(300, Live{nullptr, 0, 0});
	harness::Random random(7);

	for (int step = 0; step < 30000; step++) {
		Live &one = live[random.below(live.size())];
		size_t to = 1 + random.below(size_t{1} << (3 + random.below(15)));

		void *moved = realloc(one.block, to);
		ASSERT_NE(moved, nullptr);
		size_t kept = std::min(one.bytes, to);
		ASSERT_EQ(harness::first_damage(moved, kept, one.seed), kept);
		one = {moved, to, random.next()};
		harness::fill(one.block, one.bytes, one.seed);
	}
	for (const Live &one : live) {
		EXPECT_TRUE(harness::intact(one.block, one.bytes, one.seed));
		free(one.block);
	}
}

TEST(Realloc, OfAnAlignedBlock)
{
	for (size_t alignment = 16; alignment <= 1u << 21; alignment *= 2) {
		for (size_t from : {10, 100, 5000, 70000}) {
			void *block = aligned_alloc(alignment, from);
			ASSERT_NE(block, nullptr);
			block = resized(block, from, from * 3, alignment + from);
			free(resized(block, from * 3, from / 2, alignment - from));
		}
	}
}

TEST(Realloc, OfNullIsMalloc)
{
	for (size_t n : {1, 100, 5000, 200000, 8 << 20}) {
		void *block = realloc(opaque(nullptr), n);
		ASSERT_NE(block, nullptr);
		EXPECT_GE(malloc_usable_size(block), n);
		harness::fill(block, n, n);
		free(block);
	}
}

/* 6.4 GB would stay resident if size 0 did not free. */
TEST(Realloc, ToZeroFreesAndReturnsNull)
{
	for (size_t n : {1, 64, 1000, 20000, 65536, 3 << 20})
		EXPECT_EQ(realloc(malloc(n), opaque(size_t{0})), nullptr) << n;

	size_t before = harness::resident_bytes();
	for (int i = 0; i < 100000; i++) {
		void *block = malloc(65536);
		memset(block, 1, 65536);
		ASSERT_EQ(realloc(block, opaque(size_t{0})), nullptr);
	}
	EXPECT_LT(harness::resident_bytes(), before + (64u << 20));
}

TEST(Realloc, FailureLeavesTheBlock)
{
	for (size_t n : {24, 3000, 100000, 6 << 20}) {
		void *block = malloc(n);
		ASSERT_NE(block, nullptr);
		harness::fill(block, n, n);
		for (size_t wanted : {SIZE_MAX, SIZE_MAX - 4096, size_t{PTRDIFF_MAX} + 1,
				      size_t{PTRDIFF_MAX}}) {
			errno = 0;
			EXPECT_EQ(realloc(block, opaque(wanted)), nullptr);
			EXPECT_EQ(errno, ENOMEM);
			errno = 0;
			EXPECT_EQ(reallocarray(block, opaque(wanted), 2), nullptr);
			EXPECT_EQ(errno, ENOMEM);
		}
		EXPECT_TRUE(harness::intact(block, n, n));
		free(block);
	}
}

TEST(Realloc, ArrayMultipliesAndKeeps)
{
	void *block = reallocarray(nullptr, 10, 30);
	ASSERT_NE(block, nullptr);
	EXPECT_GE(malloc_usable_size(block), 300u);
	harness::fill(block, 300, 1);
	block = reallocarray(block, 1000, 30);
	EXPECT_GE(malloc_usable_size(block), 30000u);
	EXPECT_TRUE(harness::intact(block, 300, 1));
	free(block);
}
