/* SPDX-License-Identifier: MIT */
/* Visits to all guarded objects that are allocated: for counts, and at exit. */
#include "slab/guard/guard_internal.h"
#include "slab/slab_internal.h"

/* Places that ever had an object: the others' memory need not be touched. */
static uint32_t nr_used(const struct guard_pool *pool)
{
	uint64_t turns = __atomic_load_n(&pool->turns, __ATOMIC_RELAXED);
	uint32_t next = __atomic_load_n(&pool->next, __ATOMIC_RELAXED);

	/* A turn looks at a few places, so next has not come round before. */
	return turns < pool->nr_places && next < pool->nr_places ?
		       next : pool->nr_places;
}

static void pool_visit(const struct guard_pool *pool, guard_visitor *visit,
		       void *arg)
{
	for (uint32_t n = 0; n < nr_used(pool); n++) {
		const struct guard_place *place = place_at(pool, n);

		if (place_state(place) == GUARD_LIVE)
			visit(place, pages_of(place).bytes, arg);
	}
}

void guard_visit(guard_visitor *visit, void *arg)
{
	for (int i = 0; i < GUARD_POOLS; i++)
		pool_visit(&guard_pools[i], visit, arg);
}

static int pool_for_each(const struct guard_pool *pool, uintptr_t cache,
			 int (*call)(void *object, void *arg), void *arg)
{
	int ret = 0;

	for (uint32_t n = 0; n < nr_used(pool) && !ret; n++) {
		const struct guard_place *place = place_at(pool, n);

		if (place_state(place) == GUARD_LIVE && place->cache == cache)
			ret = call((void *)place->object, arg);
	}
	return ret;
}

int guard_for_each_object(const struct slub_cache *cache,
			  int (*call)(void *object, void *arg), void *arg)
{
	int ret = 0;

	for (int i = 0; i < GUARD_POOLS && !ret; i++)
		ret = pool_for_each(&guard_pools[i], (uintptr_t)cache, call,
				    arg);
	return ret;
}

struct bytes_of {
	uintptr_t cache;
	size_t bytes;
};

static void add_bytes(const struct guard_place *place, size_t bytes, void *arg)
{
	struct bytes_of *sum = arg;

	if (place->cache == sum->cache)
		sum->bytes += bytes;
}

size_t guard_page_bytes(const struct slub_cache *cache)
{
	struct bytes_of sum = { (uintptr_t)cache, 0 };

	guard_visit(add_bytes, &sum);
	return sum.bytes;
}

size_t guard_nr_objects(const struct slub_cache *cache)
{
	size_t nr = 0;

	guard_for_each_object(cache, object_count, &nr);
	return nr;
}

/* ---- exit: what was written beside them ---- */

/* Bytes that are looked at at once. */
#define LOOK_BYTES 1024

/*
 * The first of @from .. @end that was written; NULL: none, or the pages have gone.  Other
 * threads free meanwhile, so the kernel copies what is still there.
 */
static const char *find_written_safely(const char *from, const char *end)
{
	char bytes[LOOK_BYTES];

	while (from < end) {
		size_t n = min_size((size_t)(end - from), sizeof(bytes));
		const unsigned char *at;

		if (os_peek(bytes, from, n) != (long)n)
			return NULL;
		at = guard_find_written(bytes, bytes + n);
		if (at)
			return from + ((const char *)at - bytes);
		from += n;
	}
	return NULL;
}

static void place_look(struct guard_place *place)
{
	struct guard_place before = *place;
	struct pages pages = pages_of(&before);
	char *object = (char *)before.object;
	const char *at;

	/* What a free has found is known. */
	if (!before.bytes || before.errors & GUARD_BEYOND ||
	    place_state(place) != GUARD_LIVE)
		return;
	at = find_written_safely(pages.start, object);
	if (!at)
		at = find_written_safely(object + before.bytes,
					 pages.start + pages.bytes);
	/* Not if it is another object by now. */
	if (at && place_state(place) == GUARD_LIVE &&
	    place->allocated.when_ns == before.allocated.when_ns &&
	    place->object == before.object)
		guard_say(place, GUARD_BEYOND, NULL, at, NULL);
}

static cold void pool_finish(const struct guard_pool *pool)
{
	for (uint32_t n = 0; n < nr_used(pool); n++) {
		struct guard_place *place = place_at(pool, n);

		if (place_state(place) == GUARD_LIVE)
			place_look(place);
	}
}

usual void guard_finish(void)
{
	for (int i = 0; i < GUARD_POOLS; i++) {
		if (guard_pools[i].nr_places)
			pool_finish(&guard_pools[i]);
	}
}
