/* SPDX-License-Identifier: MIT */
/*
 * A cache that is not destroyed for a moment, and who waits for that.
 *
 * Whoever does anything with a cache whose owner may destroy it meanwhile pins it: who
 * moves, shrinks, settles or looks at its objects.  Who destroys it, or changes how its
 * objects are moved, shuts it: nobody else pins it, and those that have are waited for.
 *
 * Locks: cache_lock protects the counts.
 */
#include "slab/slab_internal.h"

#include <errno.h>

bool cache_pin(struct slub_cache *cache)
{
	bool is_open;

	lock_acquire(&cache_lock);
	is_open = cache_is_live(cache) && !cache->closers;
	if (is_open)
		cache->movers++;
	lock_release(&cache_lock);
	return is_open;
}

void cache_unpin(struct slub_cache *cache)
{
	lock_acquire(&cache_lock);
	/* release: pairs with the acquire in cache_shut() */
	__atomic_store_n(&cache->movers, cache->movers - 1, __ATOMIC_RELEASE);
	lock_release(&cache_lock);
}

static void closers_add(struct slub_cache *cache, int n)
{
	lock_acquire(&cache_lock);
	__atomic_store_n(&cache->closers, cache->closers + (uint32_t)n,
			 __ATOMIC_RELAXED);
	lock_release(&cache_lock);
}

int cache_shut(struct slub_cache *cache)
{
	struct {
		long seconds;
		long nanoseconds;
	} pause = { 0, 1000000 };

	if (!cache_is_live(cache))
		return -EINVAL;
	closers_add(cache, 1);
	/* acquire: what they did with the slabs is seen */
	while (__atomic_load_n(&cache->movers, __ATOMIC_ACQUIRE)) {
		if (slub_thread.flags & THREAD_IN_DEFRAG) {
			closers_add(cache, -1);
			return -EBUSY;
		}
		sys_call4(SYS_nanosleep, (long)&pause, 0, 0, 0);
	}
	return 0;
}

void cache_open(struct slub_cache *cache)
{
	closers_add(cache, -1);
}

#define WAIT_UNUSED_TRIES 500

int wait_unused(int (*is_used)(void *arg), void *arg)
{
	for (unsigned int i = 0; i < WAIT_UNUSED_TRIES; i++) {
		int used = is_used(arg);

		if (used <= 0)
			return used;
		sys_wait(i);
	}
	return -EBUSY;
}
