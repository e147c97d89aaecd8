/* SPDX-License-Identifier: MIT */
/* Accounted objects, where the fast paths of account.h do not do. */
#include "slab/account.h"

/* ---- what the fast paths leave ---- */

void *account_alloc_rest(struct slub_cache *cache)
{
	uint32_t owner = group_current();
	void *object;

	if (owner && !group_charge_fast(cache->object_size) &&
	    !group_charge_stock(owner, cache->object_size))
		return NULL;
	object = percpu_pop(cache->list_slot, cache->link);
	if (likely(object))
		*object_owner(cache, object) = owner;
	else
		account_cancel(cache, 1, owner);
	return object;
}

static bool push(struct slub_cache *cache, void *object)
{
#if ARCH_HAS_RSEQ
	if (cache->account_path == ACCOUNT_WORD &&
	    rseq_push(cache->list_slot, object) == SEQUENCE_DONE)
		return true;
#endif
	return percpu_push(cache->list_slot, object, cache->link);
}

bool account_free_rest(struct slub_cache *cache, void *object)
{
	uint32_t *where = object_owner(cache, object);
	uint32_t owner = *where;

	if (owner == OWNER_FREE || slub_thread.locks_held)
		return false;
	*where = OWNER_FREE;
	if (!push(cache, object)) {
		*where = owner;
		return false;
	}
	if (owner && !group_uncharge_fast(owner, cache->object_size))
		group_uncharge(owner, cache->object_size);
	return true;
}

/* ---- alloc ---- */

bool account_begin(const struct slub_cache *cache, size_t nr, uint32_t *owner)
{
	*owner = group_current();
	return !*owner || !group_charge(*owner, nr * cache->object_size);
}

void account_cancel(const struct slub_cache *cache, size_t nr, uint32_t owner)
{
	if (owner && nr)
		group_uncharge(owner, nr * cache->object_size);
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
		*object_owner(own, object) = owner;
	else	/* between guard pages: of no slab */
		account_cancel(cache, 1, owner);
}

/* ---- free ---- */

static cold void report_twice(struct slub_cache *cache, const void *object)
{
	stat_add(cache, STAT_DOUBLE_FREE);
	log_message("free(%s): object %p is free already; left alone",
		    cache->name, object);
}

bool account_free(struct slub_cache *cache, void *object)
{
	uint32_t *where = object_owner(cache, object);
	uint32_t owner = *where;

	if (unlikely(owner == OWNER_FREE)) {
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

		if (unlikely(owner == OWNER_FREE))
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
