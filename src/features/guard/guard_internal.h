/* SPDX-License-Identifier: MIT */
/* What the files of the guard share. */
#ifndef SLUB_GUARD_INTERNAL_H
#define SLUB_GUARD_INTERNAL_H

#include "features/guard/guard.h"

/* Those of a place that can be touched while its object is allocated. */
struct pages {
	char *start;
	size_t bytes;
};

/* Of @ptr, which guard_owns(). */
static inline struct guard_pool *pool_of(const void *ptr)
{
	struct guard_pool *pool = &guard_pools[GUARD_OBJECTS];

	while (!pool_owns(pool, ptr))
		pool++;
	return pool;
}

static inline struct guard_place *place_at(const struct guard_pool *pool,
					   uint32_t n)
{
	return (struct guard_place *)pool->places + n;
}

static inline uint32_t place_state(const struct guard_place *place)
{
	return __atomic_load_n(&place->state, __ATOMIC_ACQUIRE);
}

/* None for an object of no size. */
struct pages pages_of(const struct guard_place *place);
/*
 * Reports @error, found of a pointer @at by the public function @call, or by none; @frame: of
 * the caller that found it, or NULL.  True: the object is to stay as it is
 * (features/misuse/misuse.h).
 */
bool guard_say(struct guard_place *place, enum guard_error error,
	       const char *call, const void *at, const void *frame);

#endif
