/* SPDX-License-Identifier: MIT */
/*
 * A block of a bucket is freed, allocated again and freed, and the program writes nothing to it:
 * no free may find the key of the free before.  Each that did looked through all lists, which
 * stops every CPU, a hundred times for each size.
 */
#include <gtest/gtest.h>

#include "slub.h"

extern "C" {
#include <slub/bucket.h>
}

namespace {

TEST(bucket_key, a_block_that_nobody_wrote_to_is_freed_without_suspicion)
{
	if (!KEYS)
		GTEST_SKIP() << "a build without keys";
	slub_bucket *bucket = slub_bucket_create("keys", 0);

	ASSERT_NE(bucket, nullptr);
	for (size_t bytes : { 1, 64, 1000, 3000, 8000 }) {
		const struct slub_cache *cache = nullptr;

		for (int i = 0; i < 50; i++) {
			void *block = slub_bucket_alloc(bucket, bytes);

			ASSERT_NE(block, nullptr) << bytes;
			cache = cache_of(block);
			EXPECT_FALSE(key_is_set(cache, block)) << bytes << " bytes, free " << i;
			slub_bucket_free(bucket, block);
		}
		EXPECT_EQ(cache->suspects, 0) << bytes;
	}
	EXPECT_EQ(slub_bucket_destroy(bucket), 0);
}

} // namespace
