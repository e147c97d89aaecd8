/* SPDX-License-Identifier: MIT */
/*
 * The quarantine of the hardened build: what is freed on a CPU is not what it hands out
 * next.  malloc() pops from one list and free() pushes to another, as with sampling
 * (slab/shadow/sample.h), whose slot this is while nothing is sampled:
 *
 *      malloc <--pop-- | sample slot   |          | the cache's own slot | <--push-- free
 *                      | main          |          | main    | spare      |
 *                      +---------------+          +---------+------------+
 *                              ^                       | if there are enough of them
 *                              |                       | (option quarantine), cut at
 *                              +---- the older ones ---+ a random place
 *
 * So a freed object waits until its list is long enough, and the objects that were freed
 * last stay behind.
 *
 * The number that stays is random: of n objects from STAYING to n / 2, each number as likely
 * as the others.  With 2 KiB of 64 bytes, n is 32 and there are 13 numbers, 3.7 bits, for
 * each list that is handed over.  The order in a list is not random.  Nothing is random about
 * a list that was full, and went to the spare one, a barn or a slab.  With lists shuffled 32
 * at a time json took 2.3 times as long: a shuffle reads and writes the links of all objects,
 * and most are out of the caches by then.
 *
 * Lists that are full, or too short, come and go by the barns and slabs as in any build.  So
 * the bound of the lists is that of the quarantine, which is emptied with them, and goes
 * through a fork with them.
 */
#include "slab/core/switches.h"
#include "slab/slab_internal.h"

/*
 * At least so many objects wait, whatever their size: half of them are handed over at once, by
 * a way that takes some 900 instructions.  But none is the last for more than WAITING_BYTES_MAX.
 */
#define WAITING_MIN 16
#define WAITING_BYTES_MAX ((size_t)16 << 10)
#define WAITING_LEAST 4
/* At least so many of the last stay behind, or half of a shorter list. */
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

/* So many must have been freed before the oldest of them are handed out. */
static uint32_t enough(const struct slub_cache *cache)
{
	size_t n = option_value(OPTION_quarantine) / cache->size;
	size_t least = min_size(WAITING_BYTES_MAX / cache->size, WAITING_MIN);
	/* A full list becomes the spare one, and holds the oldest objects then. */
	size_t most = (size_t)capacity_now(cache) * 3 / 4;

	n = max_size(n, max_size(least, WAITING_LEAST));
	return (uint32_t)max_size(min_size(n, most), 1);
}

/* chain_next(); of an object with its link inside, mostly without the page map. */
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

/* The last of the first @nr objects of @chain, or of all if there are fewer. */
static void *chain_walk(struct slub_cache *cache, void *chain, uint32_t nr)
{
	void *next;

	while (--nr && (next = next_of(cache, chain)))
		chain = next;
	return chain;
}

/* Puts @chain, about @nr objects that were taken off the list, back on it. */
static void put_back(struct slub_cache *cache, void *chain, uint32_t nr)
{
	int32_t room = capacity_now(cache) - (int32_t)nr;

	if (!percpu_put(cache->list_slot, chain, room > 0 ? room : 0))
		chain_give(cache, chain, nr);
}

/* So many of @n that wait stay behind. */
static uint32_t nr_staying(uint32_t n)
{
	uint32_t least = (uint32_t)min_size(STAYING, n / 2);

	return (uint32_t)max_size(least + hardened_random(n / 2 + 1 - least), 1);
}

/* The length of this CPU's list, about. */
static uint32_t nr_waiting(const struct slub_cache *cache)
{
	int32_t room, n;

	if (!percpu_glance(cache->list_slot, &room))
		return 0;
	n = capacity_now(cache) - room;
	return n > 0 ? (uint32_t)n : 0;
}

/* A chain that has waited on this CPU for long enough; NULL: there is none. */
static void *take_waiting(struct slub_cache *cache)
{
	void *chain = percpu_take(cache->list_slot + SLOT_SPARE, 0), *end, *rest;
	uint32_t n = nr_waiting(cache), stay;

	if (chain || (n && n < enough(cache)))
		return chain;
	/* This gives an empty list its room, too. */
	chain = percpu_take(cache->list_slot, capacity_now(cache));
	if (!chain)
		return NULL;
	/* The head was freed last. */
	stay = nr_staying(n);
	end = chain_walk(cache, chain, stay);
	rest = next_of(cache, end);
	if (rest)
		chain_set_next(cache, end, NULL);
	put_back(cache, chain, stay);
	return rest;
}

void *hardened_alloc_slow(struct slub_cache *cache)
{
	uint32_t slot = hardened_alloc_slot(cache), length = chain_length(cache);
	void *chain = take_waiting(cache), *rest;

	if (!chain)
		chain = chain_fetch(cache, node_current(cache), &length);
	if (!chain)
		return NULL;
	rest = next_of(cache, chain);
	/* Another thread may have been quicker, or sampling was switched on. */
	if (rest && (slot == cache->list_slot ||
		     !percpu_put(slot, rest, ROOM_NONE)))
		chain_give(cache, rest, length);
	cache_filled(cache);
	slab_tell(cache);
	return chain_unchained(cache, chain);
}
