/* SPDX-License-Identifier: MIT */
/* core/slab/shrink.c: ordinary frees empty lists in pieces, so that none of them takes long. */
#include <gtest/gtest.h>

#include "all_lists.h"
#include "clock.h"
#include "core/page/purge.h"

namespace {

enum { SIZE = 64, CACHES = 128, NR = 2048 };

class pieces : public all_lists {
protected:
	static void SetUpTestSuite()
	{
		harness::stay_on_this_cpu();
		all_lists::SetUpTestSuite();
	}
	void SetUp() override
	{
		all_lists::SetUp();
		if (IsSkipped())
			return;
		if (SLUB_CONFIG_HARDENED)
			GTEST_SKIP() << "what is freed waits";
		/* What the test before bought again is forgotten. */
		now_ns += 100000000000ull;
		for (auto &cache : caches) {
			if (!cache.size) {
				ASSERT_EQ(cache_create(&cache, "piece", SIZE), 0);
			}
			fill(&cache);
		}
	}
	/* Lists and barns that hold something. */
	static void fill(struct slub_cache *cache)
	{
		std::vector<void *> objects;

		for (int round = 0; round < 4; round++) {
			for (int i = 0; i < NR; i++)
				objects.push_back(cache_alloc(cache));
			for (; !objects.empty(); objects.pop_back())
				cache_free(cache, objects.back());
		}
	}
	size_t cached()
	{
		size_t nr = 0;

		for (auto &cache : caches)
			nr += cache_nr_cached(&cache);
		return nr;
	}
	/* One chain more than is left may come to it, and a list is two. */
	size_t bound()
	{
		size_t most = 0;

		for (auto &cache : caches)
			most = std::max(most, (size_t)capacity_now(&cache));
		return PURGE_OBJECTS + 2 * most;
	}
	/* So much memory is freed that lists are to be emptied. */
	static void give_memory()
	{
		const size_t n = 24;
		bool is_zero;
		char *start = superblock_alloc(n, 1, 0, false, &is_zero);

		ASSERT_NE(start, nullptr);
		for (size_t at = 0; at < n * SUPERBLOCK_BYTES; at += PAGE_BYTES)
			start[at] = 1;
		superblock_free(start, n, true);
	}

	static struct slub_cache caches[CACHES];
};

struct slub_cache pieces::caches[CACHES];

TEST_F(pieces, no_call_empties_many_and_the_calls_empty_all)
{
	size_t most = 0, before = cached();
	int calls = 0;

	ASSERT_GT(before, 2 * bound());
	give_memory();
	for (; calls < 1000 && (cached() || slab_is_emptying()); calls++) {
		size_t then = cached();

		slab_reclaim_if_needed();
		most = std::max(most, then - std::min(cached(), then));
	}
	EXPECT_EQ(cached(), 0u);
	EXPECT_LE(most, bound());
	EXPECT_FALSE(slab_is_emptying());
	for (auto &cache : caches)
		check_cache(&cache, {});
}

/* A trim does it all at once, and nothing is left to do. */
TEST_F(pieces, a_trim_ends_it)
{
	give_memory();
	for (int calls = 0; calls < 100 && !slab_is_emptying(); calls++)
		slab_reclaim_if_needed();
	ASSERT_TRUE(slab_is_emptying());
	slab_shrink_all();
	EXPECT_EQ(cached(), 0u);
	EXPECT_FALSE(slab_is_emptying());
	/* So lists may fill again. */
	fill(&caches[0]);
	size_t then = cached();
	ASSERT_GT(then, 0u);
	for (int calls = 0; calls < 100; calls++)
		slab_reclaim_if_needed();
	EXPECT_EQ(cached(), then);
}

} /* namespace */
