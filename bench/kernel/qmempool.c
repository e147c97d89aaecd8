/* SPDX-License-Identifier: MIT */
/*
 * qmempool_bench: alloc and free through a queued pool against the cache under it, objects of 256
 * bytes.
 *
 * "fastpath": the same object again and again, 30,000,000 pairs, pool (32, 128, 16). "N-pattern":
 * 100,000 times 256 allocations followed by 256 frees, pool (32, 256, 0). "parallel": rounds of
 * 1,024 on every CPU at once, pool (64, 1024 x CPUs).
 *
 * libslub's pool is a view of a cache, so one line more shows what both are worth: a cache whose
 * lists per CPU hold two objects. One call of it serves all contexts.
 *
 * "own queues" are those of queued.h, before a cache like the pool's, with the variants of the
 * original for callers in different contexts: SOFTIRQ, where nothing protects a CPU's queue, and
 * BH-disable, where those who could come in between wait. "signals blocked" is what a program has
 * to do for that without such a mark. "bulk": 16 at a time from the cache, past any queue.
 */
#include "queued.h"
#include "orig.h"

#include <stdio.h>

#include <slub/qmempool.h>

enum { OBJECT_BYTES = 256, PATTERN = 256, PARALLEL_PATTERN = 1024 };

struct from {
	struct slub_cache *cache;
	struct slub_qmempool *pool;
};

static uint64_t cache_reuse(uint64_t loops, void *arg)
{
	struct slub_cache *cache = ((struct from *)arg)->cache;

	for (uint64_t i = 0; i < loops; i++) {
		void *object = slub_cache_alloc(cache);

		bench_escape(object);
		slub_cache_free(cache, object);
	}
	return loops;
}

static uint64_t pool_reuse(uint64_t loops, void *arg)
{
	struct slub_qmempool *pool = ((struct from *)arg)->pool;

	for (uint64_t i = 0; i < loops; i++) {
		void *object = slub_qmempool_alloc(pool, 0);

		bench_escape(object);
		slub_qmempool_free(pool, object);
	}
	return loops;
}

static uint64_t cache_pattern(uint64_t loops, void *arg)
{
	struct slub_cache *cache = ((struct from *)arg)->cache;
	void *object[PATTERN];

	for (uint64_t i = 0; i < loops; i++) {
		for (int n = 0; n < PATTERN; n++)
			object[n] = slub_cache_alloc(cache);
		bench_escape(object);
		for (int n = 0; n < PATTERN; n++)
			slub_cache_free(cache, object[n]);
	}
	return loops * PATTERN;
}

/* `nr` is a constant where it is called, so both patterns are loops of their own. */
static inline uint64_t pool_rounds(uint64_t loops, struct slub_qmempool *pool, int nr)
{
	void *object[PARALLEL_PATTERN];

	for (uint64_t i = 0; i < loops; i++) {
		for (int n = 0; n < nr; n++)
			object[n] = slub_qmempool_alloc(pool, 0);
		bench_escape(object);
		for (int n = 0; n < nr; n++)
			slub_qmempool_free(pool, object[n]);
	}
	return loops * (uint64_t)nr;
}

static uint64_t pool_pattern(uint64_t loops, void *arg)
{
	return pool_rounds(loops, ((struct from *)arg)->pool, PATTERN);
}

static uint64_t pool_parallel(uint64_t loops, void *arg)
{
	return pool_rounds(loops, ((struct from *)arg)->pool, PARALLEL_PATTERN);
}

/* --- own queues: a reuse, an N-pattern and a parallel pattern for each guard --- */

static void nothing_pending(void)
{
}

QUEUED_INLINE uint64_t own_reuse(uint64_t loops, struct queued_pool *pool, enum queued_guard guard)
{
	for (uint64_t i = 0; i < loops; i++) {
		void *object = queued_alloc(pool, guard);

		bench_escape(object);
		queued_free(pool, object, guard);
	}
	return loops;
}

QUEUED_INLINE uint64_t own_rounds(uint64_t loops, struct queued_pool *pool, int nr,
				  enum queued_guard guard)
{
	void *object[PARALLEL_PATTERN];

	for (uint64_t i = 0; i < loops; i++) {
		for (int n = 0; n < nr; n++)
			object[n] = queued_alloc(pool, guard);
		bench_escape(object);
		for (int n = 0; n < nr; n++)
			queued_free(pool, object[n], guard);
	}
	return loops * (uint64_t)nr;
}

#define OWN(name, guard)						\
static uint64_t own_reuse_##name(uint64_t loops, void *arg)		\
{									\
	return own_reuse(loops, arg, guard);				\
}									\
static uint64_t own_pattern_##name(uint64_t loops, void *arg)		\
{									\
	return own_rounds(loops, arg, PATTERN, guard);			\
}

OWN(sequence, QUEUED_SEQUENCE)
OWN(plain, QUEUED_PLAIN)
OWN(masked, QUEUED_MASKED)
OWN(blocked, QUEUED_BLOCKED)

static uint64_t own_parallel(uint64_t loops, void *arg)
{
	return own_rounds(loops, arg, PARALLEL_PATTERN, QUEUED_SEQUENCE);
}

static const struct variant {
	const char *type, *row;
	orig_loop reuse, pattern;
	uint64_t share;			/* of the loops: what takes system calls makes fewer */
} variants[] = {
	{ "SEQUENCE", "own queues", own_reuse_sequence, own_pattern_sequence, 1 },
	{ "SOFTIRQ", "own queues, SOFTIRQ", own_reuse_plain, own_pattern_plain, 1 },
	{ "BH-disable", "own queues, BH-disable", own_reuse_masked, own_pattern_masked, 1 },
	{ "signals blocked", "own queues, signals blocked", own_reuse_blocked,
	  own_pattern_blocked, 20 },
};
enum { VARIANTS = sizeof(variants) / sizeof(variants[0]) };

static uint64_t bulk_pattern(uint64_t loops, void *arg)
{
	struct slub_cache *cache = ((struct from *)arg)->cache;
	void *object[PATTERN];

	for (uint64_t i = 0; i < loops; i++) {
		for (int n = 0; n < PATTERN; n += QUEUED_BULK)
			slub_cache_alloc_bulk(cache, 0, QUEUED_BULK, object + n);
		bench_escape(object);
		for (int n = 0; n < PATTERN; n += QUEUED_BULK)
			slub_cache_free_bulk(cache, QUEUED_BULK, object + n);
	}
	return loops * PATTERN;
}

/* A pool of its own for each: none finds another's objects. */
static void own(const struct variant *variant, struct slub_cache *cache, uint32_t localq,
		uint32_t sharedq, uint64_t loops, uint64_t patterns)
{
	struct queued_local local;
	struct queued_pool pool;
	char type[80], row[80];

	if (!queued_create(&pool, cache, localq, sharedq))
		bench_fatal("no pool with queues of its own");
	queued_enter(&local, nothing_pending);
	if (loops) {
		snprintf(type, sizeof(type), "own queues fastpath reuse %s", variant->type);
		snprintf(row, sizeof(row), "reuse/%s", variant->row);
		orig_time_bench(type, row, variant->reuse, loops / variant->share + 1, &pool, 0);
	}
	if (patterns) {
		snprintf(type, sizeof(type), "own queues alloc+free N-pattern %s", variant->type);
		snprintf(row, sizeof(row), "npattern/%s%s", variant->row,
			 localq == QUEUED_LOCAL_MAX ? ", localq 256" : "");
		orig_time_bench(type, row, variant->pattern, patterns / variant->share + 1, &pool,
				0);
	}
	queued_leave(&pool);
	queued_destroy(&pool);
}

static void own_on_every_cpu(struct slub_cache *cache, uint32_t sharedq, uint64_t patterns)
{
	struct queued_pool pool;

	if (!queued_create(&pool, cache, 64, sharedq))
		bench_fatal("no pool with queues of its own");
	orig_time_parallel("own queues parallel N-pattern", "npattern 1024/own queues/parallel",
			   own_parallel, patterns, &pool);
	queued_destroy(&pool);
}

static struct from create(const char *name, unsigned int localq, unsigned int sharedq,
			  unsigned int prealloc)
{
	struct slub_cache_args args = { .name = name, .size = OBJECT_BYTES,
					.flags = SLUB_CACHE_HWCACHE_ALIGN | SLUB_CACHE_NO_MERGE };
	struct from from;

	args.sheaf_length = localq;
	from.cache = slub_cache_create_args(&args);
	from.pool = from.cache && sharedq ?
		    slub_qmempool_create(localq, sharedq, prealloc, from.cache, 0) : NULL;
	if (!from.cache || (sharedq && !from.pool))
		bench_fatal("no cache or no pool");
	return from;
}

static void destroy(struct from from)
{
	slub_qmempool_destroy(from.pool);
	if (slub_cache_destroy(from.cache))
		bench_fatal("a cache still has objects");
}

static unsigned int power_of_two(unsigned int n)
{
	unsigned int power = 1;

	while (power < n)
		power *= 2;
	return power;
}

int main(int argc, char **argv)
{
	uint64_t loops, patterns;
	struct from cache, bare, pool;

	orig_begin("qmempool", argc, argv);
	loops = (uint64_t)bench_number("loops", 30000000);
	patterns = (uint64_t)bench_number("patterns", 100000);
	bench_options_done();
	orig_bind(0);
	cache = create("qmempool_bench_kmem", 0, 0, 0);
	bare = create("qmempool_bench_bare", 2, 0, 0);

	orig_line("Measured cost of doing alloc+free:");
	pool = create("qmempool_bench_fast", 32, 128, 16);
	slub_qmempool_free(pool.pool, slub_qmempool_alloc(pool.pool, 0));
	orig_time_bench("kmem fastpath reuse", "reuse/cache", cache_reuse, loops, &cache, 0);
	orig_time_bench("qmempool fastpath reuse", "reuse/qmempool", pool_reuse, loops, &pool, 0);
	for (int i = 0; i < VARIANTS; i++)
		own(&variants[i], pool.cache, 32, 128, loops, 0);
	destroy(pool);
	pool = create("qmempool_bench_pattern", 32, 256, 0);
	orig_line("N-pattern with %d elements", PATTERN);
	orig_time_bench("kmem alloc+free N-pattern", "npattern/cache", cache_pattern, patterns,
			&cache, 0);
	orig_time_bench("qmempool alloc+free N-pattern", "npattern/qmempool", pool_pattern,
			patterns, &pool, 0);
	orig_time_bench("kmem N-pattern, lists of two", "npattern/cache without lists",
			cache_pattern, patterns / 4 + 1, &bare, 0);
	orig_time_bench("kmem N-pattern, bulk of 16", "npattern/cache, bulk of 16", bulk_pattern,
			patterns, &cache, 0);
	for (int i = 0; i < VARIANTS; i++)
		own(&variants[i], pool.cache, 32, 256, 0, patterns);
	own(&variants[0], pool.cache, QUEUED_LOCAL_MAX, 256, 0, patterns);
	destroy(pool);
	pool = create("qmempool_bench_parallel", 64, power_of_two(1024 * orig_cpus), 0);
	if (orig_cpus > 1)
		orig_time_parallel("qmempool parallel N-pattern", "npattern 1024/qmempool/parallel",
				   pool_parallel, patterns / 4 + 1, &pool);
	if (orig_cpus > 1)
		own_on_every_cpu(pool.cache, power_of_two(1024 * orig_cpus), patterns / 4 + 1);
	else
		orig_left_out("the parallel test: one CPU");
	destroy(pool);
	destroy(cache);
	destroy(bare);
	return orig_end();
}
