/* SPDX-License-Identifier: MIT */
/* Promise: a request for nothing gives a pointer of its own, and free(NULL) does nothing. */
#include <gtest/gtest.h>
#include <malloc.h>
#include <set>

#include "harness.h"

using harness::opaque;

static void expect_distinct(void *(*make)())
{
	std::set<void *> seen;

	for (int i = 0; i < 1000; i++) {
		void *block = make();
		ASSERT_NE(block, nullptr);
		EXPECT_TRUE(seen.insert(block).second) << "handed out twice: " << block;
	}
	for (void *block : seen)
		free(block);
}

TEST(ZeroSize, Malloc) { expect_distinct([] { return malloc(opaque(size_t{0})); }); }

TEST(ZeroSize, CallocNoMembers) { expect_distinct([] { return calloc(opaque(size_t{0}), 64); }); }

TEST(ZeroSize, CallocNoBytes) { expect_distinct([] { return calloc(64, opaque(size_t{0})); }); }

TEST(ZeroSize, ReallocOfNull)
{
	expect_distinct([] { return realloc(opaque(nullptr), opaque(size_t{0})); });
}

TEST(ZeroSize, ReallocarrayOfNull)
{
	expect_distinct([] { return reallocarray(opaque(nullptr), opaque(size_t{0}), 8); });
}

TEST(ZeroSize, AlignedAlloc)
{
	expect_distinct([] { return aligned_alloc(64, opaque(size_t{0})); });
}

TEST(ZeroSize, PosixMemalign)
{
	expect_distinct([] {
		void *block = nullptr;
		EXPECT_EQ(posix_memalign(&block, 128, opaque(size_t{0})), 0);
		return block;
	});
}

TEST(ZeroSize, FreeOfNull)
{
	for (int i = 0; i < 1000; i++)
		free(opaque(nullptr));
	EXPECT_EQ(malloc_usable_size(opaque(nullptr)), 0u);
}
