/* SPDX-License-Identifier: MIT */
/* features/typed/bulk.c: objects put aside, and given back. */
#include "bulks.h"

namespace {

using bulk_prefill = bulk_paths;

TEST_F(bulk_prefill, a_prefill_has_as_many_as_were_asked_for)
{
	struct slub_prefill prefill = {};
	struct slub_cache *other = make("other", 64, SLUB_CACHE_NO_MERGE);
	std::set<void *> all;

	EXPECT_EQ(slub_prefill_alloc(&prefill), nullptr);
	for (size_t nr : { 0, 1, 64, 65, 130, 20 }) {
		EXPECT_EQ(slub_cache_prefill(cache, &prefill, nr), 0);
		EXPECT_GE(prefill.nr, nr);
	}
	EXPECT_EQ(prefill.nr, 130u);
	EXPECT_EQ(prefill.cache, cache);
	EXPECT_EQ(slub_cache_prefill(other, &prefill, 200), -EINVAL) << "it is of another";
	EXPECT_EQ(slub_cache_prefill(nullptr, &prefill, 200), -EINVAL);
	EXPECT_EQ(prefill.nr, 130u);
	while (void *p = slub_prefill_alloc(&prefill)) {
		EXPECT_TRUE(all.insert(p).second);
		EXPECT_EQ(prefill.nr, 130 - all.size());
	}
	EXPECT_EQ(all.size(), 130u);
	EXPECT_EQ(slub_cache_prefill(other, &prefill, 3), 0) << "it is empty";
	EXPECT_EQ(prefill.cache, other);
	slub_prefill_return(&prefill);
	EXPECT_EQ(prefill.nr, 0u);
	EXPECT_EQ(prefill.head, nullptr);
	check_cache(other, {});
	for (void *p : all)
		slub_cache_free(cache, p);
	end(other);
	EXPECT_EQ(slub_cache_prefill(other, &prefill, 3), -EINVAL) << "destroyed";
}

TEST_F(bulk_prefill, a_prefill_that_fails_gives_all_back)
{
	struct slub_prefill prefill = {};

	ASSERT_EQ(slub_cache_prefill(paged, &prefill, 10), 0);
	EXPECT_EQ(slub_cache_prefill(paged, &prefill, (200ul << 20) / paged->size), -ENOMEM);
	EXPECT_EQ(prefill.nr, 0u);
	EXPECT_EQ(prefill.head, nullptr);
	check_cache(paged, {});
}

TEST_F(bulk_prefill, a_return_is_counted_by_its_way)
{
	start::one_cpu here;
	struct slub_prefill prefill = {};

	if (SLUB_CONFIG_HARDENED || percpu_backend == BACKEND_TID)
		GTEST_SKIP() << "one by one";
	slub_prefill_return(&prefill);
	EXPECT_EQ(stats().sheaf_return_fast + stats().sheaf_return_slow, 0u) << "nothing";
	ASSERT_EQ(slub_cache_prefill(cache, &prefill, 5), 0);
	seen = {};
	slub_prefill_return(&prefill);
	EXPECT_EQ(stats().sheaf_return_fast, 1u);
	EXPECT_EQ(seen.pushed, std::vector<uint32_t>{ 5 });
	EXPECT_EQ(seen.nr_frees, 0u);
	ASSERT_EQ(slub_cache_prefill(cache, &prefill, 5), 0);
	seen.pushes_refused = 1;
	slub_prefill_return(&prefill);
	EXPECT_EQ(stats().sheaf_return_fast, 1u);
	EXPECT_EQ(stats().sheaf_return_slow, 1u);
	/* A look at each is due where one is watched, or has an owner. */
	ASSERT_EQ(slub_cache_prefill(cache, &prefill, 5), 0);
	ASSERT_EQ(slub_cache_debug(cache, SLUB_CACHE_RED_ZONE), 0);
	seen = {};
	slub_prefill_return(&prefill);
	EXPECT_EQ(seen.nr_pushes, 0u);
	EXPECT_EQ(stats().sheaf_return_slow, 2u);
	ASSERT_EQ(slub_cache_debug(cache, 0), 0);
	struct slub_cache *owned = make("owned", 64, SLUB_CACHE_ACCOUNT | SLUB_CACHE_NO_MERGE);
	ASSERT_EQ(slub_cache_prefill(owned, &prefill, 5), 0);
	slub_prefill_return(&prefill);
	EXPECT_EQ(stats(owned).sheaf_return_slow, 1u);
	EXPECT_EQ(stats(owned).sheaf_return_fast, 0u);
	end(owned);
	check_cache(cache, {});
}

} /* namespace */
