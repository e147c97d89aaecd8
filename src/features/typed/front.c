/* SPDX-License-Identifier: MIT */
/*
 * Caches that are variables of programs (SLUB_CACHE_DEFINE).
 *
 * The variable is a front: it names the library's own structure, and holds copies of the words
 * that the inline functions read.  So lists and walks never lead into a program's memory, which
 * may be unmapped with a plugin, and be zero again when the plugin is loaded anew.
 *
 *   FRONT-1  a variable and a structure belong together while each names the other.
 *   FRONT-2  the library writes to a variable unasked only where the program has inline
 *            functions, and such code must not be unloaded (slub/cache.h).
 *
 * A plugin that is unloaded and has not destroyed its cache leaves it behind.  By FRONT-1 that
 * is seen when somebody makes a cache of the same name.  Then the cache belongs to the new
 * variable if it has the same shape, else its name is free.
 *
 * Locks: a thread that makes or destroys a cache has the turn for that (create.c); the copies are
 * written under cache_lock.
 */
#include "core/slab/slab_internal.h"
#include "features/typed/typed.h"

#include <errno.h>

/* What stands for the structure of a variable that has none: it is never made. */
static struct slub_cache not_made;

struct slub_cache *front_cache(const struct cache_front *front)
{
	/* acquire: pairs with front_join() */
	struct slub_cache *cache = __atomic_load_n(&front->cache,
						   __ATOMIC_ACQUIRE);

	return cache && __atomic_load_n(&cache->front, __ATOMIC_RELAXED) ==
				front ? cache : &not_made;
}

void front_join(struct cache_front *front, struct slub_cache *cache)
{
	__atomic_store_n(&cache->front, front, __ATOMIC_RELAXED);
	cache->is_copied = front->is_inline;
	/* release: a thread that finds the structure finds its front, too */
	__atomic_store_n(&front->cache, cache, __ATOMIC_RELEASE);
}

void front_part(struct slub_cache *cache)
{
	struct cache_front *front = cache->front;

	if (!front)
		return;
	__atomic_store_n(&front->slot, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&front->cache, NULL, __ATOMIC_RELAXED);
	__atomic_store_n(&cache->front, NULL, __ATOMIC_RELAXED);
	cache->is_copied = false;
}

usual void front_copy(const struct slub_cache *cache)
{
	struct cache_front *front = cache->front;

	if (!cache->is_copied)
		return;
	__atomic_store_n(&front->slot, cache->slot, __ATOMIC_RELAXED);
	__atomic_store_n(&front->link, cache->link, __ATOMIC_RELAXED);
	__atomic_store_n(&front->slab_mask, cache->slab_mask, __ATOMIC_RELAXED);
	__atomic_store_n(&front->start.mask, cache->start.mask, __ATOMIC_RELAXED);
	__atomic_store_n(&front->start.magic, cache->start.magic, __ATOMIC_RELAXED);
	__atomic_store_n(&front->owner_reciprocal, cache->owner_reciprocal,
			 __ATOMIC_RELAXED);
	__atomic_store_n(&front->owners, cache->owners, __ATOMIC_RELAXED);
	__atomic_store_n(&front->entry, cache->entry, __ATOMIC_RELAXED);
	/* release: a thread that pops there finds the rest */
	__atomic_store_n(&front->inline_slot, cache->inline_slot,
			 __ATOMIC_RELEASE);
	__atomic_store_n(&front->plain_slot, cache->plain_slot, __ATOMIC_RELEASE);
	__atomic_store_n(&front->kept_slot, cache->kept_slot, __ATOMIC_RELEASE);
	__atomic_store_n(&front->free_slot, cache->free_slot, __ATOMIC_RELEASE);
	__atomic_store_n(&front->account_slot, cache->account_slot,
			 __ATOMIC_RELEASE);
}

/* The variable may be unmapped: the kernel reads it. */
bool front_is_gone(const struct slub_cache *cache)
{
	struct cache_front *front = __atomic_load_n(&cache->front,
						    __ATOMIC_RELAXED);
	const struct slub_cache *named = NULL;
	long got;

	if (!front)
		return false;
	got = os_peek(&named, &front->cache, sizeof(named));
	return got == -EFAULT || (got == sizeof(named) && named != cache);
}

void front_leave(struct slub_cache *cache)
{
	__atomic_store_n(&cache->front, NULL, __ATOMIC_RELAXED);
	cache->is_copied = false;
	cache->is_left = true;
}
