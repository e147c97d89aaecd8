/* SPDX-License-Identifier: MIT */
/*
 * The slow path of freeing: the CPU's main list is full, or this thread may
 * not use it.
 */
#include "slab/slab_internal.h"

/* The full main list: to the spare, else to the barn, else to the slabs. */
static void chain_retire(struct slub_cache *cache, void *chain)
{
	if (percpu_put(cache->list_slot + SLOT_SPARE, chain, 0))
		return;
	if (barn_put(node_current(cache), cache, chain))
		return;
	chain_flush(cache, chain);
	capacity_decay(cache);
	slab_reclaim_if_needed();
}

static void free_slow(struct slub_cache *cache, void *object)
{
	void *full = percpu_take(cache->list_slot, cache->capacity_now);

	if (!full || !percpu_push(cache->list_slot, object, cache->bias)) {
		*link_of(cache, object) = NULL;
		if (!percpu_put(cache->list_slot, object,
				cache->capacity_now - 1))
			slab_free_objects(cache, slab_of(cache, object),
					  object, object, 1);
	}
	if (full)
		chain_retire(cache, full);
}

bool cache_free(struct slub_cache *cache, void *object)
{
	if (percpu_push(cache->list_slot, object, cache->bias))
		return true;
	if (slub_thread.locks_held)
		return false;
	percpu_enter();
	free_slow(cache, object);
	return true;
}
