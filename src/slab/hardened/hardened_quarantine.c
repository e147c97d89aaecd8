/* SPDX-License-Identifier: MIT */
/*
 * The quarantine of the hardened build: what is freed on a CPU is not what it hands out
 * next.  malloc() pops from one list and free() pushes to another, as with sampling
 * (slab/shadow/sample.h), whose slot this is while nothing is sampled:
 *
 *      malloc <--pop-- | sample slot   |          | the cache's own slot | <--push-- free
 *                      | main: 32 at   |          | main    | spare      |
 *                      | the most      |          +---------+------------+
 *                      +---------------+               | oldest first, when there are
 *                              ^                       | enough of them (option quarantine)
 *                              +------- in random order+
 *
 * So a freed object waits until its list is long enough, and then for its turn, which is
 * random; those that were freed last stay behind.  What is full, or not enough, comes and
 * goes by the barns and slabs as ever: the quarantine is bounded by what lists may hold, is
 * emptied with them, and goes through a fork with them.
 */
#include "slab/slab_internal.h"
#include "slab/shadow/sample.h"

/* Objects that change places among each other. */
#define DEALT_MAX 32
/* So many wait at the least, whatever their size; and so many of the last stay behind. */
#define WAITING_MIN 4
#define STAYING 4
/* A free pushes to no sample slot. */
#define ROOM_NONE (-(1 << 30))

bool hardened_has_quarantine(void)
{
	return option_value(OPTION_quarantine);
}

int hardened_caches_prepare(struct slub_cache *caches, uint32_t nr)
{
	return hardened_has_quarantine() ? sample_caches_prepare(caches, nr) : 0;
}

uint32_t hardened_alloc_slot(const struct slub_cache *cache)
{
	uint32_t slot = cache_sample_slot(cache);

	return slot && hardened_has_quarantine() && !sample_is_on_at_all() ?
		       slot : cache->list_slot;
}

/* How many must have been freed for the next to be handed out. */
static uint32_t enough(const struct slub_cache *cache)
{
	size_t n = option_value(OPTION_quarantine) / cache->size;
	/* A list that is full goes to the spare one, and is the oldest then. */
	size_t most = (size_t)capacity_now(cache) * 3 / 4;

	return (uint32_t)max_size(min_size(max_size(n, WAITING_MIN), most), 1);
}

/* chain_next() of one whose link is in the object, mostly without a look at the page map. */
static always_inline void *next_of(struct slub_cache *cache, void *object)
{
	const struct slot_check *g = slot_check(cache->list_slot);
	void **place;
	uintptr_t next;

	if (unlikely(!link_is_in_object(cache->link)))
		return chain_next(cache, object);
	place = (void **)((char *)object + cache->link);
	next = link_decode(cache->list_slot, place, *place);
	if (likely(link_is_plausible(next) && is_at_object(g, (void *)next)))
		return (void *)next;
	return chain_next(cache, object);
}

/* Up to @nr objects of *@chain to @objects; *@chain is what follows. */
static uint32_t unlink_some(struct slub_cache *cache, void **chain,
			    void **objects, uint32_t nr)
{
	const struct slot_check *g = slot_check(cache->list_slot);
	uint32_t n = 0;

	for (; *chain && n < nr; n++) {
		objects[n] = *chain;
		/* What malloc() will want of it. */
		__builtin_prefetch(tail_of(g, *chain), 1);
		*chain = next_of(cache, *chain);
	}
	return n;
}

static void *link_all(struct slub_cache *cache, void **objects, uint32_t nr)
{
	void *chain = NULL;

	while (nr) {
		chain_set_next(cache, objects[--nr], chain);
		chain = objects[nr];
	}
	return chain;
}

static void *chain_end(struct slub_cache *cache, void *chain, uint32_t most,
		       uint32_t *nr)
{
	void *next;

	for (*nr = 1; *nr < most && (next = next_of(cache, chain)); ++*nr)
		chain = next;
	return chain;
}

/* @chain of about @nr objects was taken off the list, and stays there. */
static void put_back(struct slub_cache *cache, void *chain, uint32_t nr)
{
	int32_t room = capacity_now(cache) - (int32_t)nr;

	if (!percpu_put(cache->list_slot, chain, room > 0 ? room : 0))
		chain_give(cache, chain, nr);
}

/* What has waited on this CPU, if it is enough; else NULL. */
static void *take_waiting(struct slub_cache *cache)
{
	void *chain = percpu_take(cache->list_slot + SLOT_SPARE, 0);
	uint32_t wanted, n;
	void *end, *rest;

	if (chain)
		return chain;
	chain = percpu_take(cache->list_slot, capacity_now(cache));
	if (!chain)
		return NULL;
	wanted = enough(cache);
	chain_end(cache, chain, wanted, &n);
	if (n < wanted) {
		put_back(cache, chain, n);
		return NULL;
	}
	/* The head is what was freed last. */
	end = chain_end(cache, chain, (uint32_t)min_size(STAYING, wanted / 2 + 1),
			&n);
	rest = chain_next(cache, end);
	if (!rest)
		return chain;
	chain_set_next(cache, end, NULL);
	put_back(cache, chain, n);
	return rest;
}

/* This CPU gets @objects; returns one for the caller. */
static void *deal(struct slub_cache *cache, void **objects, uint32_t nr)
{
	uint32_t slot = hardened_alloc_slot(cache);
	void *rest;

	hardened_shuffle(objects, nr);
	rest = link_all(cache, objects + 1, nr - 1);
	/* Others may have been quicker, or sampling was switched on. */
	if (rest && (slot == cache->list_slot ||
		     !percpu_put(slot, rest, ROOM_NONE)))
		chain_give(cache, rest, nr - 1);
	cache_filled(cache);
	return chain_unchained(cache, objects[0]);
}

void *hardened_alloc_slow(struct slub_cache *cache)
{
	void *objects[DEALT_MAX], *chain = take_waiting(cache);
	uint32_t length = chain_length(cache), n;

	if (!chain)
		chain = chain_fetch(cache, node_current(cache), &length);
	n = unlink_some(cache, &chain, objects, DEALT_MAX);
	if (chain && !percpu_put(cache->list_slot + SLOT_SPARE, chain, 0))
		chain_give(cache, chain, length);
	slab_tell(cache);
	return n ? deal(cache, objects, n) : NULL;
}
