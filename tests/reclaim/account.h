/* SPDX-License-Identifier: MIT */
/* What the tests of accounting share. */
#ifndef SLUB_TESTS_RECLAIM_ACCOUNT_H
#define SLUB_TESTS_RECLAIM_ACCOUNT_H

#include <slub/cache.h>
#include <slub/group.h>

#include <gtest/gtest.h>

#include <malloc.h>

#include "harness.h"


inline size_t usage(slub_group *group)
{
	struct slub_group_stats stats = {};

	EXPECT_EQ(slub_group_stats(group, &stats), 0);
	return stats.usage;
}

inline uint64_t failures(slub_group *group)
{
	struct slub_group_stats stats = {};

	EXPECT_EQ(slub_group_stats(group, &stats), 0);
	return stats.failures;
}

/*
 * What a block is charged with: its class, or its pages; asked in a way that debugging does not
 * change.
 */
inline size_t charge_of(void *block)
{
	slub_cache *cache = slub_cache_of(block);

	if (!block)
		return 0;
	return cache ? slub_cache_size(cache) : malloc_usable_size(block);
}

/* In @group for as long as it lives. */
struct Inside {
	slub_group *group;
	explicit Inside(slub_group *g) : group(g) { slub_group_enter(group); }
	~Inside() { slub_group_leave(group); }
};

/* A group for one test, which must have nothing in the end. */
struct Account : testing::Test {
	slub_group *group = slub_group_create("account", nullptr);

	void TearDown() override
	{
		EXPECT_EQ(usage(group), 0u);
		EXPECT_EQ(slub_group_destroy(group), 0);
	}
	/* The charge of what @make returns, made in the group. */
	template <typename Make> void *in_group(Make make)
	{
		Inside inside(group);

		return make();
	}
};

#endif
