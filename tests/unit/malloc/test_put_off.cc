/* SPDX-License-Identifier: MIT */
/*
 * malloc/slow.c: a large block that a handler freed while it might take no lock is free to
 * whoever looks at blocks, though its memory is still to be given back.
 */
#include <gtest/gtest.h>

#include <cerrno>

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

} /* namespace */
