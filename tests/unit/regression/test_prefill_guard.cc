/* SPDX-License-Identifier: MIT */
/*
 * What is put aside may be of two caches, if debugging was switched meanwhile: in the hardened
 * build the second half was taken for damage and given up.
 *
 * What is put aside is linked, and a guarded object has no room for a link behind it.  Whether
 * there is a guard was once asked before the objects were allocated, and then again for each.
 */
#include <gtest/gtest.h>

#include "slub.h"

extern "C" {
#include "features/guard/guard.h"
#include "features/profile/sample.h"
}
#include <slub/debug.h>

namespace {

bool switches_on;

/* Runs when the prefill has looked, and before it has its first object. */
void construct(void *object)
{
	memset(object, 0x5a, 64);
	if (switches_on) {
		EXPECT_EQ(guard_switch(1), 0);
	}
	switches_on = false;
}

TEST(prefill_guard, switched_on_in_the_middle)
{
	struct slub_cache *cache = slub_cache_create("put-aside", 64, 0, 0, construct);
	struct slub_prefill prefill = {};
	void *object;
	int guarded = 0;

	ASSERT_TRUE(cache);
	/* Its objects are allocated one by one. */
	ASSERT_EQ(slub_cache_debug(cache, SLUB_CACHE_RED_ZONE), 0);
	switches_on = true;
	ASSERT_EQ(slub_cache_prefill(cache, &prefill, 60), 0);
	ASSERT_FALSE(switches_on);
	ASSERT_TRUE(sample_is_on(SAMPLE_GUARD));
	while ((object = slub_prefill_alloc(&prefill)) != NULL) {
		guarded += guard_owns(object);
		EXPECT_EQ(((char *)object)[63], 0x5a);
		slub_cache_free(cache, object);
	}
	EXPECT_EQ(guarded, 0);
	EXPECT_EQ(slub_cache_errors(cache), 0u);
	EXPECT_EQ(guard_pools[GUARD_OBJECTS].errors, 0u);
	/* For others there is one. */
	object = slub_cache_alloc(cache);
	EXPECT_TRUE(guard_owns(object));
	slub_cache_free(cache, object);
	EXPECT_EQ(guard_switch(0), 0);
	EXPECT_EQ(slub_cache_destroy(cache), 0);
}

TEST(prefill_guard, watched_ones_behind_others)
{
	struct slub_cache *cache = slub_cache_create("put-aside-too", 64, 0, 0, nullptr);
	struct slub_prefill prefill = {};
	void *object;
	int nr = 0;

	ASSERT_TRUE(cache);
	ASSERT_EQ(slub_cache_debug(cache, SLUB_CACHE_RED_ZONE), 0);
	ASSERT_EQ(slub_cache_prefill(cache, &prefill, 20), 0);
	ASSERT_EQ(slub_cache_debug(cache, 0), 0);
	ASSERT_EQ(slub_cache_prefill(cache, &prefill, 40), 0);
	for (; (object = slub_prefill_alloc(&prefill)) != NULL; nr++)
		slub_cache_free(cache, object);
	EXPECT_EQ(nr, 40);
	EXPECT_EQ(slub_cache_errors(cache), 0u);
	EXPECT_EQ(slub_cache_destroy(cache), 0);
}

} /* namespace */
