/* SPDX-License-Identifier: MIT */
/*
 * The slow path of allocation: the CPU's main list is empty, or this thread
 * may not use it.
 */
#include "core/slab/local.h"
#include "core/slab/switches.h"
#include "core/slab/slab_internal.h"

static void store(struct slub_cache *cache, void *chain, uint32_t nr)
{
	int32_t limit = cache->has_local && local_may_begin() ? local_limit(cache, (int32_t)nr) :
								capacity_now(cache);

	inject(INJECT_store);
	if (percpu_put(cache->list_slot, chain, list_room(limit, (int32_t)nr)))
		return;
	/* Somebody was quicker, or there is no list for this thread. */
	if (percpu_put(cache->list_slot + SLOT_SPARE, chain, nr))
		return;
	chain_give(cache, chain, nr);
}

/* Leaves @chain of about @nr objects to this CPU, or to its barn. */
void chain_store(struct slub_cache *cache, void *chain, uint32_t nr)
{
	store(cache, chain, nr);
	cache_filled(cache);
}

bool chain_append(struct slub_cache *cache, void *chain, uint32_t nr, void *more)
{
	void *next, *last = chain;

	for (; (next = chain_next(cache, last)); last = next) {
		if (SLUB_CONFIG_CHECKS && unlikely(!nr--)) {
			suspect_count(cache, chain);
			return false;
		}
	}
	chain_set_next(cache, last, more);
	return true;
}

/* What this CPU has of @node's slabs already, else more of them. */
static void *refill_of(struct slub_cache *cache, struct cache_node *node, uint32_t *nr)
{
	void *chain = local_take(cache, node, refill_wanted(cache), nr);

	return chain ? chain : node_refill(cache, node, nr);
}

/* A node is preferred, not insisted on: what others have, when there is no more to be had. */
static cold void *refill_elsewhere(struct slub_cache *cache,
				   const struct cache_node *node, uint32_t *nr)
{
	void *chain = NULL;

	for (uint32_t i = 1; i < slab_nr_nodes() && !chain; i++) {
		uint32_t n = (node->node + i) % slab_nr_nodes();

		chain = refill_of(cache, cache->nodes[n], nr);
	}
	return chain;
}

void *chain_refill(struct slub_cache *cache, struct cache_node *node,
		   uint32_t *nr)
{
	void *chain = refill_of(cache, node, nr);

	if (unlikely(!chain))
		chain = refill_elsewhere(cache, node, nr);
	stat_add(cache, STAT_ALLOC_REFILL);
	if (unlikely(!chain))
		stat_add(cache, STAT_ALLOC_REFILL_FAIL);
	return chain;
}

/* Past the lists of this CPU. */
void *chain_fetch_far(struct slub_cache *cache, struct cache_node *node,
		      uint32_t *nr)
{
	void *chain = barn_get(cache, nr);

	if (chain) {
		stat_add(cache, STAT_ALLOC_BARN);
		return chain;
	}
	return chain_refill(cache, node, nr);
}

/* A chain for a CPU that has none, from the nearest place that has one. */
void *chain_fetch(struct slub_cache *cache, struct cache_node *node,
		  uint32_t *nr)
{
	uint32_t spare_nr = slot_spare_nr(percpu_lists(cache->list_slot), *nr);
	void *chain = percpu_take(cache->list_slot + SLOT_SPARE, 0);

	capacity_grow(cache);
	if (chain) {
		*nr = spare_nr;
		stat_add(cache, STAT_ALLOC_SPARE);
		return chain;
	}
	return chain_fetch_far(cache, node, nr);
}

static void *alloc_slow(struct slub_cache *cache)
{
	struct cache_node *node = node_current(cache);
	uint32_t nr = chain_length(cache);
	void *chain, *rest;

	chain = chain_fetch(cache, node, &nr);
	if (!chain)
		return NULL;
	if (unlikely(!chain_is_plain(cache, chain)))
		return NULL;
	rest = chain_next(cache, chain);
	if (rest)
		chain_store(cache, rest, nr - 1);
	slab_tell(cache);
	return chain_unchained(cache, chain);
}

/* How much a new allocation counts in the average: one part in so many. */
#define SLACK_SPAN 32

/*
 * The requested sizes of the objects of a class are stored nowhere.  But a thread that
 * finds a list empty knows its own request, and comes nearly by chance: a sample.  If
 * two threads note one at once, one of the two may be lost.
 */
void slack_note(struct slub_cache *cache, size_t bytes)
{
	uint32_t now = (uint32_t)(cache->object_size - bytes) * 256 + 1;
	uint32_t old = __atomic_load_n(&cache->slack, __ATOMIC_RELAXED);
	int32_t step = ((int32_t)now - (int32_t)old) / SLACK_SPAN;

	if (unlikely(!old))
		step = (int32_t)now;
	/* In a steady state nobody writes to the cache. */
	if (step)
		__atomic_store_n(&cache->slack, old + (uint32_t)step,
				 __ATOMIC_RELAXED);
}

/*
 * Under rseq malloc() has tried the list itself: where that is empty, a glance is cheaper than
 * to try again.
 */
static inline bool hardened_is_empty(uint32_t slot)
{
	int32_t room;

	return percpu_backend == BACKEND_RSEQ && !percpu_glance(slot, &room);
}

void *cache_alloc_sized(struct slub_cache *cache, size_t bytes)
{
	struct slub_cache *twin = cache->debug ? cache : cache_twin(cache);
	/* The hardened build has another: NOLINTNEXTLINE(*DeadStores) */
	uint32_t slot = cache->list_slot;
	void *object;

	debug_mailbox_poll();
	if (unlikely(twin != NULL))
		return debug_alloc(twin, bytes);
	if (SLUB_CONFIG_HARDENED)
		slot = hardened_alloc_slot(cache);
	if (!SLUB_CONFIG_HARDENED || !hardened_is_empty(slot)) {
		object = percpu_pop(slot, list_link(cache));
		if (object)
			return chain_unchained(cache, object);
		if (SLUB_CONFIG_HARDENED)
			hardened_mend(cache, slot);
	}
	if (slub_thread.locks_held)
		return NULL;
	list_clear_way(cache, slot, capacity_now(cache));
	cache_free_postponed();
	grace_look(1);
	percpu_enter();
	slack_note(cache, bytes);
	if (SLUB_CONFIG_HARDENED && slot != cache->list_slot)
		return hardened_alloc_slow(cache, slot);
	return alloc_slow(cache);
}

void *cache_alloc(struct slub_cache *cache)
{
	return cache_alloc_sized(cache, cache->object_size);
}

size_t cache_object_bytes(const struct slub_cache *cache, const void *object)
{
	if (unlikely(cache->debug != NULL))
		return debug_object_bytes(cache, object);
	if (SLUB_CONFIG_HARDENED)
		return hardened_bytes(cache, object);
	return cache->object_size;
}
