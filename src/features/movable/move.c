/* SPDX-License-Identifier: MIT */
/*
 * Moving one object for a program that knows every pointer to it.
 *
 * An object is worth moving off a slab that is no fuller than slabs with room are on average:
 * where each has lost a quarter of its objects none is half empty, and moving the objects of the
 * emptier ones to the others brings as much.  The average is that of the slabs that were asked for
 * before.  What lies in a local list is free, though the slab's state counts it (LOCAL-4): a
 * program that deletes and moves runs on the CPU that owns these lists.
 *
 * The new place is on the fullest of some slabs at the front of the partial
 * list.  That slab moves to the very front, so the next call goes on filling it.
 * The old place goes back to its slab, past the lists of the CPU: from there the
 * next object would get it.  Each move goes from a slab to one that is at least
 * as full, so moving comes to an end.  Where the slabs of a node have their free objects in lists
 * alone there is no new place, time after time; then all lists are emptied.
 *
 * Locks: node->lock.
 */
#include "core/slab/local.h"
#include "features/groups/owned.h"
#include "features/movable/movable.h"

#include <string.h>

/* Slabs looked at for one that is fuller. */
#define LOOK_AT 16
/* So many slabs are as good as all. */
#define AVERAGED 64
/* So many times in a row, and each power of two of it, no new place: the lists are emptied. */
#define UNMOVED_MAX 32

/* The slab of @object if it may be emptied this way; NULL: it may not. */
static struct page *movable_slab(struct slub_cache *cache, const void *object)
{
	if (!cache || cache_is_watched(cache) || cache->is_reserve ||
	    cache->is_sampled || !cache_is_live(cache))
		return NULL;
	return slab_of(cache, object);
}

/* Objects in use, without those of the local list; a guess without the lock. */
static uint32_t nr_live(const struct slub_cache *cache, struct page *slab)
{
	uint32_t inuse = state_inuse(slab_read(slab)), listed = 0;

	if (cache->has_local)
		listed = local_count(local_of(slab), local_read(local_of(slab)));
	return inuse - (uint32_t)min_size(listed, inuse);
}

/*
 * What slabs with room have on average.  Each slab that is asked for weighs as one, until another
 * is: of objects in random order that is the mean over objects, so that slabs which are almost
 * empty, as those being emptied, weigh next to nothing.  Threads at once may lose one of two.
 */
static void average_add(struct cache_node *node, const struct page *slab, uint32_t live)
{
	uint32_t sum = __atomic_load_n(&node->average, __ATOMIC_RELAXED);
	uint32_t mark = (uint32_t)((uintptr_t)slab / sizeof(*slab));

	if (__atomic_load_n(&node->asked, __ATOMIC_RELAXED) == mark)
		return;
	__atomic_store_n(&node->asked, mark, __ATOMIC_RELAXED);
	sum = sum ? sum + live - sum / AVERAGED : live * AVERAGED;
	__atomic_store_n(&node->average, sum, __ATOMIC_RELAXED);
}

static bool is_sparse(const struct slub_cache *cache, struct page *slab)
{
	struct cache_node *node = cache->nodes[page_node(slab)];
	uint32_t inuse = state_inuse(slab_read(slab)), live = nr_live(cache, slab);

	if (live == cache->objects)
		return false;
	average_add(node, slab, live);
	if (live * 2 > cache->objects &&
	    live * AVERAGED > __atomic_load_n(&node->average, __ATOMIC_RELAXED))
		return false;
	/* What only lists have is room once they are emptied: count_unmoved(). */
	return live < inuse || __atomic_load_n(&node->nr_partial, __ATOMIC_RELAXED) > 1;
}

/* The fullest slab with a free object, as full as @slab or more; or NULL. */
static struct page *find_fuller(const struct slub_cache *cache, struct cache_node *node,
				struct page *slab)
{
	uint32_t most = nr_live(cache, slab);
	struct list *i = node->partial.next;
	struct page *found = NULL;

	for (int n = 0; n < LOOK_AT && i != &node->partial; n++, i = i->next) {
		struct page *other = container_of(i, struct page, list);
		uint32_t live = nr_live(cache, other);

		if (other == slab || !slab_read(other).first || live < most)
			continue;
		found = other;
		most = live;
	}
	return found;
}

/* One object off @slab's freelist; under the lock nobody else takes any. */
static void *take_one(struct slub_cache *cache, struct cache_node *node,
		      struct page *slab)
{
	struct double_word old = slab_read(slab), new;
	bool is_full;

	do {
		new.first = (uintptr_t)chain_next(cache, (void *)old.first);
		is_full = !new.first && slab->count == cache->objects;
		new.second = old.second + 1;
		if (is_full)
			new.second &= ~STATE_LISTED;
	} while (!slab_update(slab, &old, new));
	/* It may have been the first of those. */
	slab_purged_taken(cache, slab);
	partial_remove(node, slab);
	if (!is_full)
		partial_add(node, slab, false);
	return chain_unchained(cache, (void *)old.first);
}

/*
 * None of those looked at is fuller than @slab: the next call looks at others, and @slab takes what
 * they have, if it can.
 */
static void fill_next(struct cache_node *node, struct page *slab)
{
	struct double_word state = slab_read(slab);

	for (int n = 0; n < LOOK_AT && !list_is_empty(&node->partial); n++) {
		struct list *first = node->partial.next;

		list_remove(first);
		list_add_tail(&node->partial, first);
	}
	if (!state.first || !(state.second & STATE_LISTED))
		return;
	partial_remove(node, slab);
	partial_add(node, slab, false);
}

/* Each of @node's slabs may have its free objects in lists, where nobody finds a new place. */
static cold void count_unmoved(struct slub_cache *cache, struct cache_node *node)
{
	uint32_t nr = __atomic_add_fetch(&node->nr_unmoved, 1, __ATOMIC_RELAXED);

	if (nr >= UNMOVED_MAX && (nr & (nr - 1)) == 0)
		cache_flush(cache);
}

static void *alloc_fuller(struct slub_cache *cache, struct page *slab)
{
	struct cache_node *node = cache->nodes[page_node(slab)];
	struct page *fuller;
	void *object = NULL;

	lock_acquire(&node->lock);
	fuller = find_fuller(cache, node, slab);
	if (fuller)
		object = take_one(cache, node, fuller);
	else
		fill_next(node, slab);
	lock_release(&node->lock);
	if (!object) {
		count_unmoved(cache, node);
		return NULL;
	}
	__atomic_store_n(&node->nr_unmoved, 0, __ATOMIC_RELAXED);
	stat_add(cache, STAT_OBJECTS_OUT);
	return object;
}

static void give_back(struct slub_cache *cache, struct page *slab, void *object)
{
	struct detached_list own = { object, object, 1, 0 };

	local_join(cache, slab, &own);
	slab_free_objects(cache, slab, own.head, own.last, own.nr);
	slab_reclaim_if_needed();
}

SLUB_EXPORT bool slub_object_is_sparse(const void *object)
{
	struct slub_cache *cache = cache_of(object);
	struct page *slab = movable_slab(cache, object);

	return slab && is_sparse(cache, slab);
}

SLUB_EXPORT void *slub_object_move(void *object)
{
	struct slub_cache *cache = cache_of(object);
	struct page *slab = movable_slab(cache, object);
	void *to;

	if (!slab || slub_thread.locks_held || !is_sparse(cache, slab))
		return NULL;
	to = alloc_fuller(cache, slab);
	if (!to)
		return NULL;
	memcpy(to, object, cache->object_size);
	if (cache->is_accounted)
		account_move(cache, object, to);
	stat_add(cache, STAT_OBJECTS_MOVED);
	hardened_moved(cache, object, to);
	hardened_fill(cache, object);
	give_back(cache, slab, object);
	return to;
}
