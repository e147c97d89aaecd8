/* SPDX-License-Identifier: MIT */
/* Promise: freeing a block of any size, by any function, keeps errno. */
#include <cerrno>
#include <cstring>
#include <gtest/gtest.h>
#include <malloc.h>
#include <new>
#include <vector>

#include "harness.h"

extern "C" void free_sized(void *, size_t);
extern "C" void free_aligned_sized(void *, size_t, size_t);

static const int mark = 12345;

static const size_t steps[] = {1,	64,	  1000,	   8192,      20000,	  100000,
			       1 << 20, 3 << 20, 8 << 20, 64u << 20, 256u << 20};

TEST(Errno, KeptByFree)
{
	for (size_t n : steps) {
		for (int i = 0; i < 20; i++) {
			void *block = malloc(n);
			ASSERT_NE(block, nullptr);
			memset(block, 1, std::min<size_t>(n, 1 << 20));
			errno = mark;
			free(block);
			ASSERT_EQ(errno, mark) << "free of " << n;
		}
	}
	errno = mark;
	free(nullptr);
	EXPECT_EQ(errno, mark);
}

/* Enough blocks that memory goes back from every cache to the system on the way. */
TEST(Errno, KeptByAFreeThatEmptiesTheHeap)
{
	for (size_t n : {48, 700, 5000, 60000}) {
		std::vector<void *> blocks((64u << 20) / n);
		for (void *&block : blocks)
			memset(block = malloc(n), 1, n);
		errno = mark;
		for (void *block : blocks) {
			free(block);
			ASSERT_EQ(errno, mark) << "free of " << n;
		}
	}
}

TEST(Errno, KeptForAlignedBlocks)
{
	for (size_t alignment = 16; alignment <= 1u << 26; alignment *= 4) {
		void *block = aligned_alloc(alignment, 1000);
		ASSERT_NE(block, nullptr);
		errno = mark;
		free(block);
		EXPECT_EQ(errno, mark) << alignment;
	}
}

TEST(Errno, KeptByTheOtherWaysToFree)
{
	for (size_t n : steps) {
		void *block = malloc(n);
		errno = mark;
		free_sized(block, n);
		EXPECT_EQ(errno, mark) << n;
		block = aligned_alloc(64, n);
		errno = mark;
		free_aligned_sized(block, 64, n);
		EXPECT_EQ(errno, mark) << n;
		block = ::operator new(n);
		errno = mark;
		::operator delete(block, n);
		EXPECT_EQ(errno, mark) << n;
	}
}

TEST(Errno, KeptForForeignPointers)
{
	static int object;

	errno = mark;
	free(harness::opaque(&object));
	EXPECT_EQ(errno, mark);
}
