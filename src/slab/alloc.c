/* SPDX-License-Identifier: MIT */
/*
 * The slow path of allocation: the CPU's main list is empty, or this thread
 * may not use it.
 */
#include "slab/slab_internal.h"

/* Leaves @chain of about @nr objects to this CPU, or to the barn. */
static void chain_store(struct slub_cache *cache, struct cache_node *node,
			void *chain, uint32_t nr)
{
	int32_t room = cache->capacity_now - (int32_t)nr;

	if (percpu_put(cache->list_slot, chain, room > 0 ? room : 0))
		return;
	/* Somebody was quicker, or there is no list for this thread. */
	if (percpu_put(cache->list_slot + SLOT_SPARE, chain, 0))
		return;
	if (!barn_put(node, cache, chain))
		chain_flush(cache, chain);
}

static void *alloc_slow(struct slub_cache *cache)
{
	struct cache_node *node = node_current(cache);
	uint32_t nr = (uint32_t)cache->capacity;
	void *chain, *rest;

	chain = percpu_take(cache->list_slot + SLOT_SPARE, 0);
	if (!chain)
		chain = barn_get(node, cache);
	if (!chain) {
		chain = node_refill(cache, node, &nr);
		capacity_grow(cache);
	}
	if (!chain)
		return NULL;
	rest = *link_of(cache, chain);
	if (rest)
		chain_store(cache, node, rest, nr - 1);
	return chain;
}

void *cache_alloc(struct slub_cache *cache)
{
	void *object = percpu_pop(cache->list_slot, cache->bias);

	if (object)
		return object;
	if (slub_thread.locks_held)
		return NULL;
	percpu_enter();
	return alloc_slow(cache);
}
