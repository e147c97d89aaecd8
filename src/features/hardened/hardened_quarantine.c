/* SPDX-License-Identifier: MIT */
/*
 * The quarantine of the hardened build: what is freed on a CPU is not what it hands out
 * next.  malloc() pops from one list and free() pushes to another, as with sampling
 * (features/profile/sample.h), whose slot this is while nothing is sampled:
 *
 *      malloc <--pop-- | sample slot   |   2   |   the cache's own slot    |
 *                      | main          | <---- | spare <---- main          | <--push-- free
 *                      +---------------+       +--------- 1 ---------------+
 *
 * An empty list of malloc()'s is filled from the spare one (2), and if enough objects were
 * freed meanwhile (option quarantine), these become the spare list (1).  So a freed object
 * waits for as many frees as its list is long, and for as many mallocs.
 *
 * How many are enough is random: n / 2 to n, each number as likely as the others.  With 2 KiB
 * of 64 bytes, n is 32 and there are 17 numbers, 4.1 bits, for each list that is handed over.
 * The order in a list is not random.  Nothing is random about a list that was full, and went
 * to the spare one, a barn or a slab.  With lists shuffled 32 at a time json took 2.3 times as
 * long: a shuffle reads and writes the links of all objects, and most are out of the caches
 * by then.  For the same reason lists are not cut: whole ones change their places.
 *
 * Lists that are full, or too short, come and go by the barns and slabs as in any build.  So
 * the bound of the lists is that of the quarantine, which is emptied with them, and goes
 * through a fork with them.
 */
#include "core/slab/switches.h"
#include "core/slab/slab_internal.h"

/*
 * So many objects are enough, whatever their size: to hand them over takes some 500
 * instructions.  But none is the last for more than WAITING_BYTES_MAX.
 */
#define WAITING_MIN 16
#define WAITING_BYTES_MAX ((size_t)16 << 10)
#define WAITING_LEAST 4

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

/* So many must have been freed before they leave the list that free() pushes to. */
static uint32_t enough(const struct slub_cache *cache)
{
	size_t n = option_value(OPTION_quarantine) / cache->size;
	size_t least = min_size(WAITING_BYTES_MAX / cache->size, WAITING_MIN);
	/* A full list becomes the spare one without that. */
	size_t most = (size_t)capacity_now(cache) * 3 / 4;

	n = max_size(n, max_size(least, WAITING_LEAST));
	n = max_size(min_size(n, most), 1);
	return (uint32_t)(n / 2) + hardened_random((uint32_t)(n - n / 2) + 1);
}

/* The length of this CPU's list, about. */
static uint32_t nr_waiting(const struct slub_cache *cache)
{
	const struct slot *lists = percpu_lists(cache->list_slot);

	if (!__atomic_load_n(&lists->main.head, __ATOMIC_RELAXED))
		return 0;
	return slot_main_nr(lists, capacity_now(cache));
}

/* The objects that were freed last become the spare list, if there are enough of them. */
static void wait_on(struct slub_cache *cache)
{
	uint32_t n = nr_waiting(cache);
	void *chain;

	if (!n || n < enough(cache))
		return;
	chain = percpu_take(cache->list_slot, capacity_now(cache));
	/* Another thread may have been quicker. */
	if (chain && !percpu_put(cache->list_slot + SLOT_SPARE, chain, n))
		chain_give(cache, chain, n);
}

void *hardened_alloc_slow(struct slub_cache *cache, uint32_t slot)
{
	uint32_t length = slot_spare_nr(percpu_lists(cache->list_slot), chain_length(cache));
	void *chain = percpu_take(cache->list_slot + SLOT_SPARE, 0), *rest;

	wait_on(cache);
	if (!chain) {
		capacity_grow(cache);
		chain = chain_fetch_far(cache, node_current(cache), &length);
	}
	/* Where there is no memory those that wait come early. */
	if (!chain)
		chain = percpu_take(cache->list_slot + SLOT_SPARE, 0);
	if (!chain)
		return NULL;
	rest = chain_next(cache, chain);
	/* Sampling was switched on, or another thread has been quicker. */
	if (rest && (hardened_alloc_slot(cache) != slot ||
		     !percpu_put(slot, rest, ROOM_NONE)))
		chain_give(cache, rest, length);
	cache_filled(cache);
	slab_tell(cache);
	return chain_unchained(cache, chain);
}

/* ---- exit: freed objects that nobody has got again ---- */

/* Looks at @chain of @cache; returns how many objects there are, or @most. */
static uint32_t chain_look(const struct slub_cache *cache, void *chain,
			   uint32_t most)
{
	const struct slot_check *g = slot_check(cache->list_slot);
	uint32_t nr = 0;

	for (; chain && nr < most; nr++) {
		if (!hardened_is_sound(g, chain))
			hardened_look(g, chain);
		chain = chain_next(cache, chain);
	}
	return nr;
}

/* The list at @half, of this CPU, is off its slot for so long; @room is its usual one. */
static void list_look(struct slub_cache *cache, uint32_t half, int32_t room)
{
	void *chain = percpu_take(half, room);
	uint32_t nr;

	if (!chain || !hardened_is_head(cache, chain))
		return;
	nr = chain_look(cache, chain, (uint32_t)cache->capacity);
	if (!percpu_put(half, chain, room > 0 ? list_room(room, nr) :
				     room ? room : (int64_t)nr))
		chain_give(cache, chain, nr);
}

void hardened_lists_look(void)
{
	for (struct slub_cache *c = cache_first(); c; c = cache_next(c)) {
		uint32_t slot = hardened_alloc_slot(c);

		if (c->debug || c->root || !slot_check(c->list_slot)->tail)
			continue;
		list_look(c, c->list_slot, capacity_now(c));
		list_look(c, c->list_slot + SLOT_SPARE, 0);
		if (slot != c->list_slot)
			list_look(c, slot, ROOM_NONE);
	}
}
