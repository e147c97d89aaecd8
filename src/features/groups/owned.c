/* SPDX-License-Identifier: MIT */
/* Accounted objects, where the fast paths of owned.h do not do. */
#include "features/misuse/misuse.h"
#include "features/groups/owned.h"

/* ---- what the fast paths leave ---- */

/* Back to where it came from, charged to nobody. */
static void put_back(struct slub_cache *cache, void *object)
{
	*object_owner(cache, object) = 0;
	cache_free(cache, object);
}

__attribute__((__noinline__)) void *
account_claim(struct slub_cache *cache, void *object, uint32_t owner)
{
	uint32_t *where = object_owner(cache, object);
	uint32_t old = owner_charged(*where);

	if (old == owner) {
		*where = owner;
		return object;
	}
	/* Where no lock may be taken it stays whose it was. */
	if (unlikely(old && slub_thread.locks_held)) {
		*where = old;
		return object;
	}
	*where = OWNER_FREE;
	if (old)
		group_uncharge(old, cache->object_size);
	if (owner && !group_charge_fast(cache->object_size) &&
	    group_charge(owner, cache->object_size)) {
		put_back(cache, object);
		return NULL;
	}
	*where = owner;
	return object;
}

bool account_alloc_rest(struct slub_cache *cache, uint32_t owner, void **object)
{
	uint32_t *where;

	*object = percpu_pop(cache->list_slot, list_link(cache));
	if (!*object)
		return false;
	if (cache_has_keys(cache))
		key_drop(cache, *object);
	where = object_owner(cache, *object);
	if (likely(owner_charged(*where) == owner))
		*where = owner;
	else
		*object = account_claim(cache, *object, owner);
	return true;
}

bool account_free_rest(struct slub_cache *cache, void *object)
{
	uint32_t *where = object_owner(cache, object);
	uint32_t owner = *where;

	if (owner & OWNER_FREE)
		return false;
	*where = owner | OWNER_FREE;
	if (percpu_push(cache->list_slot, object, list_link(cache)) ||
	    cache_free_kept(cache, object))
		return true;
	*where = owner;
	return false;
}

/* ---- alloc ---- */

bool account_begin(const struct slub_cache *cache, size_t nr, uint32_t *owner)
{
	const struct slub_cache *original = cache->root ? cache->root : cache;

	return !group_charge_place(&original->place, nr * cache->object_size,
				   owner);
}

void account_cancel(const struct slub_cache *cache, size_t nr, uint32_t owner)
{
	if (owner && nr)
		group_uncharge(owner, nr * cache->object_size);
}

/* It may come from a list and be charged to somebody still, @owner included. */
void account_take(const struct slub_cache *cache, void *object, uint32_t owner)
{
	uint32_t *where = object_owner(cache, object);
	/* Watched ones are in no list, and were not carved here. */
	uint32_t old = cache->debug ? 0 : owner_charged(*where);

	if (unlikely(old && old != owner && slub_thread.locks_held)) {
		*where = old;	/* as in account_claim() */
		account_cancel(cache, 1, owner);
		return;
	}
	*where = owner;
	if (old)
		group_uncharge(old, cache->object_size);
}

void account_end(const struct slub_cache *cache, void *object, uint32_t owner)
{
	const struct slub_cache *own;

	if (unlikely(!object)) {
		account_cancel(cache, 1, owner);
		return;
	}
	own = cache_of(object);
	if (likely(own))
		account_take(own, object, owner);
	else	/* between guard pages: of no slab */
		account_cancel(cache, 1, owner);
}

/* ---- free ---- */

static cold void report_twice(struct slub_cache *cache, const void *object)
{
	stat_add(cache, STAT_DOUBLE_FREE);
	misuse_found(MISUSE_DOUBLE_FREE, "free", object, cache->name);
}

bool account_free(struct slub_cache *cache, void *object)
{
	uint32_t *where = object_owner(cache, object);
	uint32_t owner = *where;

	if (unlikely(owner & OWNER_FREE)) {
		report_twice(cache, object);
		return false;
	}
	*where = OWNER_FREE;
	if (owner)
		group_uncharge(owner, cache->object_size);
	return true;
}

/* Neighbours in a chain mostly have one owner: one charge for all of these. */
size_t account_free_many(struct slub_cache *cache, size_t nr, void **objects)
{
	uint32_t last = 0;
	size_t i, run = 0;

	for (i = 0; i < nr; i++) {
		uint32_t *where = object_owner(cache, objects[i]);
		uint32_t owner = *where;

		if (unlikely(owner & OWNER_FREE))
			break;
		*where = OWNER_FREE;
		if (owner != last) {
			account_cancel(cache, run, last);
			last = owner;
			run = 0;
		}
		run++;
	}
	account_cancel(cache, run, last);
	if (i < nr)
		report_twice(cache, objects[i]);
	return i;
}

/* ---- lists ---- */

void account_carved(const struct slub_cache *cache, void *first, uint32_t nr)
{
	for (uint32_t i = 0; i < nr; i++)
		*object_owner(cache, (char *)first + (size_t)i * cache->size) =
			OWNER_FREE;
}

/* One charge for all neighbours whose words are the same. */
void account_settle(const struct slub_cache *cache, void *chain)
{
	uint32_t last = 0;
	size_t run = 0;

	for (uint32_t nr = 0; chain && nr < CHAIN_MOST; nr++, chain = chain_next(cache, chain)) {
		uint32_t *where = object_owner(cache, chain);
		uint32_t word = *where;

		*where = OWNER_FREE;
		if (unlikely(word != last)) {
			account_cancel(cache, run, owner_charged(last));
			last = word;
			run = 0;
		}
		run++;
	}
	account_cancel(cache, run, owner_charged(last));
}

/* This CPU's list of about @nr objects, which it has again afterwards; a main one has @limit. */
static void settle_half(struct slub_cache *cache, uint32_t half, int32_t limit, uint32_t nr)
{
	void *chain = chain_head(cache, percpu_take(half, limit));

	if (!chain)
		return;
	account_settle(cache, chain);
	if (!percpu_put(half, chain, limit ? list_room(limit, nr) : nr))
		chain_flush(cache, chain);
}

static void settle_here(struct slub_cache *cache)
{
	const struct slot *lists = percpu_lists(cache->list_slot);
	int32_t limit = capacity_now(cache);

	settle_half(cache, cache->list_slot, limit, slot_main_nr(lists, limit));
	settle_half(cache, cache->list_slot + SLOT_SPARE, 0,
		    slot_spare_nr(lists, chain_length(cache)));
	cache_filled(cache);
}

static bool keeps_charges(const struct slub_cache *cache)
{
	return cache_is_live(cache) &&
	       __atomic_load_n(&cache->account_path, __ATOMIC_RELAXED) !=
		       ACCOUNT_SLOW;
}

static void settle_lists(bool of_all)
{
	for (struct slub_cache *c = cache_first(); c; c = cache_next(c)) {
		struct cache_hold pin;

		if (!keeps_charges(c) || !cache_pin_any(c, &pin))
			continue;
		if (of_all)
			cache_empty_lists(c);
		else
			settle_here(c);
		cache_unpin(&pin);
	}
}

/*
 * ACCOUNT-3: between the two calls of a shrink a thread has objects in hand that are charged
 * still, and others find the lists empty.  A call that settles all waits for these, but in a
 * handler or a callback that interrupted such a thread, which may be its own.
 */
void account_settle_lists(bool of_all)
{
	uint32_t inside = slub_thread.flags & (THREAD_IN_RECLAIM | THREAD_IN_DEFRAG);

	if (slub_thread.locks_held)
		return;
	if (of_all && !inside)
		shrink_lets_flushers_in();
	slub_thread.flags |= THREAD_IN_RECLAIM;
	shrink_begin();
	settle_lists(of_all);
	shrink_end();
	if (!(inside & THREAD_IN_RECLAIM))
		slub_thread.flags &= ~(uint32_t)THREAD_IN_RECLAIM;
	if (of_all && !inside)
		shrinks_wait();
}

bool account_lists_are_empty(void)
{
	for (struct slub_cache *c = cache_first(); c; c = cache_next(c)) {
		for (uint32_t cid = 0; cid < percpu_areas_end(); cid++) {
			if (keeps_charges(c) && !cache_list_is_empty(c, cid))
				return false;
		}
	}
	/* acquire: the lists before those who emptied them */
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return shrinks_are_over();
}
