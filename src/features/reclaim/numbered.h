/* SPDX-License-Identifier: MIT */
/*
 * A pool: structures of one kind in one range of addresses, each with a number.
 *
 * Its memory stays memory of that kind for ever, so a thread that follows a stale
 * pointer without a lock finds a structure of that kind, if an outdated one.  Number 0
 * is never given out.
 */
#ifndef SLUB_RECLAIM_NUMBERED_H
#define SLUB_RECLAIM_NUMBERED_H

#include "core/percpu/percpu.h"

struct pool {
	/* const */
	uint32_t item_bytes;
	uint32_t nr_max;
	/* set once */
	char *start;
	/* under the lock; in another line than what all read */
	struct lock lock align_to(64);
	uint32_t nr_made;	/* read without it: numbers below it exist */
	uint32_t nr_used;
	size_t committed_bytes;
	void *returned;		/* linked through their last word */
};

#define POOL_INIT(bytes, max) { bytes, max, NULL, LOCK_INIT, 1, 0, 0, NULL }

/*
 * One item; a new one is zero, one that was used is as it was left, its last
 * word apart.  NULL: none left, or no memory.
 */
void *pool_get(struct pool *pool);
void pool_put(struct pool *pool, void *item);

static inline uint32_t pool_number(const struct pool *pool, const void *item)
{
	return (uint32_t)((size_t)((const char *)item - pool->start) /
			  pool->item_bytes);
}

/* @number must be one that was given out. */
static inline void *pool_item(const struct pool *pool, uint32_t number)
{
	return pool->start + (size_t)number * pool->item_bytes;
}

/* One past the highest number that was ever given out. */
static inline uint32_t pool_end(const struct pool *pool)
{
	return __atomic_load_n(&pool->nr_made, __ATOMIC_ACQUIRE);
}

#endif
