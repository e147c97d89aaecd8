/* SPDX-License-Identifier: MIT */
/* What the files of slab share with each other only. */
#ifndef SLUB_SLAB_INTERNAL_H
#define SLUB_SLAB_INTERNAL_H

#include "slab/slab.h"

#define STATE_FROZEN (1ul << 63)
#define STATE_LISTED (1ul << 62)
#define STATE_OBJECTS_SHIFT 30
#define STATE_COUNT_MASK ((1ul << 30) - 1)

static inline uint32_t state_inuse(struct double_word state)
{
	return (uint32_t)(state.second & STATE_COUNT_MASK);
}

static inline uint32_t state_objects(struct double_word state)
{
	return (uint32_t)(state.second >> STATE_OBJECTS_SHIFT &
			  STATE_COUNT_MASK);
}

static inline uintptr_t state_make(uint32_t objects, uintptr_t bits)
{
	return (uintptr_t)objects << STATE_OBJECTS_SHIFT | bits;
}

static inline void **link_of(const struct slub_cache *cache, void *object)
{
	return object_link(cache->bias, object);
}

/*
 * Chains of chains: the first object of a chain has a second word, behind its
 * link; with the link in the descriptor, it has one there too.
 */
static inline void **chain_next(const struct slub_cache *cache, void *chain)
{
	if (cache->bias)
		return page_chain(page_of(chain));
	return (void **)chain + 1;
}

/* The first page of the slab that @object lies in. */
static inline struct page *slab_of(const struct slub_cache *cache,
				   const void *object)
{
	return page_of((void *)round_down((uintptr_t)object,
					  PAGE_BYTES << cache->order));
}

/*
 * A chain gets as long as cache->capacity, but a cache that only frees shortens
 * its chains bit by bit: what is left in them when the frees end keeps a slab
 * per object from being given back, in the worst case.  A refill shows that
 * objects are wanted again, and doubles the length.
 */
#define CAPACITY_MIN 16

static inline void capacity_grow(struct slub_cache *cache)
{
	int32_t n = cache->capacity_now;

	if (n < cache->capacity)
		cache->capacity_now = 2 * n < cache->capacity ?
				      2 * n : cache->capacity;
}

static inline void capacity_decay(struct slub_cache *cache)
{
	int32_t n = cache->capacity_now;

	if (n > CAPACITY_MIN)
		cache->capacity_now = n - n / 16;
}

/* update.c: the double word of a slab */
struct double_word slab_read(struct page *slab);
/* As double_word_exchange(); under the lock bit in layout lock56. */
bool slab_update(struct page *slab, struct double_word *old,
		 struct double_word new);
/* In a forked child: frees lock bits whose holders did not come along. */
void slab_update_after_fork(void);

/* node.c: slabs of a node */
/*
 * Objects for a CPU that has none: a chain of *@nr objects, NULL when the page
 * layer has no memory.
 */
void *node_refill(struct slub_cache *cache, struct cache_node *node,
		  uint32_t *nr);
/* Gives @nr objects of one slab, @head to @tail, back to it. */
void slab_free_objects(struct slub_cache *cache, struct page *slab,
		       void *head, void *tail, uint32_t nr);
/* Frees slabs that are empty, whatever min_partial says. */
void node_shrink(struct slub_cache *cache, struct cache_node *node);
struct cache_node *node_current(struct slub_cache *cache);
/*
 * In a child whose parent forked without the node's lock: makes the lists anew
 * from the slabs there are.  What was in the barn is lost to the child.
 */
void node_rebuild(struct cache_node *node);

/* flush.c */
/* Gives a chain back to its slabs; returns how many objects it had. */
uint32_t chain_flush(struct slub_cache *cache, void *chain);

/* barn.c */
void *barn_get(struct cache_node *node, const struct slub_cache *cache);
bool barn_put(struct cache_node *node, const struct slub_cache *cache,
	      void *chain);
/* Takes all chains, linked through chain_next(). */
void *barn_take_all(struct cache_node *node, const struct slub_cache *cache);

#endif
