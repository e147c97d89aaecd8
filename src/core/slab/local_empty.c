/* SPDX-License-Identifier: MIT */
/*
 * Local lists, emptied and counted: by the CPU that owns them, and for a CPU that is stopped
 * (core/percpu/collect.c).  local.h has the word and the rules.
 *
 * Locks: node->lock; area_lock comes before it (local_stopped()).
 */
#include "core/slab/local.h"
#include "core/slab/slab_internal.h"

/* A walk may come by a cache that is being made anew. */
static bool has_local(const struct slub_cache *cache)
{
	return __atomic_load_n(&cache->has_local, __ATOMIC_RELAXED);
}

/* False: there is no more. */
static bool empty_one(struct slub_cache *cache, struct cache_node *node, ptrdiff_t *most)
{
	struct detached_list list;
	struct page *local;

	lock_acquire(&node->lock);
	local = local_pop(local_slabs_of(node, percpu_here()), &list);
	if (!local && local_goes_along() && local_over_some(cache, node))
		local = local_pop(local_slabs_of(node, percpu_here()), &list);
	lock_release(&node->lock);
	if (!local)
		return false;
	/* list_is_sound() reads each. */
	*most -= 1 + (ptrdiff_t)list.nr;
	local_give_back(cache, local, &list);
	return true;
}

static cold void empty_node(struct slub_cache *cache, struct cache_node *node)
{
	ptrdiff_t most = PTRDIFF_MAX;

	while (empty_one(cache, node, &most))
		;
}

cold void local_empty_here(struct slub_cache *cache)
{
	for (uint32_t n = 0; has_local(cache) && n < slab_nr_nodes(); n++)
		empty_node(cache, cache->nodes[n]);
}

/* ---- where the program is silent ---- */

uint32_t local_silences, local_silent[AREAS_MAX] rarely_touched;
bool local_moved, local_rests;

cold void local_tick(void)
{
	if (__atomic_exchange_n(&local_moved, false, __ATOMIC_RELAXED)) {
		__atomic_store_n(&local_rests, true, __ATOMIC_RELAXED);
	} else if (__atomic_exchange_n(&local_rests, false, __ATOMIC_RELAXED)) {
		__atomic_fetch_add(&local_silences, 1, __ATOMIC_RELAXED);
	}
}

static void empty_some_of(struct slub_cache *cache, ptrdiff_t *most)
{
	bool had = false;

	for (uint32_t n = 0; has_local(cache) && n < slab_nr_nodes(); n++) {
		while (*most > 0 && empty_one(cache, cache->nodes[n], most))
			had = true;
	}
	if (had)
		slab_sparse_look(cache);
}

cold void local_empty_some(ptrdiff_t *most)
{
	uint32_t now = __atomic_load_n(&local_silences, __ATOMIC_RELAXED), cid = percpu_here();

	for (struct slub_cache *c = cache_first(); c && *most > 0; c = cache_next(c))
		empty_some_of(c, most);
	/* These were no moves of the program. */
	__atomic_store_n(&local_moved, false, __ATOMIC_RELAXED);
	if (*most > 0 && cid < AREAS_MAX)
		__atomic_store_n(&local_silent[cid], now, __ATOMIC_RELAXED);
}

/* ---- of a CPU that is stopped ---- */

/*
 * What was taken is linked through list.next, and list.prev has the number of the owner: the slab
 * is the collector's, for LOCAL_EMPTIED keeps everybody else away.
 */
static cold void stopped_node(struct cache_node *node, struct local_emptied *emptied, uint32_t cid)
{
	struct local_slabs *slabs;
	struct page *local;

	/* area_lock is held. */
	lock_acquire_below(&node->lock);
	slabs = local_slabs_of(node, cid);
	while ((local = local_first(slabs))) {
		uint64_t word = local_read(local);
		uint32_t nr = local_count(local, word);

		local_unlist(slabs, local);
		__atomic_store_n(&local->count, nr, __ATOMIC_RELAXED);
		local->list.next = emptied->first ? &emptied->first->list : &local->list;
		local->list.prev = (struct list *)(uintptr_t)cid;
		local_write(local, local_list_bits(word) | local_none(LOCAL_EMPTIED));
		emptied->first = local;
	}
	lock_release(&node->lock);
}

static cold void stopped_cache(struct slub_cache *cache, struct local_emptied *emptied,
			       uint32_t cid)
{
	for (uint32_t n = 0; has_local(cache) && n < slab_nr_nodes(); n++)
		stopped_node(cache->nodes[n], emptied, cid);
}

cold void local_stopped(struct collection *collection, uint32_t cid)
{
	struct local_emptied *emptied = collection->arg;

	if (emptied->cache) {
		stopped_cache(emptied->cache, emptied, cid);
		return;
	}
	for (struct slub_cache *c = cache_first(); c; c = cache_next(c))
		stopped_cache(c, emptied, cid);
}

/* The first of @emptied has an owner again, and no list. */
static cold struct page *emptied_pop(struct local_emptied *emptied, struct detached_list *list)
{
	struct page *local = emptied->first, *slab = local - 1;
	struct cache_node *node = cache_of(page_address(slab))->nodes[page_node(slab)];
	struct list *next = local->list.next;

	emptied->first = next == &local->list ? NULL : container_of(next, struct page, list);
	lock_acquire(&node->lock);
	*list = local_list_of(local, local_read(local));
	local->list.next = NULL;
	__atomic_store_n(&local->count, 0, __ATOMIC_RELAXED);
	local_write(local, local_none((uint32_t)(uintptr_t)local->list.prev));
	lock_release(&node->lock);
	return local;
}

cold void local_give_all(struct local_emptied *emptied)
{
	while (emptied->first) {
		struct detached_list list;
		struct page *local = emptied_pop(emptied, &list);

		local_give_back(cache_of(page_address(local - 1)), local, &list);
	}
}

static cold size_t nr_of(const struct local_slabs *slabs)
{
	size_t nr = 0;

	for (struct list *i = slabs->slabs.next; i != &slabs->slabs; i = i->next) {
		struct page *local = container_of(i, struct page, list);

		nr += local_count(local, local_read(local));
	}
	return nr;
}

static cold size_t nr_of_node(struct cache_node *node)
{
	size_t nr = 0;

	lock_acquire(&node->lock);
	for (uint32_t cid = 0; cid < percpu_areas_end(); cid++) {
		const struct local_slabs *slabs = local_slabs_of(node, cid);

		nr += slabs ? nr_of(slabs) : 0;
	}
	lock_release(&node->lock);
	return nr;
}

cold size_t local_nr(const struct slub_cache *cache)
{
	size_t nr = 0;

	if (!has_local(cache) || slub_thread.locks_held)
		return 0;
	for (uint32_t n = 0; n < slab_nr_nodes(); n++)
		nr += nr_of_node(cache->nodes[n]);
	return nr;
}
