/* SPDX-License-Identifier: MIT */
/*
 * Promise: every power of two up to 128 MiB works as an alignment with any size; what is not a
 * power of two is refused as each function's standard says.
 */
#include <cerrno>
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>
#include <vector>

#include "harness.h"

using harness::opaque;

static bool is_aligned(const void *address, size_t alignment)
{
	return reinterpret_cast<uintptr_t>(address) % alignment == 0;
}

static void expect_usable(void *block, size_t alignment, size_t n)
{
	ASSERT_NE(block, nullptr) << "alignment " << alignment << " size " << n;
	EXPECT_TRUE(is_aligned(block, alignment)) << block << " for " << alignment;
	EXPECT_GE(malloc_usable_size(block), n);
	harness::fill(block, n, alignment ^ n);
	EXPECT_TRUE(harness::intact(block, n, alignment ^ n));
}

TEST(Aligned, EveryAlignmentWithManySizes)
{
	for (size_t alignment = 1; alignment <= size_t{1} << 27; alignment *= 2) {
		for (size_t n : {1, 8, 65, 100, 4096, 5000, 70000, 1 << 20}) {
			void *first = aligned_alloc(alignment, opaque(n));
			void *second = memalign(alignment, opaque(n));
			expect_usable(first, alignment, n);
			expect_usable(second, alignment, n);
			EXPECT_TRUE(harness::intact(first, n, alignment ^ n));
			void *third = nullptr;
			if (alignment >= sizeof(void *)) {
				EXPECT_EQ(posix_memalign(&third, alignment, n), 0);
				expect_usable(third, alignment, n);
			}
			free(first);
			free(second);
			free(third);
		}
	}
}

TEST(Aligned, ManyLiveBlocks)
{
	for (size_t alignment : {32, 128, 1024, 4096, 65536}) {
		std::vector<void *> blocks;
		for (size_t i = 0; i < 200; i++) {
			blocks.push_back(aligned_alloc(alignment, 1 + i * 7));
			ASSERT_NE(blocks.back(), nullptr);
			ASSERT_TRUE(is_aligned(blocks.back(), alignment));
			harness::fill(blocks.back(), malloc_usable_size(blocks.back()), i);
		}
		for (size_t i = 0; i < blocks.size(); i++) {
			EXPECT_TRUE(harness::intact(blocks[i], malloc_usable_size(blocks[i]), i));
			free(blocks[i]);
		}
	}
}

TEST(Aligned, SizeNeedNotBeAMultiple)
{
	void *block = aligned_alloc(opaque(size_t{64}), opaque(size_t{65}));
	expect_usable(block, 64, 65);
	free(block);
}

TEST(Aligned, AllocRefusesOtherThanPowersOfTwo)
{
	for (size_t alignment : {0, 3, 5, 24, 48, 4095, 4097}) {
		errno = 0;
		EXPECT_EQ(aligned_alloc(opaque(alignment), 8), nullptr) << alignment;
		EXPECT_EQ(errno, EINVAL) << alignment;
	}
	errno = 0;
	EXPECT_EQ(aligned_alloc(opaque(SIZE_MAX), 8), nullptr);
	EXPECT_EQ(errno, EINVAL);
}

TEST(Aligned, AlignmentBeyondTheAddressSpace)
{
	for (size_t alignment : {size_t{1} << 48, size_t{1} << 62, size_t{1} << 63}) {
		errno = 0;
		EXPECT_EQ(aligned_alloc(opaque(alignment), 8), nullptr);
		EXPECT_EQ(errno, ENOMEM);
		void *untouched = &errno;
		EXPECT_EQ(posix_memalign(&untouched, opaque(alignment), 8), ENOMEM);
		EXPECT_EQ(untouched, &errno);
	}
}

TEST(Aligned, PosixMemalignRefusals)
{
	char mark;

	for (size_t alignment : {0, 1, 2, 3, 4, 7, 12, 24, 4097}) {
		void *untouched = &mark;
		errno = 0;
		EXPECT_EQ(posix_memalign(&untouched, opaque(alignment), 8), EINVAL) << alignment;
		EXPECT_EQ(untouched, &mark) << alignment;
		EXPECT_EQ(errno, 0) << alignment;
	}
	for (size_t n : {SIZE_MAX, SIZE_MAX - 64, size_t{PTRDIFF_MAX} + 1}) {
		void *untouched = &mark;
		/* POSIX leaves errno open; the C library sets it. */
		errno = 0;
		EXPECT_EQ(posix_memalign(&untouched, 64, opaque(n)), ENOMEM) << n;
		EXPECT_EQ(untouched, &mark) << n;
		EXPECT_EQ(errno, ENOMEM) << n;
	}
}

/* The C library rounds a memalign alignment up to the next power of two. */
TEST(Aligned, MemalignRoundsItsAlignmentUp)
{
	for (auto pair : {std::make_pair(0, 1), {3, 4}, {33, 64}, {100, 128}, {4097, 8192}}) {
		void *block = memalign(opaque(size_t(pair.first)), 40);
		expect_usable(block, pair.second, 40);
		free(block);
	}
}

TEST(Aligned, VallocAndPvalloc)
{
	size_t page = sysconf(_SC_PAGESIZE);

	for (size_t n : {size_t{1}, size_t{100}, page - 1, page, page + 1, 10 * page + 3}) {
		void *block = valloc(n);
		expect_usable(block, page, n);
		free(block);
		block = pvalloc(n);
		expect_usable(block, page, (n + page - 1) / page * page);
		free(block);
	}
	void *block = pvalloc(opaque(size_t{0}));
	EXPECT_NE(block, nullptr);
	EXPECT_TRUE(is_aligned(block, page));
	free(block);
}
