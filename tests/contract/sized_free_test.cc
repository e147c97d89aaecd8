/* SPDX-License-Identifier: MIT */
/* Promise: C23's free_sized and free_aligned_sized free what malloc and aligned_alloc gave. */
#include <cstring>
#include <gtest/gtest.h>
#include <malloc.h>

#include "harness.h"

extern "C" void free_sized(void *, size_t);
extern "C" void free_aligned_sized(void *, size_t, size_t);

TEST(SizedFree, OfNull)
{
	free_sized(nullptr, 0);
	free_sized(nullptr, 100);
	free_aligned_sized(nullptr, 64, 0);
}

TEST(SizedFree, EverySize)
{
	for (size_t n : harness::sizes()) {
		for (void *block : {malloc(n), calloc(1, n), realloc(nullptr, n)}) {
			ASSERT_NE(block, nullptr);
			memset(block, 1, std::min<size_t>(n, 4096));
			free_sized(block, n);
		}
	}
}

TEST(SizedFree, EveryAlignment)
{
	for (size_t alignment = 1; alignment <= 1u << 24; alignment *= 2) {
		for (size_t n : {1, 64, 1000, 40000, 3 << 20}) {
			void *block = aligned_alloc(alignment, n);
			ASSERT_NE(block, nullptr);
			memset(block, 1, n);
			free_aligned_sized(block, alignment, n);
		}
	}
}

/* 3.2 GB would stay resident if either only pretended to free. */
TEST(SizedFree, MemoryIsReused)
{
	size_t before = harness::resident_bytes();

	for (int i = 0; i < 50000; i++) {
		free_sized(memset(malloc(32000), 1, 32000), 32000);
		free_aligned_sized(memset(aligned_alloc(512, 32000), 1, 32000), 512, 32000);
	}
	EXPECT_LT(harness::resident_bytes(), before + (32u << 20));
}
