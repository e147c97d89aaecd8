/* SPDX-License-Identifier: MIT */
/*
 * A block of a bucket is freed, allocated again and freed, and the program writes nothing to it:
 * no free may find the key of the free before.  Each that did looked through all lists, which
 * stops every CPU, a hundred times for each size.
 */
#include <gtest/gtest.h>
#include <vector>

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

/* Nor in a typed cache, whatever the ways; what is put aside and given back had one meanwhile. */
TEST(typed_key, an_object_that_nobody_wrote_to_is_freed_without_suspicion)
{
	if (!KEYS)
		GTEST_SKIP() << "a build without keys";
	for (unsigned long flags : { 0ul, (unsigned long)SLUB_CACHE_ACCOUNT }) {
		struct slub_cache *cache = slub_cache_create("typed-key", 64, 0,
							     flags | SLUB_CACHE_NO_MERGE, nullptr);
		ASSERT_NE(cache, nullptr);
		for (size_t nr : { 1, 2, 64, 65, 300 }) {
			struct slub_prefill prefill = {};
			std::vector<void *> objects(nr);

			for (int i = 0; i < 20; i++) {
				ASSERT_EQ(slub_cache_alloc_bulk(cache, 0, nr, objects.data()), nr);
				slub_cache_free_bulk(cache, nr, objects.data());
				for (void *&object : objects)
					object = slub_cache_alloc(cache);
				for (void *object : objects)
					slub_cache_free(cache, object);
				ASSERT_EQ(slub_cache_prefill(cache, &prefill, nr), 0);
				slub_prefill_return(&prefill);
			}
			EXPECT_EQ(cache->suspects, 0) << nr << " objects, flags " << flags;
		}
		EXPECT_EQ(slub_cache_destroy(cache), 0);
	}
}

} // namespace
