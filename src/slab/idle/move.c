/* SPDX-License-Identifier: MIT */
/*
 * Moving one object for a program that knows every pointer to it.
 *
 * The new place is on the fullest of some slabs at the front of the partial
 * list.  That slab moves to the very front, so the next call goes on filling it.
 * The old place goes back to its slab, past the lists of the CPU: from there the
 * next object would get it.  Each move goes from a slab to one that is at least
 * as full, so moving comes to an end.
 *
 * Locks: node->lock.
 */
#include "slab/shadow/owned.h"

#include <string.h>

/* Slabs looked at for one that is fuller. */
#define LOOK_AT 16

/* The slab of @object if it may be emptied this way; NULL: it may not. */
static struct page *movable_slab(struct slub_cache *cache, const void *object)
{
	if (!cache || cache_is_watched(cache) || cache->is_reserve ||
	    cache->is_sampled || !cache_is_live(cache))
		return NULL;
	return slab_of(cache, object);
}

static bool is_sparse(const struct slub_cache *cache, struct page *slab,
		      struct double_word state)
{
	struct cache_node *node = cache->nodes[page_node(slab)];

	return state.second & STATE_LISTED &&
	       state_inuse(state) * 2 <= cache->objects &&
	       __atomic_load_n(&node->nr_partial, __ATOMIC_RELAXED) > 1;
}

/* The fullest slab with a free object, as full as @slab or more; or NULL. */
static struct page *find_fuller(struct cache_node *node, struct page *slab)
{
	uint32_t most = state_inuse(slab_read(slab));
	struct list *i = node->partial.next;
	struct page *found = NULL;

	for (int n = 0; n < LOOK_AT && i != &node->partial; n++, i = i->next) {
		struct page *other = container_of(i, struct page, list);
		struct double_word state = slab_read(other);

		if (other == slab || !state.first || state_inuse(state) < most)
			continue;
		found = other;
		most = state_inuse(state);
	}
	return found;
}

/* Those that were looked at in vain: the next call looks at others. */
static void rotate(struct cache_node *node)
{
	for (int n = 0; n < LOOK_AT && !list_is_empty(&node->partial); n++) {
		struct list *first = node->partial.next;

		list_remove(first);
		list_add_tail(&node->partial, first);
	}
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

static void *alloc_fuller(struct slub_cache *cache, struct page *slab)
{
	struct cache_node *node = cache->nodes[page_node(slab)];
	struct page *fuller;
	void *object = NULL;

	lock_acquire(&node->lock);
	fuller = find_fuller(node, slab);
	if (fuller)
		object = take_one(cache, node, fuller);
	else
		rotate(node);
	lock_release(&node->lock);
	if (object)
		stat_add(cache, STAT_OBJECTS_OUT);
	return object;
}

SLUB_EXPORT bool slub_object_is_sparse(const void *object)
{
	struct slub_cache *cache = cache_of(object);
	struct page *slab = movable_slab(cache, object);

	return slab && is_sparse(cache, slab, counters_of(slab));
}

SLUB_EXPORT void *slub_object_move(void *object)
{
	struct slub_cache *cache = cache_of(object);
	struct page *slab = movable_slab(cache, object);
	void *to;

	if (!slab || slub_thread.locks_held ||
	    !is_sparse(cache, slab, counters_of(slab)))
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
	slab_free_objects(cache, slab, object, object, 1);
	slab_reclaim_if_needed();
	return to;
}
