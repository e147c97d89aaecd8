/* SPDX-License-Identifier: MIT */
/*
 * Accounted objects: those of a cache with SLUB_CACHE_ACCOUNT, and malloc's in a
 * group.  Each has an *owner*, a word that names the group it is charged to
 * (features/reclaim/reclaim.h):
 *
 *   a slab    | object 0 | object 1 | object 2 | ...    free    | 0 | 1 | 2 |
 *                                                                 owners
 *
 * at the end of the slab; of objects of a page or more in the descriptor of
 * their page, and of watched ones behind them (features/debug/debug.h).
 *
 *   owner           charged with object_size bytes for it; 0: no group is
 *   | OWNER_FREE    it has been freed by a function that looked at its owner
 *
 * A free object keeps its charge while it lies in a CPU's list, main or spare: a thread that
 * takes it for the same owner touches no counter.  Beyond the list, in barns and slabs, free
 * objects are charged to nobody: a chain is *settled* before it goes there.  What lies in
 * lists is settled before a request is refused, and before a report.
 *
 * Lists of malloc's objects, and of typed caches with the link in the first word, are pushed
 * to as any other.  For all others the page map and the inline functions have a slot without
 * room: so their frees leave the fast path, and mark the owner.  slub_cache_alloc() finds
 * nothing in the slot that it looks into first, and then pops here if the cache has an
 * account_slot.
 *
 * Invariants
 *   ACCOUNT-1  an owner is set before its object is first linked, and changed
 *              by the one holder of the object: the thread that allocated it, took it off
 *              a list, or is about to put it on one;
 *   ACCOUNT-2  objects in barns and on slabs are charged to nobody;
 *   ACCOUNT-3  a thread that empties lists for all does so between shrink_begin() and
 *              shrink_end(), so a report waits until what it has in hand is settled.
 */
#ifndef SLUB_SLAB_OWNED_H
#define SLUB_SLAB_OWNED_H

#include "features/debug/debug.h"
#include "features/reclaim/reclaim.h"
#include "core/slab/slab_internal.h"

#define OWNER_FREE (1u << 31)

static always_inline uint32_t owner_charged(uint32_t word)
{
	return word & ~OWNER_FREE;
}

/* Where the owner of @object is, if it is at the end of its slab. */
static always_inline uint32_t *slab_owner(const struct slub_cache *cache,
					  const void *object)
{
	uint64_t at = (uintptr_t)object & cache->slab_mask;
	uintptr_t owners = (uintptr_t)object - at + cache->owners;

	return (uint32_t *)owners + (at * cache->owner_reciprocal >> 32);
}

/* Where the owner of @object is; @cache is its own. */
static inline uint32_t *object_owner(const struct slub_cache *cache,
				     const void *object)
{
	if (likely(cache->owner_reciprocal))
		return slab_owner(cache, object);
	if (cache->debug)
		return (uint32_t *)((char *)object + cache->debug->owner);
	return page_owner(page_of(object));
}

/* ---- the fast paths ---- */

/*
 * An object just taken off a list, whose owner is at @where, becomes that of this
 * thread's @owner, not 0.  False: account_claim() may do it.
 */
static always_inline bool account_hand_over(const struct slub_cache *cache,
					    uint32_t *where, uint32_t owner)
{
	uint32_t old = owner_charged(*where);

	/* 0: it comes from a barn or a slab. */
	if (!likely(old ? group_hand_over_fast(old, cache->object_size) :
			  group_charge_fast(cache->object_size)))
		return false;
	*where = owner;
	return true;
}

/*
 * Makes @object, just taken off a list, that of this thread's @owner.  NULL: a
 * maximum is in the way; it is free again.
 */
void *account_claim(struct slub_cache *cache, void *object, uint32_t owner);
/*
 * What account_pop_fast() and account_free_fast() leave, but could be done
 * without the slow path: objects of a page or more, sequences that were aborted.
 */
bool account_alloc_rest(struct slub_cache *cache, uint32_t owner, void **object);
bool account_free_rest(struct slub_cache *cache, void *object);
/*
 * free.c: @object, marked as free and charged, has found this CPU's list full.  False:
 * it has to be looked at, by cache_free().
 */
bool cache_free_kept(struct slub_cache *cache, void *object);

/*
 * An object off this CPU's list at @slot, to be looked at next.  NULL:
 * account_alloc_rest() may have one.  Of a cache that frees_inline.
 */
static always_inline void *account_pop_fast(uintptr_t slot, bool is_keyed)
{
	uintptr_t t;
	void *object;

	if (is_keyed)
		RSEQ_POP_KEY_IN(SLUB_SEQ_SELF, object, slot, t, slub_key);
	else
		RSEQ_POP(object, slot, t);
	if (!object)
		__builtin_unreachable();
	return object;
failed:
aborted:
	return sequence_end(NULL);
}

/* The same of a cache with ACCOUNT_PAGED; its owner's word is at *@where. */
static always_inline void *account_pop_paged(uintptr_t slot, uint32_t **where)
{
	uintptr_t bias = page_link_bias, t, at;
	void *object;

	RSEQ_POP_PAGE_AT(object, slot, t, at, bias);
	if (!object)
		__builtin_unreachable();
	*where = page_owner(page_of_number(at));
	return object;
failed:
aborted:
	*where = NULL;
	return sequence_end(NULL);
}

static always_inline bool account_free_paged(struct slub_cache *cache,
					     void *object)
{
	uint32_t *where = page_owner(page_of(object));
	uint32_t owner = *where;
	uintptr_t slot = cache->list_slot, t;
	void **link = page_link(page_link_bias, object);

	if (unlikely(owner & OWNER_FREE))
		return false;
	*where = owner | OWNER_FREE;
	RSEQ_PUSH_PAGE(object, slot, t, link);
	return true;
failed:
aborted:
	/* Found again: what is kept over the sequence needs a stack frame. */
	*page_owner(page_of(object)) &= ~OWNER_FREE;
	return false;
}

/*
 * Of a cache with ACCOUNT_SLAB; @link and @is_keyed, whose @link is 0: constants, where they are
 * known.  False: account_free_rest() may do it.
 */
static always_inline bool account_free_fast(struct slub_cache *cache, void *object,
					    uintptr_t link, bool is_keyed)
{
	uint32_t *where = slab_owner(cache, object);
	uint32_t owner = *where;
	uintptr_t slot, t;

	if (unlikely(owner & OWNER_FREE))
		return false;
	*where = owner | OWNER_FREE;
	slot = cache->list_slot;
	if (is_keyed)
		RSEQ_PUSH_KEY_IN(SLUB_SEQ_SELF, object, slot, t, slub_key);
	else
		RSEQ_PUSH_LINK(object, slot, t, link);
	return true;
failed:
aborted:
	*where = owner;
	return false;
}

/* ---- the slow ones ---- */

/*
 * Charges @nr objects of @cache to this thread's owner, or the cache's; *@owner says
 * which.  False: a maximum is in the way.
 */
bool account_begin(const struct slub_cache *cache, size_t nr, uint32_t *owner);
/* Follows for each object, of @cache or a twin: makes it @owner's.  NULL: gives the charge back. */
void account_end(const struct slub_cache *cache, void *object, uint32_t owner);
/* The same for an object with an owner, of this very cache. */
void account_take(const struct slub_cache *cache, void *object, uint32_t owner);
/* The charges of @nr objects that were not allocated after all. */
void account_cancel(const struct slub_cache *cache, size_t nr, uint32_t owner);
/* account_free() for @nr objects; returns how many, up to the first that is free already. */
size_t account_free_many(struct slub_cache *cache, size_t nr, void **objects);

/* From here on @to answers for what @from, which is allocated, is charged with. */
static inline void account_move(const struct slub_cache *cache,
				const void *from, const void *to)
{
	*object_owner(cache, to) = *object_owner(cache, from);
	*object_owner(cache, from) = OWNER_FREE;
}

/* For a moment, in which nobody frees @from, @to is charged to the same owner.  Of any cache. */
static inline void account_both(const struct slub_cache *cache,
				const void *from, const void *to)
{
	uint32_t owner;

	if (likely(!cache->is_accounted))
		return;
	owner = owner_charged(*object_owner(cache, from));
	if (owner)
		group_charge_anyway(owner, cache->object_size);
	*object_owner(cache, to) = owner;
}

/* One of the two is no more; false: it was freed already. */
static inline bool account_one_less(struct slub_cache *cache, void *object)
{
	return likely(!cache->is_accounted) || account_free(cache, object);
}

/* group_objects.c */
/*
 * Sees all that is allocated and has an owner, 0: charged to nobody; by a walk over the heap.
 * @object and @large are called as readers of group_domain.
 */
struct owned_visitor {
	void (*object)(const struct slub_cache *cache, const struct page *slab,
		       uint32_t owner, void *arg);
	/* NULL, or behind the objects of a slab, which may have gone meanwhile */
	void (*slab)(const struct slub_cache *cache, const struct page *slab, void *arg);
	void (*large)(uint32_t owner, size_t bytes, void *arg);
	void *arg;
};
void owned_visit(const struct owned_visitor *visitor);
/* @cache is in the group that @place names from here on. */
void cache_place_copy(struct slub_cache *cache, const uint32_t *place);

/* ---- lists ---- */

/* Settles all lists of this CPU, and of all CPUs; see features/reclaim/reclaim.h. */
void account_settle_lists(bool of_all);
bool account_lists_are_empty(void);

#endif
