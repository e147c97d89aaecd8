/* SPDX-License-Identifier: MIT */
/*
 * The barn: a node's full chains, so that what one thread allocates and
 * another frees crosses over once per chain.
 *
 * A barn takes chains on credit: each chain that is fetched, or that would have
 * been there to fetch had it not been refused, allows four more to be put.  So
 * it grows to what is really passed around, and a program that only frees fills
 * none.  What all barns hold together is bounded: barn_bound.c.
 * Locks: node->lock.
 */
#include "slab/account.h"

#define CREDIT_PER_GET 4

/* What a list of @cache holds at the most by now, and so a chain. */
static size_t list_bytes(const struct slub_cache *cache)
{
	return (size_t)capacity_now(cache) * cache->size;
}

/*
 * Another chain, or one less, and what it counts for.  Under the lock, the count over
 * all barns too, for the sake of fork; read without it.
 */
static void barn_change(struct barn *barn, uint32_t nr, ptrdiff_t bytes)
{
	__atomic_store_n(&barn->nr, nr, __ATOMIC_RELAXED);
	__atomic_store_n(&barn->bytes, barn->bytes + (size_t)bytes,
			 __ATOMIC_RELAXED);
	__atomic_fetch_add(&page_kept_bytes, bytes, __ATOMIC_RELAXED);
}

static void refused_add(struct barn *barn, int32_t n)
{
	__atomic_store_n(&barn->refused, barn->refused + (uint32_t)n,
			 __ATOMIC_RELAXED);
}

/* An estimate. */
static void barn_use(struct barn *barn)
{
	uint32_t turn = __atomic_load_n(&barn_turn, __ATOMIC_RELAXED);

	if (__atomic_load_n(&barn->used, __ATOMIC_RELAXED) != turn)
		__atomic_store_n(&barn->used, turn, __ATOMIC_RELAXED);
}

/* Under the lock. */
static void credit_add(struct barn *barn)
{
	barn->credit = (uint32_t)min_size(barn->credit + CREDIT_PER_GET,
					  barn->nr_max);
}

/* Nothing to fetch: it pays to keep more, if some was refused. */
static cold void *barn_miss(struct cache_node *node,
			    const struct slub_cache *cache)
{
	bool again;

	if (!__atomic_load_n(&node->barn.refused, __ATOMIC_RELAXED))
		return NULL;
	inject(INJECT_barn);
	lock_acquire(&node->lock);
	again = node->barn.refused;
	if (again) {
		refused_add(&node->barn, -1);
		credit_add(&node->barn);
	}
	lock_release(&node->lock);
	if (again)
		barns_again(list_bytes(cache));
	return NULL;
}

/* Nobody knows what this chain counted for: its share of all, and the last for the rest. */
static void *barn_pop(struct barn *barn)
{
	if (!barn->nr)
		return NULL;
	barn_change(barn, barn->nr - 1, -(ptrdiff_t)(barn->bytes / barn->nr));
	return barn->chains[barn->nr];
}

void *barn_get(struct cache_node *node, const struct slub_cache *cache)
{
	void *chain;

	/* A look without the lock: mostly it is empty, or it is not. */
	if (!__atomic_load_n(&node->barn.nr, __ATOMIC_RELAXED))
		return barn_miss(node, cache);
	inject(INJECT_barn);
	barn_use(&node->barn);
	lock_acquire(&node->lock);
	chain = barn_pop(&node->barn);
	if (chain)
		credit_add(&node->barn);
	lock_release(&node->lock);
	return chain;
}

bool barn_put(struct cache_node *node, const struct slub_cache *cache,
	      void *chain)
{
	struct barn *barn = &node->barn;
	bool has_room, done = false;

	if (unlikely(cache->account_path != ACCOUNT_SLOW))
		account_settle(cache, chain);
	/* Before others are looked at, or it would send its own away. */
	barn_use(barn);
	has_room = barns_have_room() || barns_make_room();
	lock_acquire(&node->lock);
	if (has_room && barn->credit && barn->nr < barn->nr_max) {
		barn->chains[barn->nr] = chain;
		barn_change(barn, barn->nr + 1, (ptrdiff_t)list_bytes(cache));
		barn->credit--;
		done = true;
	} else if (barn->refused < barn->nr_max) {
		refused_add(barn, 1);
	}
	lock_release(&node->lock);
	return done;
}

cold void cache_barns_open(struct slub_cache *cache, uint32_t nr)
{
	uint32_t length = list_given(cache->capacity);
	uint32_t chains = (nr + length - 1) / length;

	for (uint32_t n = 0; n < slab_nr_nodes(); n++) {
		struct cache_node *node = cache->nodes[n];
		struct barn *barn = &node->barn;

		lock_acquire(&node->lock);
		barn->credit = (uint32_t)max_size(
			barn->credit, min_size(chains, barn->nr_max));
		lock_release(&node->lock);
	}
}

cold void *barn_take(struct cache_node *node)
{
	void *chain;

	lock_acquire(&node->lock);
	chain = barn_pop(&node->barn);
	lock_release(&node->lock);
	return chain;
}
