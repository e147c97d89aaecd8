/* SPDX-License-Identifier: MIT */
/* Visits to all guarded objects that are allocated: for counts, and at exit. */
#include <string.h>

#include "features/guard/guard_internal.h"
#include "core/slab/slab_internal.h"

/* Places that ever had an object: the others' memory need not be touched. */
static uint32_t nr_used(const struct guard_pool *pool)
{
	uint64_t turns = __atomic_load_n(&pool->turns, __ATOMIC_RELAXED);
	uint32_t next = __atomic_load_n(&pool->next, __ATOMIC_RELAXED);

	/* A turn looks at a few places, so next has not come round before. */
	return turns < pool->nr_places && next < pool->nr_places ?
		       next : pool->nr_places;
}

int guard_visit(guard_visitor *visit, void *arg)
{
	int ret = 0;

	for (int i = 0; i < GUARD_POOLS; i++) {
		struct guard_pool *pool = &guard_pools[i];

		for (uint32_t n = 0; n < nr_used(pool) && !ret; n++) {
			struct guard_place *place = place_at(pool, n);

			if (place_state(place) == GUARD_LIVE)
				ret = visit(place, pages_of(place).bytes, arg);
		}
	}
	return ret;
}

struct visit {
	uintptr_t cache;
	int (*call)(void *object, void *arg);
	void *arg;
	size_t nr, bytes;
};

static int visit_object(struct guard_place *place, size_t bytes, void *arg)
{
	struct visit *visit = arg;

	if (place->cache != visit->cache)
		return 0;
	visit->nr++;
	visit->bytes += bytes;
	return visit->call ? visit->call((void *)place->object, visit->arg) : 0;
}

int guard_for_each_object(const struct slub_cache *cache,
			  int (*call)(void *object, void *arg), void *arg)
{
	struct visit visit = { (uintptr_t)cache, call, arg, 0, 0 };

	return guard_visit(visit_object, &visit);
}

size_t guard_nr_objects(const struct slub_cache *cache, size_t *bytes)
{
	struct visit visit = { .cache = (uintptr_t)cache };

	guard_visit(visit_object, &visit);
	if (bytes)
		*bytes += visit.bytes;
	return visit.nr;
}

/* ---- exit: what was written beside them ---- */

/* Bytes that are looked at at once. */
#define LOOK_BYTES 1024

/*
 * Other threads free meanwhile, so the kernel copies what is still there.  Where there are none
 * nothing goes, and a sandbox may not let the kernel be asked for it.
 */
static bool copy(char *to, const char *from, size_t bytes)
{
	if (!os_is_alone())
		return os_peek(to, from, bytes) == (long)bytes;
	memcpy(to, from, bytes);
	return true;
}

/* The first of @from .. @end that was written; NULL: none, or the pages have gone. */
static const char *find_written_safely(const char *from, const char *end)
{
	char bytes[LOOK_BYTES];

	while (from < end) {
		size_t n = min_size((size_t)(end - from), sizeof(bytes));
		const unsigned char *at;

		if (!copy(bytes, from, n))
			return NULL;
		at = bytes_wrong((unsigned char *)bytes, n, DEBUG_ZONE_USED);
		if (at)
			return from + ((const char *)at - bytes);
		from += n;
	}
	return NULL;
}

static int place_look(struct guard_place *place, size_t bytes, void *unused)
{
	struct guard_place before = *place;
	struct pages pages = pages_of(&before);
	char *object = (char *)before.object;
	const char *at;

	(void)bytes;
	(void)unused;
	/* What a free has found is known. */
	if (!before.bytes || before.errors & GUARD_BEYOND ||
	    place_state(place) != GUARD_LIVE)
		return 0;
	at = find_written_safely(pages.start, object);
	if (!at)
		at = find_written_safely(object + before.bytes,
					 pages.start + pages.bytes);
	/* Not if it is another object by now. */
	if (at && place_state(place) == GUARD_LIVE &&
	    place->allocated.when_ns == before.allocated.when_ns &&
	    place->object == before.object)
		guard_say(place, GUARD_BEYOND, NULL, at, NULL);
	return 0;
}

usual void guard_finish(void)
{
	bool is_used = false;

	for (int i = 0; i < GUARD_POOLS; i++)
		is_used |= guard_pools[i].nr_places != 0;
	if (is_used)
		guard_visit(place_look, NULL);
}
