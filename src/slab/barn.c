/* SPDX-License-Identifier: MIT */
/*
 * The barn: a node's full chains, so that what one thread allocates and
 * another frees crosses over once per chain.
 *
 * A barn takes chains on credit: each chain that is fetched allows four more
 * to be put, so it grows to what is really passed around, up to 2 MiB, and a
 * program that only frees fills none.  All barns together are bounded by what
 * the page layer lets lie idle.  Locks: node->lock.
 */
#include "slab/slab_internal.h"

#define CREDIT_PER_GET 4

/* Bytes in all barns, at a full chain each. */
static _Atomic size_t barn_bytes;

static size_t chain_bytes(const struct slub_cache *cache)
{
	return (size_t)cache->capacity * cache->size;
}

void *barn_get(struct cache_node *node, const struct slub_cache *cache)
{
	void *chain;

	/* A look without the lock: mostly it is empty, or it is not. */
	if (!__atomic_load_n(&node->barn.nr, __ATOMIC_RELAXED))
		return NULL;
	lock_acquire(&node->lock);
	chain = node->barn.chains;
	if (chain) {
		node->barn.chains = *chain_next(cache, chain);
		node->barn.nr--;
		node->barn.credit = (uint32_t)min_size(
			node->barn.credit + CREDIT_PER_GET, node->barn.nr_max);
	}
	if (chain)	/* under the lock, for the sake of fork */
		__atomic_fetch_sub(&barn_bytes, chain_bytes(cache),
				   __ATOMIC_RELAXED);
	lock_release(&node->lock);
	return chain;
}

bool barn_put(struct cache_node *node, const struct slub_cache *cache,
	      void *chain)
{
	bool done = false;

	if (!__atomic_load_n(&node->barn.credit, __ATOMIC_RELAXED) ||
	    __atomic_load_n(&barn_bytes, __ATOMIC_RELAXED) >
		    page_idle_limit())
		return false;
	lock_acquire(&node->lock);
	if (node->barn.credit && node->barn.nr < node->barn.nr_max) {
		*chain_next(cache, chain) = node->barn.chains;
		node->barn.chains = chain;
		node->barn.nr++;
		node->barn.credit--;
		done = true;
	}
	if (done)
		__atomic_fetch_add(&barn_bytes, chain_bytes(cache),
				   __ATOMIC_RELAXED);
	lock_release(&node->lock);
	return done;
}

void *barn_take_all(struct cache_node *node, const struct slub_cache *cache)
{
	void *chains;
	uint32_t nr;

	lock_acquire(&node->lock);
	chains = node->barn.chains;
	nr = node->barn.nr;
	node->barn.chains = NULL;
	node->barn.nr = 0;
	__atomic_fetch_sub(&barn_bytes, nr * chain_bytes(cache),
			   __ATOMIC_RELAXED);
	lock_release(&node->lock);
	return chains;
}
