/* SPDX-License-Identifier: MIT */
/*
 * Accounted objects: those of a cache with SLUB_ACCOUNT, and malloc's in a
 * group.  Each has an *owner*, a word that says who it is charged to
 * (reclaim/reclaim.h):
 *
 *   a slab    | object 0 | object 1 | object 2 | ...    free    | 2 | 1 | 0 |
 *                                                                 owners
 *
 * at the end of the slab; of objects of a page or more in the descriptor of
 * their page, and of watched ones behind them (debug/debug.h).
 *
 *   owner           the object is allocated, and charged: object_size bytes
 *   0               it is allocated and charged to nobody
 *   OWNER_FREE      it was allocated and has been freed
 *   anything else   it was never allocated
 *
 * The page map names a slot without room for these slabs, and the inline
 * functions are given the same: so all frees leave the fast path, and ask here.
 *
 * Invariants
 *   ACCOUNT-1  who takes an object off a list sets its owner before anybody
 *              else sees it; who frees it reads the owner, and sets OWNER_FREE,
 *              before it is on a list.
 */
#ifndef SLUB_SLAB_ACCOUNT_H
#define SLUB_SLAB_ACCOUNT_H

#include "slab/slab_internal.h"

#define OWNER_FREE UINT32_MAX
#define OWNER_BYTES 4

/* Where the owner of @object is, if it is at the end of its slab. */
static always_inline uint32_t *slab_owner(const struct slub_cache *cache,
					  const void *object)
{
	uintptr_t mask = cache->slab_mask, n;

	n = ((uintptr_t)object & mask) * cache->owner_reciprocal >> 32;
	/* The last word of the slab is that of object 0. */
	return (uint32_t *)(((uintptr_t)object | mask) + 1) - 1 - n;
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

/*
 * ---- the fast paths ----
 *
 * Of caches with account_path ACCOUNT_WORD (links in the first word) or
 * ACCOUNT_LINK (elsewhere in the object), which have their owners in the slab.
 */

/*
 * What account_alloc_fast() and account_free_fast() leave, but could be done
 * without the slow path: objects of a page or more, and those that are charged
 * to another group than the one this thread is in.
 */
void *account_alloc_rest(struct slub_cache *cache);
bool account_free_rest(struct slub_cache *cache, void *object);

/*
 * NULL: account_alloc_rest() may do it.  @is_first_word: the link is known to be
 * in the first word of an object.
 */
static always_inline void *account_alloc_fast(struct slub_cache *cache,
					      uint32_t owner,
					      bool is_first_word)
{
#if ARCH_HAS_RSEQ
	uintptr_t slot, t;
	void *object;

	if (owner && unlikely(!group_charge_fast(cache->object_size)))
		return NULL;
	slot = cache->list_slot;
	if (is_first_word)
		RSEQ_POP(object, slot, t);
	else
		RSEQ_POP_LINK(object, slot, t, cache->link);
	if (!object)
		__builtin_unreachable();
	*slab_owner(cache, object) = owner;
	return object;
failed:
aborted:
	if (owner)
		group_undo_charge_fast(cache->object_size);
#else
	(void)cache, (void)owner, (void)is_first_word;
#endif
	return NULL;
}

/* False: account_free_rest() may do it. */
static always_inline bool account_free_fast(struct slub_cache *cache,
					    void *object, bool is_first_word)
{
#if ARCH_HAS_RSEQ
	uint32_t *where = slab_owner(cache, object);
	uint32_t owner = *where;
	uintptr_t slot, t;

	if (likely(owner) &&
	    unlikely(!group_uncharge_fast(owner, cache->object_size)))
		return false;
	*where = OWNER_FREE;
	slot = cache->list_slot;
	if (is_first_word)
		RSEQ_PUSH(object, slot, t);
	else
		RSEQ_PUSH_LINK(object, slot, t, cache->link);
	return true;
failed:
aborted:
	/* Still allocated, but charged to nobody any more. */
	*where = 0;
#else
	(void)cache, (void)object, (void)is_first_word;
#endif
	return false;
}

/* ---- the slow ones ---- */

/*
 * Charges @nr objects of @cache to who this thread works for, who is then in
 * *@owner; false: a maximum is in the way.
 */
bool account_begin(const struct slub_cache *cache, size_t nr, uint32_t *owner);
/*
 * Follows for each object: makes it @owner's.  It may be of a twin of @cache.
 * NULL: there is none; the charge is given back.
 */
void account_end(const struct slub_cache *cache, void *object, uint32_t owner);
/* The charges of @nr objects that were not allocated after all. */
void account_cancel(const struct slub_cache *cache, size_t nr, uint32_t owner);
/*
 * @object, of @cache, is being freed: gives its charge back.  False: it is free
 * already, which is reported.
 */
bool account_free(struct slub_cache *cache, void *object);
/*
 * The same for @nr objects; returns how many, up to the first that is free
 * already.
 */
size_t account_free_many(struct slub_cache *cache, size_t nr, void **objects);

#endif
