/* SPDX-License-Identifier: MIT */
/*
 * Objects that were never handed out, for calloc(): of a slab whose memory the system has just
 * given nothing was written as long as the links of its objects lie elsewhere, so they read as
 * zero, and the program's own writes bring the memory.
 *
 * They come one by one, past the lists, for in a list nobody knows any more what an object has
 * in it.  What was used before goes first: with memory behind it that costs the program less
 * than a page fault, and the process nothing.  So this way is open only to a CPU that has no
 * object of the cache, neither in its lists nor in a barn, and of a node without free objects.
 */
#include "core/slab/switches.h"
#include "core/slab/slab_internal.h"

/* Are its objects all alike, and none of them looked at? */
static bool is_plain(struct slub_cache *cache)
{
	return !SLUB_CONFIG_HARDENED && !link_is_in_object(cache->link) && !cache->ctor &&
	       !cache->is_accounted && !cache_is_watched(cache) && !sample_is_wanted();
}

/* As of a moment ago. */
static bool is_anything_near(struct slub_cache *cache)
{
	return percpu_head(cache->list_slot) ||
	       percpu_head(cache->list_slot + SLOT_SPARE) ||
	       __atomic_load_n(&cache->in_barns, __ATOMIC_RELAXED);
}

cold void *cache_alloc_fresh(struct slub_cache *cache, size_t bytes)
{
	struct cache_node *node;
	bool may_grow;
	void *object;

	if (!is_plain(cache) || slub_thread.locks_held)
		return NULL;
	debug_mailbox_poll();
	cache_free_postponed();
	grace_look(1);
	percpu_enter();
	if (is_anything_near(cache))
		return NULL;
	node = node_current(cache);
	object = node_carve_fresh(cache, node, &may_grow);
	if (!object && may_grow && node_grow(cache, node))
		object = node_carve_fresh(cache, node, &may_grow);
	if (!object)
		return NULL;
	inject(INJECT_carved);
	slack_note(cache, bytes);
	stat_add(cache, STAT_ALLOC_REFILL);
	stat_add_many(cache, STAT_OBJECTS_OUT, 1);
	slab_tell(cache);
	return chain_unchained(cache, object);
}
