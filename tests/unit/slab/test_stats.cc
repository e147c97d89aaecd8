/* SPDX-License-Identifier: MIT */
/* What enum cache_stat counts rises when it happens, and not otherwise. */
#include <sched.h>

#include "typed.h"

#include <slub/reserve.h>

namespace {

/* On one CPU: a list that was filled is there. */
struct stats : typed {
	static void SetUpTestSuite()
	{
		harness::stay_on_this_cpu();
		typed::SetUpTestSuite();
	}
	static struct slub_cache_stats of(struct slub_cache *cache)
	{
		struct slub_cache_stats now;

		EXPECT_EQ(slub_cache_stats(cache, &now), 0);
		return now;
	}
	static std::vector<void *> get(struct slub_cache *cache, size_t nr)
	{
		std::vector<void *> objects(nr);

		EXPECT_EQ(slub_cache_alloc_bulk(cache, 0, nr, objects.data()), nr);
		return objects;
	}
	static void give(struct slub_cache *cache, std::vector<void *> &objects)
	{
		slub_cache_free_bulk(cache, objects.size(), objects.data());
		objects.clear();
	}
	/* Backend tid takes no two objects at once, nor does the hardened build. */
	static bool is_one_by_one()
	{
		return percpu_backend == BACKEND_TID || SLUB_CONFIG_HARDENED;
	}
	/* Past the lists. */
	static void give_to_slab(struct slub_cache *cache, void *object)
	{
		slab_free_objects(cache, slab_of(cache, object), object, object, 1);
	}
};

TEST_F(stats, a_free_lists_a_slab_and_takes_it_off)
{
	struct slub_cache *cache = make("partial", 512);
	auto objects = get(cache, 20 * cache->objects);

	ASSERT_TRUE(cache_flush(cache));
	struct slub_cache_stats before = of(cache);
	EXPECT_EQ(before.free_remove_partial, 0u);
	for (size_t i = 0; i < objects.size(); i += 2)
		give_to_slab(cache, objects[i]);
	struct slub_cache_stats half = of(cache);
	EXPECT_GE(half.free_add_partial, before.free_add_partial + 10) << "full slabs got room";
	EXPECT_LE(half.free_add_partial, half.slab_alloc);
	EXPECT_EQ(half.free_remove_partial, 0u);
	for (size_t i = 1; i < objects.size(); i += 2)
		give_to_slab(cache, objects[i]);
	struct slub_cache_stats after = of(cache);
	EXPECT_GT(after.free_remove_partial, 0u);
	EXPECT_EQ(after.free_remove_partial, after.slab_free) << "each had been on the list";
	end(cache);
}

TEST_F(stats, of_objects_of_the_reserve)
{
	struct slub_cache *cache = make("reserved", 512);

	ASSERT_EQ(slub_reserve_set(256 << 10), 0);
	void *object = cache_alloc_from_reserve(cache, SLUB_ALLOC_RESERVE);
	ASSERT_NE(object, nullptr);
	EXPECT_EQ(of(cache).slabs, 1u);
	EXPECT_GT(of(cache).objects, 0u);
	EXPECT_EQ(of(cache).alloc_direct, 1u);
	EXPECT_LT(slub_reserve_bytes(), (size_t)256 << 10);
	slub_cache_free(cache, object);
	EXPECT_EQ(of(cache).free_direct, 1u);
	EXPECT_EQ(of(cache).slabs, 0u) << "though it was being carved";
	EXPECT_EQ(slub_reserve_bytes(), (size_t)256 << 10);
	EXPECT_EQ(slub_reserve_set(0), 0);
	end(cache);
}

TEST_F(stats, an_exchange_that_fails)
{
	struct slub_cache *cache = make("exchange", 64);
	auto objects = get(cache, 1);
	struct page *slab = slab_of(cache, objects[0]);
	struct double_word now = slab_read(slab), old = now;

	uint64_t before = of(cache).cmpxchg_double_fail;
	EXPECT_TRUE(slab_update(slab, &old, now));
	EXPECT_EQ(of(cache).cmpxchg_double_fail, before);
	old.second++;
	EXPECT_FALSE(slab_update(slab, &old, now));
	EXPECT_EQ(of(cache).cmpxchg_double_fail, before + 1);
	give(cache, objects);
	end(cache);
}

/*
 * However the bound of lists changes meanwhile, as it does when another CPU refills its list, or
 * frees more than it takes.
 */
TEST_F(stats, objects_in_lists_are_those_that_are_there)
{
	const int32_t bounds[] = { 24, 500, 60, 16, 2000, 131 };
	struct slub_cache *cache = make("counted", 64);
	std::vector<void *> objects;
	auto used = [&] {
		uint32_t stats = cache->stats;

		return (long)(slub_percpu_sum32(stats + 4 * STAT_OBJECTS_OUT) -
			      slub_percpu_sum32(stats + 4 * STAT_OBJECTS_BACK)) -
		       (long)cache_nr_cached(cache);
	};
	/* Each leaves a room one off, until the list is taken or put. */
	const int aborts = percpu_backend == BACKEND_RSEQ ? 8 : 0;
	uint32_t seed = 1;

	if (is_one_by_one())
		GTEST_SKIP() << "the number of a spare list has no place, or lists are two";
	for (int round = 0; round < 200; round++) {
		size_t nr = (seed = seed * 1103515245 + 12345) >> 16 & 1023;
		bool takes = round < 5 || seed >> 28 & 1;

		for (; nr && (takes || !objects.empty()); nr--) {
			if (takes) {
				objects.push_back(slub_cache_alloc(cache));
			} else {
				slub_cache_free(cache, objects.back());
				objects.pop_back();
			}
		}
		EXPECT_NEAR((double)used(), (double)objects.size(), aborts) << round;
		__atomic_store_n(&cache->capacity_now, bounds[round % 6], __ATOMIC_RELAXED);
		ASSERT_NEAR((double)used(), (double)objects.size(), aborts) << round;
	}
	give(cache, objects);
	EXPECT_NEAR((double)used(), 0, aborts);
	end(cache);
}

TEST_F(stats, lists_made_and_emptied)
{
	struct slub_cache *cache = make("lists", 64);
	auto objects = get(cache, 1000);
	struct slub_cache_stats before = of(cache);

	EXPECT_GT(before.alloc_refill, 0u);
	EXPECT_EQ(before.alloc_refill_fail, 0u);
	EXPECT_EQ(before.lists_emptied, 0u);
	EXPECT_EQ(before.alloc_direct + before.free_direct, 0u);
	give(cache, objects);
	before = of(cache);
	ASSERT_TRUE(cache_flush(cache));
	struct slub_cache_stats after = of(cache);
	EXPECT_GT(after.lists_emptied, before.lists_emptied);
	EXPECT_EQ(after.free_flush, before.free_flush);
	EXPECT_EQ(after.objects_out, after.objects_back);
	end(cache);
}

TEST_F(stats, a_refill_without_memory)
{
	struct slub_cache *cache = make("refused", 40000);
	size_t nr = (160ul << 20) / cache->size;
	std::vector<void *> objects(nr);

	EXPECT_EQ(slub_cache_alloc_bulk(cache, 0, nr, objects.data()), 0u);
	struct slub_cache_stats now = of(cache);
	EXPECT_GT(now.alloc_refill_fail, 0u);
	EXPECT_GT(now.alloc_refill, now.alloc_refill_fail);
	end(cache);
}

TEST_F(stats, prefills)
{
	struct slub_cache *cache = make("prefill", 64);
	auto most = (size_t)cache->capacity;
	struct slub_prefill prefill = {};

	EXPECT_EQ(slub_cache_prefill(cache, &prefill, 0), 0);
	ASSERT_EQ(slub_cache_prefill(cache, &prefill, 2), 0);
	struct slub_cache_stats now = of(cache);
	EXPECT_EQ(now.sheaf_prefill_slow, 1u) << "nothing was in the list yet";
	EXPECT_EQ(now.sheaf_prefill_fast + now.sheaf_prefill_oversize, 0u);
	slub_prefill_return(&prefill);
	slub_prefill_return(&prefill);
	now = of(cache);
	EXPECT_EQ(now.sheaf_return_fast + now.sheaf_return_slow, 1u) << "the second had nothing";
	/* The kernel may give the thread another number at any time. */
	for (int i = 0; i < 100 && !is_one_by_one() && !of(cache).sheaf_prefill_fast; i++) {
		ASSERT_EQ(slub_cache_prefill(cache, &prefill, 2), 0);
		slub_prefill_return(&prefill);
	}
	EXPECT_TRUE(of(cache).sheaf_prefill_fast || is_one_by_one());
	ASSERT_EQ(slub_cache_prefill(cache, &prefill, most + 1), 0);
	EXPECT_EQ(of(cache).sheaf_prefill_oversize, 1u);
	EXPECT_EQ(prefill.nr, most + 1);
	slub_prefill_return(&prefill);
	check_cache(cache, {});
	end(cache);
}

TEST_F(stats, prefills_that_are_returned)
{
	struct slub_cache *cache = make("returned", 64);
	struct slub_prefill prefill = {};

	for (int i = 0; i < 100 && !is_one_by_one() && !of(cache).sheaf_return_fast; i++) {
		ASSERT_EQ(slub_cache_prefill(cache, &prefill, 2), 0);
		slub_prefill_return(&prefill);
	}
	EXPECT_TRUE(of(cache).sheaf_return_fast || is_one_by_one());
	uint64_t slow = of(cache).sheaf_return_slow;
	for (int i = 0; i < 100 && of(cache).sheaf_return_slow == slow; i++) {
		ASSERT_EQ(slub_cache_prefill(cache, &prefill, (size_t)cache->capacity), 0);
		slub_cache_free(cache, get(cache, 1)[0]);
		slub_prefill_return(&prefill);
	}
	EXPECT_GT(of(cache).sheaf_return_slow, slow) << "a whole list, and there was an object";
	check_cache(cache, {});
	end(cache);
}

TEST_F(stats, deferred_frees)
{
	struct slub_cache *cache = make("deferred", 64), *other = make("other", 200);
	auto objects = get(cache, 200), others = get(other, 100);

	for (size_t i = 0; i < 200; i++) {
		slub_free_deferred(objects[i]);
		if (i % 2)
			slub_free_deferred(others[i / 2]);
	}
	slub_deferred_barrier();
	EXPECT_EQ(of(cache).free_rcu_sheaf, 200u);
	EXPECT_EQ(of(other).free_rcu_sheaf, 100u);
	EXPECT_EQ(of(cache).free_rcu_sheaf_fail, 0u);
	end(other);
	end(cache);
}

TEST_F(stats, a_deferred_free_without_a_sheaf)
{
	struct slub_cache *cache = make("alone", 64);
	auto objects = get(cache, 1);

	slub_deferred_barrier();
	slab_shrink_all();
	/* As in a signal handler that interrupted the holder of a lock. */
	slub_thread.locks_held++;
	slub_free_deferred(objects[0]);
	slub_thread.locks_held--;
	cache_free_postponed();
	EXPECT_EQ(of(cache).free_rcu_sheaf_fail, 1u);
	slub_deferred_barrier();
	EXPECT_EQ(of(cache).free_rcu_sheaf, 0u);
	check_cache(cache, {});
	end(cache);
}

TEST_F(stats, watched_objects_go_past_the_lists)
{
	struct slub_cache *cache = make("watched", 64, SLUB_CACHE_POISON | SLUB_CACHE_STORE_USER);
	std::vector<void *> objects;

	for (int i = 0; i < 300; i++)
		objects.push_back(slub_cache_alloc(cache));
	EXPECT_EQ(of(cache).alloc_direct, 300u);
	EXPECT_EQ(of(cache).objects_out, 300u);
	for (void *object : objects)
		slub_cache_free(cache, object);
	struct slub_cache_stats now = of(cache);
	EXPECT_EQ(now.free_direct, 300u);
	EXPECT_EQ(now.objects_back, 300u);
	EXPECT_GT(now.free_add_partial, 0u);
	EXPECT_EQ(now.free_remove_partial, now.slab_free);
	EXPECT_EQ(now.alloc_refill + now.free_flush, 0u);
	end(cache);
}

} /* namespace */
