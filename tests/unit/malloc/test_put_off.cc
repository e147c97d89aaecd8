/* SPDX-License-Identifier: MIT */
/*
 * core/malloc/slow.c: a large block that a handler freed while it might take no lock is free to
 * whoever looks at blocks, though its memory is still to be given back.
 */
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>

#include "slub.h"

extern "C" {
#include <slub/bucket.h>
}

namespace {

/* As in a handler that interrupted the holder of a lock. */
void free_as_a_handler(void *block)
{
	slub_thread.locks_held++;
	slub_free(block);
	slub_thread.locks_held--;
}

TEST(put_off, a_bucket_frees_nothing_twice)
{
	struct slub_bucket *bucket = slub_bucket_create("put-off", 0);

	ASSERT_NE(bucket, nullptr);
	free_as_a_handler(slub_bucket_alloc(bucket, 100000));
	ASSERT_EQ(slub_bucket_clear(bucket), 0);
	void *one = slow_alloc(100000), *two = slow_alloc(100000), *three = slow_alloc(100000);
	EXPECT_TRUE(one != two && two != three && one != three);
	for (void *block : { one, two, three })
		slub_free(block);
	EXPECT_EQ(slub_bucket_destroy(bucket), 0);
}

TEST(put_off, a_bucket_has_no_block_that_was_freed)
{
	struct slub_bucket *bucket = slub_bucket_create("put-off", 0);
	struct slub_bucket_stats stats = {};

	ASSERT_NE(bucket, nullptr);
	free_as_a_handler(slub_bucket_alloc(bucket, 100000));
	EXPECT_EQ(slub_bucket_stats(bucket, &stats), 0);
	EXPECT_EQ(stats.large_blocks, 0u);
	free_as_a_handler(slub_bucket_alloc(bucket, 100000));
	EXPECT_EQ(slub_bucket_destroy(bucket), 0);
}

/* By the next request of any size, and without a free. */
TEST(put_off, an_allocation_frees_them)
{
	if (SLUB_CONFIG_HARDENED)
		GTEST_SKIP() << "blocks have other sizes";
	for (size_t align : { 16, 8192 }) {
		void *block = aligned_alloc(align, 500000);
		size_t before = large_nr_pages(), put_off = large_bytes(block) / PAGE_BYTES;

		free_as_a_handler(block);
		ASSERT_EQ(large_nr_pages(), before);
		void *next = aligned_alloc(align, 50000);
		EXPECT_EQ(large_nr_pages(), before - put_off + large_bytes(next) / PAGE_BYTES);
		slub_free(next);
	}
}

/* The map may still name what was a cache. */
TEST(put_off, what_was_of_a_cache_that_is_gone_has_no_bytes)
{
	struct slub_cache *cache = slub_cache_create("gone", 64, 0, SLUB_CACHE_NO_MERGE, nullptr);
	const uint32_t slot = cache->slot;
	char *block = (char *)malloc(100000);

	ASSERT_EQ(slub_cache_destroy(cache), 0);
	ASSERT_EQ(cache_of_entry(slot), nullptr);
	pagemap_set(block + PAGE_BYTES, 1, slot);
	EXPECT_EQ(block_bytes(block + PAGE_BYTES), 0u);
	pagemap_set(block + PAGE_BYTES, 1, MAP_LARGE);
	slub_free(block);
}

} /* namespace */
