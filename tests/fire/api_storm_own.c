/* SPDX-License-Identifier: MIT */
/*
 * api_storm: things of the thread's own, which it makes, uses, and ends at times: a cache, a
 * bucket, a group, a shrinker, per-CPU memory; and sections of a domain.
 */
#include "api_storm.h"

struct slub_srcu domain;

static void construct(void *object)
{
	memset(object, 0, 16);
}

static void take_cache(struct thread *t)
{
	static const unsigned long flags[] = {
		0, SLUB_CACHE_NO_MERGE, SLUB_CACHE_HWCACHE_ALIGN, SLUB_CACHE_TYPESAFE_BY_RCU,
				SLUB_CACHE_ACCOUNT,
		SLUB_CACHE_POISON | SLUB_CACHE_RED_ZONE, SLUB_CACHE_STORE_USER |
				SLUB_CACHE_CONSISTENCY_CHECKS,
	};
	char name[SLUB_CACHE_NAME_MAX + 1];
	void *some[40];
	size_t size, nr = below(t, 40);

	if (!t->cache) {
		size = sizeof(struct head) + 8 + below(t, below(t, 4) ? 500 : 9000);
		/* Of merged caches a destroy frees the name that came last, whosever. */
		snprintf(name, sizeof(name), "own-%s-%lu", t->name,
			 (unsigned long)t->next_id++);
		t->cache = slub_cache_create(name, size, 0, flags[below(t, 7)],
					     below(t, 4) ? NULL : construct);
		if (!t->cache && is_refused("slub_cache_create"))
			return;
	}
	size = slub_cache_size(t->cache);
	if (slub_cache_alloc_bulk(t->cache, 0, nr, some) != nr && is_refused("no bulk"))
		nr = 0;
	for (size_t i = 0; i < nr; i++)
		object_mark(t, some[i], size, t->cache);
	for (size_t i = 0; i < nr; i++)
		object_check(some[i]);
	slub_cache_free_bulk(t->cache, nr, some);
	if (!below(t, 4)) {
		if (is_destroyed(t, slub_cache_destroy(t->cache), "slub_cache_destroy"))
			t->cache = NULL;
	}
}

static void take_bucket(struct thread *t)
{
	size_t size = 1 + below(t, 3000);
	char *block;

	if (!t->bucket)
		t->bucket = slub_bucket_create(t->name, 0);
	if (!t->bucket && is_refused("slub_bucket_create"))
		return;
	block = slub_bucket_alloc(t->bucket, size);
	if (!block && is_refused("slub_bucket_alloc"))
		return;
	fire_stamp(block, size, size);
	fire_unstamp(block, size, size, "bucket");
	slub_bucket_free(t->bucket, block);
	if (!below(t, 8)) {
		if (is_destroyed(t, slub_bucket_destroy(t->bucket), "slub_bucket_destroy"))
			t->bucket = NULL;
	}
}

static void take_group(struct thread *t)
{
	struct slub_group_stats stats;

	if (!t->group) {
		t->group = slub_group_create(t->name, NULL);
		if (!t->group)
			is_refused("slub_group_create");
		return;
	}
	check_is(slub_group_enter(t->group), 0, 0, "slub_group_enter");
	for (size_t i = below(t, 20); i; i--)
		take_malloc(t);
	check_is(slub_group_stats(t->group, &stats), 0, 0, "slub_group_stats");
	check_is(slub_group_leave(t->group), 0, 0, "slub_group_leave");
	if (!below(t, 8)) {
		check_is(slub_group_destroy(t->group), 0, 0, "slub_group_destroy");
		t->group = NULL;
	}
}

static size_t shrinker_count(struct slub_shrinker *shrinker, struct slub_shrink_control *control)
{
	free(malloc(100));
	(void)shrinker, (void)control;
	return 10;
}

static size_t shrinker_scan(struct slub_shrinker *shrinker, struct slub_shrink_control *control)
{
	(void)shrinker;
	return control->nr_to_scan / 2;
}

static void take_shrinker(struct thread *t)
{
	if (t->shrinker.count) {
		check_is(slub_shrinker_destroy(&t->shrinker), 0, 0, "slub_shrinker_destroy");
		memset(&t->shrinker, 0, sizeof(t->shrinker));
		return;
	}
	t->shrinker.name = t->name;
	t->shrinker.count = shrinker_count;
	t->shrinker.scan = shrinker_scan;
	t->shrinker.seeks = SLUB_SHRINKER_SEEKS;
	check_is(slub_shrinker_create(&t->shrinker), 0, 0, "slub_shrinker_create");
}

static void take_percpu(struct thread *t)
{
	if (!t->word) {
		t->word = slub_percpu_alloc(8 << below(t, 4), 8);
		t->word_sum = 0;
		/* Where areas are small (SLUB_PERCPU_BYTES=64K) caches' counters fill them. */
		if (!t->word && errno == ENOSPC)
			return;
		if (!t->word && is_refused("slub_percpu_alloc"))
			return;
	}
	for (size_t i = below(t, 50); i; i--) {
		slub_percpu_add(t->word, (int64_t)i);
		t->word_sum += (int64_t)i;
	}
	if (slub_percpu_sum(t->word) != t->word_sum)
		fire_fail("per-CPU sum %ld, not %ld", (long)slub_percpu_sum(t->word),
			  (long)t->word_sum);
	if (!below(t, 8)) {
		check_is(slub_percpu_free(t->word), 0, 0, "slub_percpu_free");
		t->word = 0;
	}
}

static void take_srcu(struct thread *t)
{
	int index = slub_srcu_read_lock(&domain);

	take_malloc(t);
	slub_srcu_read_unlock(&domain, index);
	if (!below(t, 16))
		slub_srcu_synchronize(&domain);
}

const struct step own_steps[] = {
	{ "cache", take_cache, 40 },	{ "bucket", take_bucket, 30 },
	{ "group", take_group, 30 },	{ "shrinker", take_shrinker, 20 },
	{ "percpu", take_percpu, 40 },	{ "srcu", take_srcu, 20 },
	{ NULL, NULL, 0 },
};

/* ---- the end ---- */

void own_drop(struct thread *t)
{
	check_is(slub_cache_destroy(t->cache), 0, 0, "the last slub_cache_destroy");
	if (t->bucket)
		check_is(slub_bucket_destroy(t->bucket), 0, 0, "the last slub_bucket_destroy");
	check_is(slub_mempool_destroy(t->pool), 0, 0, "the last slub_mempool_destroy");
	if (t->shrinker.count)
		take_shrinker(t);
	free(t->busy);
	if (t->word)
		check_is(slub_percpu_free(t->word), 0, 0, "the last slub_percpu_free");
}

/* When no object is left, no group has anything. */
void group_drop(struct thread *t)
{
	struct slub_group_stats stats;

	if (!t->group)
		return;
	check_is(slub_group_stats(t->group, &stats), 0, 0, "slub_group_stats");
	if (stats.usage)
		fire_fail("%s still has %zu bytes", t->name, (size_t)stats.usage);
	check_is(slub_group_destroy(t->group), 0, 0, "the last slub_group_destroy");
}
