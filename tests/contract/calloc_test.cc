/* SPDX-License-Identifier: MIT */
/* Promise: calloc gives zeroes, whatever its memory held before. */
#include <cstring>
#include <gtest/gtest.h>
#include <malloc.h>
#include <vector>

#include "harness.h"

/* Dirties `count` blocks of n bytes to their last usable byte and frees them. */
static void leave_dirt(size_t n, size_t count)
{
	std::vector<void *> blocks(count);

	for (void *&block : blocks) {
		block = malloc(n);
		ASSERT_NE(block, nullptr);
		memset(block, 0xa5, malloc_usable_size(block));
	}
	for (void *block : blocks)
		free(block);
}

static void expect_zeroed(size_t members, size_t n, size_t count)
{
	std::vector<void *> blocks(count);

	for (void *&block : blocks) {
		block = calloc(members, n);
		ASSERT_NE(block, nullptr);
		EXPECT_EQ(harness::first_nonzero(block, members * n), members * n)
			<< members << " x " << n;
		memset(block, 0x5a, members * n);
	}
	for (void *block : blocks)
		free(block);
}

TEST(Calloc, ZeroAfterDirtyReuseAtEveryClass)
{
	for (size_t n : harness::classes(256 << 10)) {
		size_t count = std::max<size_t>(4, std::min<size_t>(600, (256 << 10) / n));
		leave_dirt(n, count);
		expect_zeroed(1, n, count + count / 2);
		leave_dirt(n, count);
		expect_zeroed(n, 1, count);
	}
}

TEST(Calloc, ZeroAtOddSizesOfDirtyClasses)
{
	for (size_t n : harness::sizes()) {
		if (n == 0 || n > (512u << 10))
			continue;
		leave_dirt(n, 2);
		expect_zeroed(1, n, 2);
	}
}

TEST(Calloc, ZeroForLargeBlocks)
{
	for (size_t n : {size_t{1} << 20, (size_t{3} << 20) + 5, size_t{4} << 20, size_t{16} << 20,
			 size_t{64} << 20}) {
		leave_dirt(n, 2);
		expect_zeroed(1, n, 2);
		leave_dirt(n / 3, 3);
		expect_zeroed(n / 512, 512, 1);
	}
}

TEST(Calloc, ZeroWhereAnotherClassWas)
{
	for (size_t dirty : {48, 1024, 20000, 100000}) {
		leave_dirt(dirty, (8 << 20) / dirty);
		malloc_trim(0);
		for (size_t n : {16, 80, 512, 4096, 65536, 2 << 20})
			expect_zeroed(1, n, std::max<size_t>(2, (4 << 20) / n / 8));
	}
}

TEST(Calloc, ProductOfItsArguments)
{
	for (size_t members : {1, 3, 7, 100}) {
		for (size_t n : {1, 5, 24, 1000}) {
			void *block = calloc(members, n);
			ASSERT_NE(block, nullptr);
			EXPECT_GE(malloc_usable_size(block), members * n);
			free(block);
		}
	}
}

/* A table of which a program touches little costs what it touches, whatever was freed before. */
TEST(Calloc, ALargeTableIsNoMemoryBeforeItIsTouched)
{
	const size_t table = 1ul << 30;

	for (size_t dirty : { 1ul << 20, 3ul << 20, 40ul << 20 }) {
		leave_dirt(dirty, 2);
		size_t before = harness::resident_bytes();
		auto *ptr = (char *)calloc(table / 4096, 4096);
		ASSERT_NE(ptr, nullptr);
		EXPECT_LT(harness::resident_bytes(), before + (16u << 20)) << dirty;
		ptr[table / 2] = 1;
		free(ptr);
		ptr = (char *)calloc(1, table);
		ASSERT_NE(ptr, nullptr);
		EXPECT_EQ(ptr[table / 2], 0);
		EXPECT_LT(harness::resident_bytes(), before + (16u << 20)) << "again, " << dirty;
		free(ptr);
	}
}
