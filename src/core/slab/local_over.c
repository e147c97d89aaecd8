/* SPDX-License-Identifier: MIT */
/*
 * Local lists go along with the thread: LOCAL-7 of local.h.  They change hands slab by slab, and
 * no object is looked at: with the first free to the slab on another CPU, and some when a cache
 * would grow, or when the lists of a program that is silent go to their slabs.
 *
 * A barrier would do it for processes of many threads too, but a sandbox may end the program for
 * that call, and this is the way of malloc().
 *
 * Locks: node->lock.
 */
#include "core/slab/local.h"
#include "core/slab/slab_internal.h"

/* A cache that would grow takes so many slabs along: a line of each is written. */
#define TAKEN_MAX 64

uint32_t local_wanders rarely_touched;

cold void local_wandered(uint32_t cid)
{
	static uint32_t last rarely_touched;

	if (__atomic_exchange_n(&last, cid, __ATOMIC_RELAXED) != cid)
		__atomic_fetch_add(&local_wanders, 1, __ATOMIC_RELAXED);
}

static uint64_t with_owner(uint64_t word, uint32_t owner)
{
	return (word & ~local_none(LOCAL_OWNER_MASK)) | local_none(owner);
}

/* False: the word is not what it was. */
static cold bool exchange(struct page *local, uint64_t old, uint64_t new)
{
	/* acquire: pairs with the store of a sequence; release: a list that goes back is whole */
	return __atomic_compare_exchange_n((uint64_t *)&page_state(local)->first, &old, new, false,
					   __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/* False: a handler of this thread, or another thread, was quicker; the list is as it would be. */
static cold bool claim(struct page *local, uint64_t word)
{
	uint64_t claimed = with_owner(word, LOCAL_CLAIMED);

	if (!exchange(local, word, claimed))
		return false;
	inject(INJECT_local);
	/* Before the look: pairs with the one in percpu_thread_open(). */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (likely(local_goes_along()))
		return true;
	exchange(local, claimed, word);
	return false;
}

/* @word was the word of @local, which has a list, and belongs to another CPU. */
static cold bool take_along(const struct slub_cache *cache, struct cache_node *node,
			    struct page *local, uint64_t word, uint32_t cid)
{
	struct local_slabs *from = local_slabs_of(node, local_owner(word));
	struct local_slabs *to = local_slabs_of(node, cid);

	if (!from || !to || !claim(local, word))
		return false;
	local_mask_set(cache, cid);
	local_leave(from, local);
	list_add_tail(&to->slabs, &local->list);
	local_write(local, with_owner(word, cid));
	/* If it was marked, or somebody has looked at it in vain (LOCAL-5). */
	if (state_inuse(slab_read(local - 1)) <= *local_watermark(local))
		local_mark(to, local);
	return true;
}

cold bool local_over_slab(const struct slub_cache *cache, struct cache_node *node,
			  struct page *local, uint32_t cid)
{
	uint64_t word = local_read(local);

	if (local_owner(word) >= LOCAL_OWNERS)
		return false;
	if (!local->list.next) {
		local_write(local, local_none(cid));	/* LOCAL-2 */
		return true;
	}
	return take_along(cache, node, local, word, cid);
}

/* Those of CPU @other that began last. */
static cold uint32_t take_some(const struct slub_cache *cache, struct cache_node *node,
			       uint32_t other, uint32_t cid)
{
	struct local_slabs *from = local_slabs_of(node, other);
	uint32_t nr = 0;

	while (from && nr < TAKEN_MAX && !list_is_empty(&from->slabs)) {
		struct page *local = container_of(from->slabs.prev, struct page, list);
		uint64_t word = local_read(local);

		if (local_owner(word) != other || !take_along(cache, node, local, word, cid))
			break;
		nr++;
	}
	return nr;
}

cold bool local_over_some(const struct slub_cache *cache, struct cache_node *node)
{
	uint32_t cid = percpu_here();
	struct local_slabs *to = local_slabs_of(node, cid);
	uint32_t end = percpu_areas_end();
	uint32_t wanders = __atomic_load_n(&local_wanders, __ATOMIC_RELAXED) + 1;

	if (!to || to->looked == wanders)
		return false;
	for (uint32_t i = 1; i < end; i++) {
		if (take_some(cache, node, (cid + i) % end, cid))
			return true;
	}
	to->looked = wanders;
	return false;
}

cold void *local_over_objects(struct slub_cache *cache, struct cache_node *node, uint32_t wanted,
			 uint32_t *nr)
{
	bool has_some;

	lock_acquire(&node->lock);
	has_some = local_over_some(cache, node);
	lock_release(&node->lock);
	return has_some ? local_take_objects(cache, node, wanted, nr) : NULL;
}

cold void local_leave_short(struct slub_cache *cache)
{
	void *list = chain_head(cache, percpu_take(cache->list_slot, 0));
	void *foreign = chain_head(cache, percpu_take(cache->list_slot + SLOT_SPARE, 0));

	if (list)
		chain_settled_to_slabs(cache, list);
	if (foreign)
		chain_settled_to_slabs(cache, foreign);
}
