/* SPDX-License-Identifier: MIT */
/* features/shadow/shadow.c: a shadow is made once, and ends with its root. */
#include <atomic>
#include <thread>
#include <vector>

#include "typed.h"

#include <slub/reserve.h>

extern "C" {
#include "features/shadow/shadow.h"
}

namespace {

using shadow = typed;

struct slub_cache *made_for(struct slub_cache *cache)
{
	EXPECT_EQ(slub_reserve_set(1 << 20), 0);
	void *object = cache_alloc_from_reserve(cache, SLUB_ALLOC_RESERVE);
	struct slub_cache *found = cache_shadow(cache, SHADOW_RESERVE);

	slab_free_objects(found, slab_of(found, object), object, object, 1);
	EXPECT_EQ(slub_reserve_set(0), 0);
	return found;
}

/* Else its structure could be another cache's, one with a constructor say, under a purge. */
TEST_F(shadow, does_not_end_under_a_pin)
{
	struct slub_cache *cache = make("pinned", 64), *reserve = made_for(cache);
	struct cache_hold pin;

	ASSERT_EQ(movers_enter(reserve, &pin, false), 0);
	EXPECT_TRUE(cache_is_pinned(cache));
	EXPECT_EQ(slub_cache_destroy(cache), -EDEADLK) << "it would wait for this thread";
	EXPECT_TRUE(cache_is_live(reserve));
	movers_leave(&pin);
	ASSERT_TRUE(cache_pin(reserve, &pin));
	EXPECT_EQ(slub_cache_destroy(cache), -EDEADLK);
	cache_unpin(&pin);
	end(cache);
	EXPECT_FALSE(cache_is_live(reserve));
	EXPECT_NE(movers_enter(reserve, &pin, false), 0);
}

/* As a twin of malloc's classes. */
TEST_F(shadow, of_a_cache_that_never_ends_can_be_pinned)
{
	static struct slub_cache own;
	struct cache_hold pin;

	ASSERT_EQ(cache_create(&own, "own", 64), 0);
	ASSERT_EQ(movers_enter(&own, &pin, false), 0);
	EXPECT_TRUE(cache_is_pinned(&own));
	movers_leave(&pin);
	EXPECT_FALSE(cache_is_pinned(&own));
}

constexpr int NR_THREADS = 4;

/* What the threads of a test do to the kind of shadow that they ask for. */
struct racing {
	struct slub_cache *cache;
	std::atomic<int> nr_come{ 0 }, nr_shaped{ 0 };
	struct slub_cache *outer = nullptr;
};

struct racing *race;

bool shape_slowly(struct slub_cache *, const struct slub_cache *)
{
	race->nr_shaped++;
	/* All others have asked by then, or are about to. */
	while (race->nr_come < NR_THREADS)
		sched_yield();
	usleep(20000);
	return true;
}

/* The reserve's place stands for any. */
const struct shadow_kind slow_kind = { SHADOW_RESERVE, "slow", ~0u, shape_slowly, nullptr };

TEST_F(shadow, is_made_by_one_of_all_threads)
{
	struct racing racing = { make("raced", 64) };
	std::vector<std::thread> threads;
	struct slub_cache *got[NR_THREADS] = {};

	race = &racing;
	for (auto &one : got)
		threads.emplace_back([&] {
			racing.nr_come++;
			one = shadow_get(racing.cache, &slow_kind);
		});
	for (auto &thread : threads)
		thread.join();
	EXPECT_EQ(racing.nr_shaped, 1);
	for (auto *one : got)
		EXPECT_EQ(one, cache_shadow(racing.cache, SHADOW_RESERVE));
	end(racing.cache);
}

bool shape_in_shape(struct slub_cache *made, const struct slub_cache *);
const struct shadow_kind nested_kind = { SHADOW_RESERVE, "nested", ~0u, shape_in_shape, nullptr };

/* As a handler of a signal that interrupts the making. */
bool shape_in_shape(struct slub_cache *made, const struct slub_cache *)
{
	if (race->nr_shaped++ == 0) {
		race->outer = made;
		EXPECT_NE(shadow_get(race->cache, &nested_kind), nullptr);
	}
	return true;
}

/* A walk may stand on it, with a pin of the root. */
TEST_F(shadow, that_came_too_late_ends_with_the_root)
{
	struct racing racing = { make("nested", 64) };

	race = &racing;
	struct slub_cache *first = shadow_get(racing.cache, &nested_kind);
	EXPECT_EQ(racing.nr_shaped, 2);
	EXPECT_NE(first, racing.outer);
	EXPECT_EQ(first, cache_shadow(racing.cache, SHADOW_RESERVE));
	EXPECT_TRUE(cache_is_live(racing.outer));
	end(racing.cache);
	EXPECT_FALSE(cache_is_live(first));
	EXPECT_FALSE(cache_is_live(racing.outer));
}

} /* namespace */
