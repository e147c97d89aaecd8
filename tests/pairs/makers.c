/* SPDX-License-Identifier: MIT */
/* Features that hand memory out: buckets, pools, typesafe caches, prefills, per-CPU words. */
#include "pairs.h"

#include <unistd.h>

/* ---- bucket ---- */

static struct slub_bucket *bucket, *spare;

static void bucket_enter(struct cell *cell)
{
	bucket = slub_bucket_create("pair", SLUB_CACHE_ACCOUNT);
	spare = slub_bucket_create("spare", 0);
	if (!bucket || !spare)
		cell_fail(cell, "slub_bucket_create: errno %d", errno);
}

static void *bucket_alloc(struct cell *cell, size_t *size)
{
	(void)cell;
	return slub_bucket_alloc(bucket, *size);
}

static void bucket_free(struct cell *cell, void *block)
{
	(void)cell;
	slub_bucket_free(bucket, block);
}

/*
 * A bucket that is cleared while the other has its blocks in hand; or a reader is inside, then the
 * answer may be that it would wait for its caller.
 */
static void bucket_clear(struct cell *cell)
{
	const struct feature *other = cell_other(cell, &feature_bucket);

	for (int i = 0; i < 4; i++) {
		void *block = slub_bucket_alloc(spare, i % 2 ? 300 : LARGE);

		if (!block || i < 2 || !other->release || !cell_has(cell, other) ||
		    cell_is_in(cell, other->release_not))
			continue;
		other->release(cell, block);
	}
	cell_expect(cell, slub_bucket_clear(spare), "slub_bucket_clear",
		    cell_is_in(cell, IN_READER) ? -EDEADLK : 0);
}

static void bucket_disturb(struct cell *cell)
{
	void *block = slub_bucket_calloc(bucket, 7, 100), *moved = NULL;

	if (block)
		moved = slub_bucket_realloc(bucket, block, 20000);
	slub_bucket_free(bucket, moved ? moved : block);
	bucket_clear(cell);
}

static void bucket_check(struct cell *cell)
{
	struct slub_bucket_stats stats = { 0 };
	size_t nr = blocks_of(cell, &feature_bucket);

	if (cell_is_in(cell, IN_HANDLER))
		return;
	cell_barrier(cell);
	if (!cell_expect(cell, slub_bucket_stats(bucket, &stats), "slub_bucket_stats",
			 cell_is_in(cell, IN_READER) ? -EDEADLK : 0))
		return;
	/* The other may keep some, and what a reader looks at is not free yet. */
	if (stats.live_blocks < nr || stats.refused)
		cell_fail(cell, "a bucket of %zu blocks counts %zu, and %zu refused", nr,
			  stats.live_blocks, (size_t)stats.refused);
}

static bool bucket_leave(struct cell *cell)
{
	int blocked = cell_is_in(cell, IN_READER) ? -EDEADLK : 0;

	if (bucket && cell_expect(cell, slub_bucket_destroy(bucket), "slub_bucket_destroy",
				  blocked))
		bucket = NULL;
	if (spare && cell_expect(cell, slub_bucket_destroy_all(spare),
				 "slub_bucket_destroy_all", blocked))
		spare = NULL;
	return !bucket && !spare;
}

const struct feature feature_bucket = {
	.name = "bucket",
	.enter = bucket_enter,
	.leave = bucket_leave,
	.alloc = bucket_alloc,
	.free = bucket_free,
	.disturb = bucket_disturb,
	.check = bucket_check,
	.disturb_not = IN_HANDLER,
};

/* ---- mempool: the other's memory, in a pool ---- */

enum { ELEMENT = 100, ELEMENTS = 4 };

static struct slub_mempool *pool;
static const struct feature *element_maker;	/* NULL: malloc */
static struct cell *pool_cell;

static void *element_new(unsigned int flags, void *data)
{
	size_t size = ELEMENT;

	(void)flags, (void)data;
	if (!element_maker)
		return malloc(size);
	return element_maker->alloc(pool_cell, &size);
}

static void element_free(void *element, void *data)
{
	struct loose loose = { element, element_maker };

	(void)data;
	loose_give(pool_cell, &feature_mempool, loose);
}

static void pool_make(struct cell *cell)
{
	pool = slub_mempool_create(ELEMENTS, element_new, element_free, NULL);
	if (!pool)
		cell_fail(cell, "slub_mempool_create: errno %d", errno);
}

static void mempool_enter(struct cell *cell)
{
	const struct feature *other = cell_other(cell, &feature_mempool);

	pool_cell = cell;
	element_maker = other->alloc && cell_has(cell, other) ? other : NULL;
	pool_make(cell);
}

static void *mempool_alloc(struct cell *cell, size_t *size)
{
	(void)cell;
	*size = ELEMENT;
	return slub_mempool_alloc(pool, 0);
}

static void mempool_free(struct cell *cell, void *block)
{
	(void)cell;
	slub_mempool_free(pool, block);
}

static void mempool_disturb(struct cell *cell)
{
	void *some[ELEMENTS + 2];

	for (int i = 0; i < ELEMENTS + 2; i++)
		some[i] = i % 2 ? slub_mempool_alloc(pool, 0) : slub_mempool_alloc_reserved(pool);
	slub_mempool_free_bulk(pool, ELEMENTS + 2, some);
	if (cell_is_in(cell, IN_HANDLER))
		return;
	cell_expect(cell, slub_mempool_resize(pool, ELEMENTS + 3), "slub_mempool_resize", -ENOMEM);
	cell_expect(cell, slub_mempool_resize(pool, ELEMENTS), "slub_mempool_resize", 0);
}

static void mempool_check(struct cell *cell)
{
	struct slub_mempool_stats stats = { 0 };

	if (!cell_expect(cell, slub_mempool_stats(pool, &stats), "slub_mempool_stats",
			 cell_is_in(cell, IN_HANDLER) ? -EDEADLK : 0))
		return;
	if (stats.refused || stats.waiters || stats.available > stats.min_nr ||
	    (!blocks_of(cell, &feature_mempool) && stats.available != stats.min_nr))
		cell_fail(cell, "a pool of %zu has %zu, refused %zu", stats.min_nr,
			  stats.available, (size_t)stats.refused);
}

static bool mempool_leave(struct cell *cell)
{
	return cell_expect(cell, slub_mempool_destroy(pool), "slub_mempool_destroy", 0);
}

/* Its elements were the other's, and are malloc's from now on. */
static void mempool_drop(struct cell *cell)
{
	blocks_give_all(cell, &feature_mempool, NULL);
	mempool_leave(cell);
	element_maker = NULL;
	pool_make(cell);
}

const struct feature feature_mempool = {
	.name = "mempool",
	.enter = mempool_enter,
	.leave = mempool_leave,
	.alloc = mempool_alloc,
	.free = mempool_free,
	.disturb = mempool_disturb,
	.check = mempool_check,
	.drop = mempool_drop,
	.is_freed_by_itself = true,
};

/* ---- typesafe ---- */

enum { TYPESAFE = 208 };

static struct slub_cache *typesafe;

static void typesafe_enter(struct cell *cell)
{
	typesafe = slub_cache_create("pair-typesafe", TYPESAFE, 0,
				     SLUB_CACHE_TYPESAFE_BY_RCU | SLUB_CACHE_ACCOUNT, NULL);
	if (!typesafe)
		cell_fail(cell, "slub_cache_create: errno %d", errno);
}

static void *typesafe_alloc(struct cell *cell, size_t *size)
{
	(void)cell;
	*size = TYPESAFE;
	return slub_cache_alloc(typesafe);
}

static void typesafe_free(struct cell *cell, void *block)
{
	(void)cell;
	slub_cache_free(typesafe, block);
}

/* A reader looks at an object that is free, and at its memory when all else has gone back. */
static void typesafe_disturb(struct cell *cell)
{
	enum { OBJECTS = 40 };
	void *objects[OBJECTS];
	int reader = slub_read_lock();

	for (int i = 0; i < OBJECTS; i++)
		objects[i] = slub_cache_alloc(typesafe);
	for (int i = 0; i < OBJECTS; i++)
		slub_cache_free(typesafe, objects[i]);
	if (!cell_is_in(cell, IN_HANDLER))
		slub_shrink_all();
	for (int i = 0; i < OBJECTS; i++) {
		if (!objects[i])
			continue;
		*(volatile char *)objects[i];
		if (slub_cache_of(objects[i]) != typesafe)
			cell_fail(cell, "memory of a typesafe cache is another's");
	}
	slub_read_unlock(reader);
}

static void cache_check(struct cell *cell, struct slub_cache *cache)
{
	struct slub_cache_stats stats;

	cell_expect(cell, slub_cache_stats(cache, &stats), "slub_cache_stats", 0);
	if (stats.wrong_cache || stats.double_free || slub_cache_errors(cache))
		cell_fail(cell, "frees of another cache %zu, second ones %zu, lines %lu",
			  (size_t)stats.wrong_cache, (size_t)stats.double_free,
			  slub_cache_errors(cache));
}

static void typesafe_check(struct cell *cell)
{
	cache_check(cell, typesafe);
}

static bool typesafe_leave(struct cell *cell)
{
	return cell_expect(cell, slub_cache_destroy(typesafe), "slub_cache_destroy",
			   cell_is_in(cell, IN_READER) ? -EDEADLK : 0);
}

const struct feature feature_typesafe = {
	.name = "typesafe",
	.enter = typesafe_enter,
	.leave = typesafe_leave,
	.alloc = typesafe_alloc,
	.free = typesafe_free,
	.disturb = typesafe_disturb,
	.check = typesafe_check,
};

/* ---- prefill ---- */

enum { PREFILLED = 120, ASIDE = 20 };

static struct slub_cache *prefilled;
static struct slub_prefill prefill;

static void prefill_construct(void *object)
{
	memset(object, 0x5a, PREFILLED);
}

static void prefill_enter(struct cell *cell)
{
	prefilled = slub_cache_create("pair-prefill", PREFILLED, 0, SLUB_CACHE_ACCOUNT,
				      prefill_construct);
	if (!prefilled)
		cell_fail(cell, "slub_cache_create: errno %d", errno);
	cell_expect(cell, slub_cache_prefill(prefilled, &prefill, ASIDE), "slub_cache_prefill",
		    -ENOMEM);
}

static void *prefill_alloc(struct cell *cell, size_t *size)
{
	void *object = slub_prefill_alloc(&prefill);

	*size = PREFILLED;
	if (object)
		return object;
	if (!cell_expect(cell, slub_cache_prefill(prefilled, &prefill, ASIDE),
			 "slub_cache_prefill", -ENOMEM)) {
		errno = ENOMEM;
		return NULL;
	}
	return slub_prefill_alloc(&prefill);
}

/* With a constructor a free object is as it was made. */
static void prefill_free(struct cell *cell, void *block)
{
	(void)cell;
	prefill_construct(block);
	slub_cache_free(prefilled, block);
}

static void prefill_disturb(struct cell *cell)
{
	slub_prefill_return(&prefill);
	cell_expect(cell, slub_cache_prefill(prefilled, &prefill, 3 * ASIDE),
		    "slub_cache_prefill", -ENOMEM);
}

static void prefill_check(struct cell *cell)
{
	unsigned char *object = slub_prefill_alloc(&prefill);

	cache_check(cell, prefilled);
	if (!object)
		return;
	for (int i = 0; i < PREFILLED; i++)
		if (object[i] != 0x5a)
			cell_fail(cell, "an object that was put aside is not as it was made: "
				  "byte %d is %#x", i, object[i]);
	slub_cache_free(prefilled, object);
}

static bool prefill_leave(struct cell *cell)
{
	slub_prefill_return(&prefill);
	return cell_expect(cell, slub_cache_destroy(prefilled), "slub_cache_destroy",
			   cell_is_in(cell, IN_READER) ? -EDEADLK : 0);
}

const struct feature feature_prefill = {
	.name = "prefill",
	.enter = prefill_enter,
	.leave = prefill_leave,
	.alloc = prefill_alloc,
	.free = prefill_free,
	.disturb = prefill_disturb,
	.check = prefill_check,
	/* One thread at a time may use it: no handler may in the middle of it. */
	.alloc_not = IN_HANDLER,
	.disturb_not = IN_HANDLER,
	/* Only its own free leaves an object as it was made. */
	.is_freed_by_itself = true,
};

/* ---- percpu: words, and lists that keep the other's blocks ---- */

enum { LISTED = 6, LISTED_MAX = 60 };

static uintptr_t word, list;
static int64_t sum;
static struct loose listed[LISTED_MAX];
static size_t nr_listed;

static void percpu_enter(struct cell *cell)
{
	word = slub_percpu_alloc(sizeof(int64_t), 8);
	list = slub_percpu_alloc(sizeof(struct slub_percpu_list), SLUB_PERCPU_LIST_ALIGN);
	if (!word || !list)
		cell_fail(cell, "slub_percpu_alloc: errno %d", errno);
	sum = 0;
	nr_listed = 0;
}

static void percpu_empty(struct cell *cell)
{
	void *next, *chain = slub_percpu_list_drain(list);
	size_t nr = 0;

	for (; chain; chain = next, nr++) {
		size_t i = 0;

		next = *(void **)chain;
		while (i < nr_listed && listed[i].at != chain)
			i++;
		if (i == nr_listed)
			cell_fail(cell, "a list of the CPUs has what nobody put there");
		loose_give(cell, &feature_percpu, listed[i]);
		listed[i].at = NULL;
	}
	if (nr != nr_listed)
		cell_fail(cell, "a list of the CPUs has %zu of %zu", nr, nr_listed);
	nr_listed = 0;
}

static void percpu_disturb(struct cell *cell)
{
	for (int i = 1; i < 20; i++) {
		slub_percpu_add(word, i);
		sum += i;
	}
	for (size_t i = 0; i < LISTED && nr_listed < LISTED_MAX; i++) {
		struct loose loose = loose_take(cell, &feature_percpu, 100 << i);

		if (!loose.at)
			continue;
		if (slub_percpu_push(list, loose.at, LISTED_MAX))
			listed[nr_listed++] = loose;
		else
			loose_give(cell, &feature_percpu, loose);
	}
	/* In a handler, or where the other has a way to free that waits, later. */
	if (nr_listed > LISTED_MAX / 2 && !cell_is_in(cell, IN_HANDLER))
		percpu_empty(cell);
}

static void percpu_check(struct cell *cell)
{
	int64_t found = slub_percpu_sum(word);

	if (found != sum)
		cell_fail(cell, "the sum of a word is %ld, and %ld were added", (long)found,
			  (long)sum);
}

static bool percpu_leave(struct cell *cell)
{
	percpu_check(cell);
	percpu_empty(cell);
	cell_expect(cell, slub_percpu_free(word), "slub_percpu_free", 0);
	cell_expect(cell, slub_percpu_free(list), "slub_percpu_free", 0);
	return true;
}

const struct feature feature_percpu = {
	.name = "percpu",
	.enter = percpu_enter,
	.leave = percpu_leave,
	.disturb = percpu_disturb,
	.check = percpu_check,
	.drop = percpu_empty,
};
