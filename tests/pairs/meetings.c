/* SPDX-License-Identifier: MIT */
/* Meetings of deferred frees, and of signal handlers: points that no composition comes to. */
#include "pairs.h"

#include <malloc.h>

static uint64_t number(struct cell *cell, const char *name)
{
	struct slub_value value = { 0 };

	cell_expect(cell, slub_value_read(name, &value), name, 0);
	return value.number;
}

static size_t resident(struct cell *cell)
{
	return number(cell, "heap.large_bytes") + number(cell, "heap.idle_bytes");
}

/* Two blocks that nobody has freed are two; malloc's and the bucket's. */
static void expect_two(struct cell *cell)
{
	struct block *one = block_take(cell, NULL, LARGE), *other;

	cell_barrier(cell);
	other = block_take(cell, NULL, LARGE);
	blocks_check(cell);
	block_give(cell, one, NULL);
	block_give(cell, other, NULL);
}

void meet_deferred_x_bucket(struct cell *cell)
{
	struct slub_bucket *bucket = slub_bucket_create("meeting", 0);
	struct slub_bucket_stats stats = { 0 };

	cell->doing = "slub_bucket_clear";
	slub_free_deferred(slub_bucket_alloc(bucket, LARGE));
	slub_free_deferred(slub_bucket_alloc(bucket, 100));
	cell_expect(cell, slub_bucket_clear(bucket), "slub_bucket_clear", 0);
	expect_two(cell);
	cell->doing = "slub_bucket_destroy_all";
	slub_free_deferred(slub_bucket_alloc(bucket, LARGE));
	cell_expect(cell, slub_bucket_destroy_all(bucket), "slub_bucket_destroy_all", 0);
	expect_two(cell);
	cell->doing = "slub_bucket_destroy";
	for (size_t size = 100; size <= LARGE; size *= 1000) {
		bucket = slub_bucket_create("meeting", 0);
		slub_free_deferred(slub_bucket_alloc(bucket, size));
		cell_barrier(cell);
		cell_expect(cell, slub_bucket_stats(bucket, &stats), "slub_bucket_stats", 0);
		if (stats.live_blocks)
			cell_fail(cell, "%zu blocks live after a barrier", stats.live_blocks);
		slub_free_deferred(slub_bucket_alloc(bucket, size));
		cell_expect(cell, slub_bucket_destroy(bucket), "slub_bucket_destroy", 0);
	}
	expect_two(cell);
}

/* What is freed is not in the way of what comes. */
static void come_and_go(struct cell *cell, int blocks, size_t bytes)
{
	for (int i = 0; i < blocks; i++) {
		char *block = malloc(bytes);

		if (!block)
			cell_fail(cell, "the %dth block of %zu bytes is refused, and all before it "
				  "were freed", i + 1, bytes);
		memset(block, 1, bytes < 4096 ? bytes : 4096);
		slub_free_deferred(block);
	}
}

void meet_deferred_x_group(struct cell *cell)
{
	struct slub_group *group = slub_group_create("meeting", NULL);
	struct slub_group_stats stats = { 0 };

	cell_expect(cell, slub_group_limit_set(group, SLUB_GROUP_MAX, 10 << 20),
		    "slub_group_limit_set", 0);
	cell_expect(cell, slub_group_enter(group), "slub_group_enter", 0);
	come_and_go(cell, 20, 2 << 20);
	cell_expect(cell, slub_group_leave(group), "slub_group_leave", 0);
	cell->doing = "slub_group_limit_set";
	cell_expect(cell, slub_group_limit_set(group, SLUB_GROUP_MAX, 1 << 20),
		    "slub_group_limit_set below what is freed", 0);
	cell_barrier(cell);
	cell_expect(cell, slub_group_stats(group, &stats), "slub_group_stats", 0);
	if (stats.usage || stats.failures)
		cell_fail(cell, "a group that freed all is charged %zu, refused %zu", stats.usage,
			  (size_t)stats.failures);
	cell->doing = "slub_group_destroy";
	cell_expect(cell, slub_group_enter(group), "slub_group_enter", 0);
	come_and_go(cell, 5, 100000);
	cell_expect(cell, slub_group_destroy(group), "slub_group_destroy", 0);
	come_and_go(cell, 5, 1000);
	cell_expect(cell, slub_group_leave(group), "slub_group_leave", 0);
}

static void limit_above(struct cell *cell, size_t bytes)
{
	char text[32];

	if (bytes)
		bytes += number(cell, "heap.slab_bytes") + number(cell, "heap.large_bytes");
	snprintf(text, sizeof(text), "%zu", bytes);
	cell_expect(cell, slub_option_set("limit", text), "slub_option_set", 0);
}

void meet_deferred_x_limit(struct cell *cell)
{
	void *block;

	limit_above(cell, 50 << 20);
	come_and_go(cell, 20, 4 << 20);
	block = malloc(40 << 20);
	if (!block)
		cell_fail(cell, "40 MiB are refused, and all was freed");
	memset(block, 1, 4096);
	free(block);
	limit_above(cell, 0);
}

void meet_deferred_x_trim(struct cell *cell)
{
	enum { BLOCKS_HELD = 20, BYTES = 1 << 20 };
	size_t before, now;

	for (int i = 0; i < 2; i++) {
		cell->doing = i ? "slub_shrink_all" : "malloc_trim";
		cell_barrier(cell);
		malloc_trim(0);
		before = resident(cell);
		come_and_go(cell, BLOCKS_HELD, BYTES);
		if (i)
			slub_shrink_all();
		else
			malloc_trim(0);
		now = resident(cell);
		if (now > before + BYTES)
			cell_fail(cell, "%zu bytes before and %zu after, and all was freed", before,
				  now);
	}
}

/* ---- calls that wait for readers, made by one: an answer, and not for ever ---- */

static int visit_none(void *object, void *arg)
{
	(void)object, (void)arg;
	return 0;
}

static const char *const waiting[] = {
	"slub_cache_shrink", "slub_cache_for_each_object", "slub_bucket_stats",
	"slub_bucket_clear", "slub_bucket_destroy", "slub_cache_destroy",
	"slub_cache_validate", "slub_shrink_all", "slub_defrag_all", "malloc_trim",
	"slub_node_shrink", "slub_debug", "slub_profile_stop", "slub_group_memory", NULL,
};

static long call(int which, struct slub_cache *cache, struct slub_bucket *bucket)
{
	struct slub_bucket_stats stats;
	struct slub_group_memory memory;

	switch (which) {
	case 0:
		return slub_cache_shrink(cache) < 0 ? -EDEADLK : 0;
	case 1:
		return slub_cache_for_each_object(cache, visit_none, NULL);
	case 2:
		return slub_bucket_stats(bucket, &stats);
	case 3:
		return slub_bucket_clear(bucket);
	case 4:
		return slub_bucket_destroy(bucket);
	case 5:
		return slub_cache_destroy(cache);
	case 6:
		return slub_cache_validate(cache) != -EINVAL;
	case 7:
		slub_shrink_all();
		return 0;
	case 8:
		return slub_defrag_all(100) < 0;
	case 9:
		return malloc_trim(0) * 0;
	case 10:
		return slub_node_shrink(SLUB_NODE_ANY) < 0;
	case 11:
		return slub_debug("F,meeting*") < 0 || slub_debug("-,meeting*") < 0;
	case 12:
		return slub_profile_stop();
	default:
		return slub_group_memory(slub_group_root(), &memory);
	}
}

void meet_deferred_x_reader(struct cell *cell)
{
	for (int which = 0; waiting[which]; which++) {
		struct slub_cache *cache = slub_cache_create("meeting", 100, 0, 0, NULL);
		struct slub_bucket *bucket = slub_bucket_create("meet", 0);
		int reader, again;
		long answer;

		if (!cache || !bucket)
			cell_fail(cell, "nothing to meet, errno %d", errno);
		cell->doing = waiting[which];
		slub_free_deferred(slub_bucket_alloc(bucket, LARGE));
		slub_free_deferred(slub_bucket_alloc(bucket, 50));
		slub_free_deferred(slub_cache_alloc(cache));
		reader = slub_read_lock();
		slub_free_deferred(slub_bucket_alloc(bucket, LARGE));
		slub_free_deferred(slub_cache_alloc(cache));
		again = slub_read_lock();
		answer = call(which, cache, bucket);
		slub_read_unlock(again);
		slub_read_unlock(reader);
		cell_expect(cell, answer, waiting[which], -EDEADLK);
		cell->doing = "outside";
		if (which != 4 || answer)
			cell_expect(cell, slub_bucket_destroy(bucket), "slub_bucket_destroy", 0);
		if (which != 5 || answer)
			cell_expect(cell, slub_cache_destroy(cache), "slub_cache_destroy", 0);
	}
}

/* ---- handlers that interrupt the library, maybe with a lock held ---- */

enum { STORM_NS = 40000, ROUNDS = 60 };

static void *volatile handed;	/* to the handler, which frees it */
static volatile sig_atomic_t nr_handled;
static struct slub_mempool *pool;

static void free_handed(int signal)
{
	int saved = errno;
	void *block = handed;

	(void)signal;
	handed = NULL;
	if (block)
		slub_free(block);
	errno = saved;
}

/* Holds the locks of the page layer, of a slab and of a CPU's list by turns. */
static void hold_locks(void)
{
	void *volatile some[8];

	for (int i = 0; i < 8; i++)
		some[i] = malloc(i % 2 ? LARGE : 30000);
	for (int i = 0; i < 8; i++)
		free(some[i]);
}

void meet_bucket_x_handler(struct cell *cell)
{
	struct slub_bucket *bucket = slub_bucket_create("meeting", 0);

	signal_storm(cell, free_handed, STORM_NS);
	for (int i = 0; i < ROUNDS; i++) {
		/* Else its class is made in a moment that a handler may interrupt. */
		slub_bucket_free(bucket, slub_bucket_alloc(bucket, LARGE));
		handed = slub_bucket_alloc(bucket, i % 4 ? LARGE : 300);
		while (handed)
			hold_locks();
		cell_expect(cell, slub_bucket_clear(bucket), "slub_bucket_clear", 0);
		expect_two(cell);
	}
	handed = slub_bucket_alloc(bucket, LARGE);
	while (handed)
		hold_locks();
	cell_expect(cell, slub_bucket_destroy(bucket), "slub_bucket_destroy", 0);
	signal_storm(cell, NULL, 0);
}

static void use_pool(int signal)
{
	int saved = errno;
	void *block = handed;

	(void)signal;
	handed = NULL;
	nr_handled++;
	slub_mempool_free(pool, block);
	/* The reserve is left alone by one that interrupted the library. */
	block = slub_mempool_alloc(pool, 0);
	if (block)
		memset(block, 3, 100);
	slub_mempool_free(pool, block);
	errno = saved;
}

void meet_mempool_x_handler(struct cell *cell)
{
	struct slub_mempool_stats stats = { 0 };

	pool = slub_mempool_create_malloc(4, 100);
	nr_handled = 0;
	signal_storm(cell, use_pool, STORM_NS);
	for (int i = 0; nr_handled < ROUNDS; i++) {
		void *some[6];

		for (int k = 0; k < 6; k++)
			some[k] = k % 2 ? slub_mempool_alloc_reserved(pool) :
					  slub_mempool_alloc(pool, 0);
		if (!handed)
			handed = slub_mempool_alloc(pool, 0);
		slub_mempool_free_bulk(pool, 6, some);
		hold_locks();
	}
	while (handed)
		hold_locks();
	signal_storm(cell, NULL, 0);
	/* What a handler could not put back goes there with the next free. */
	slub_mempool_free(pool, slub_mempool_alloc(pool, 0));
	cell_expect(cell, slub_mempool_stats(pool, &stats), "slub_mempool_stats", 0);
	if (stats.available != stats.min_nr || stats.refused)
		cell_fail(cell, "a pool of %zu has %zu, refused %zu", stats.min_nr,
			  stats.available, (size_t)stats.refused);
	cell_expect(cell, slub_mempool_destroy(pool), "slub_mempool_destroy", 0);
}
