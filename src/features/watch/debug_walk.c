/* SPDX-License-Identifier: MIT */
/*
 * A walk over the slabs of watched caches, which are pinned.  Each is looked at with
 * its node's lock, under which it cannot go away; found by the page map, without.
 */
#include "features/watch/watch.h"

static bool is_listed(struct cache_node *node, const struct page *slab)
{
	for (struct list *i = node->partial.next; i != &node->partial;
	     i = i->next) {
		if (container_of(i, struct page, list) == slab)
			return true;
	}
	return false;
}

/* Does @slab, found without the lock, belong to @twin still? */
static bool is_current(struct slub_cache *twin, struct cache_node *node,
		       struct page *slab)
{
	if (pagemap_get(page_address(slab)) != twin->slot ||
	    cache_of_slot(twin->slot) != twin)
		return false;
	/* An empty one may be on its way back; a used one cannot. */
	return state_inuse(slab_read(slab)) || is_listed(node, slab);
}

struct walk {
	const struct watched_visit *visit;
	size_t bytes;		/* of slabs that were looked at */
};

/* What watched_for_some() looks at: of watched slabs, and of the heap at a time, at all. */
#define SOME_BYTES ((size_t)1 << 20)
#define STRIDE_BYTES ((size_t)256 << 10)
#define STRIDES_MAX 256

/* @slab was @twin's when it was found; @twin is pinned. */
static void visit_pinned(struct walk *walk, struct slub_cache *twin,
			 struct page *slab)
{
	const struct watched_visit *visit = walk->visit;
	struct cache_node *node = watched_node(twin, slab);
	bool is_its;

	lock_acquire(&node->lock);
	is_its = is_current(twin, node, slab);
	if (is_its)
		visit->visit(twin, slab, visit->arg);
	lock_release(&node->lock);
	if (!is_its)
		return;
	walk->bytes += PAGE_BYTES << twin->order;
	if (visit->after)
		visit->after(twin, visit->arg);
}

static bool is_meant(const struct walk *walk, const struct slub_cache *original)
{
	const struct watched_visit *visit = walk->visit;

	return original && (!visit->cache || visit->cache == original) &&
	       (!visit->pattern || debug_is_meant(original, visit->pattern));
}

/* Pinned: the report follows without the lock, and the twin must not be another's by then. */
static void visit_slab(struct slub_cache *cache, struct page *slab, void *arg)
{
	struct slub_cache *original;
	struct walk *walk = arg;
	struct cache_hold pin;

	if (!cache_is_twin(cache))
		return;
	original = watch_original(watch_of(cache));
	if (!is_meant(walk, original) || !cache_pin_any(cache, &pin))
		return;
	if (watch_original(watch_of(cache)) == original)
		visit_pinned(walk, cache, slab);
	cache_unpin(&pin);
}

void watched_for_each(const struct watched_visit *visit)
{
	struct walk walk = { visit, 0 };

	slab_for_each(visit_slab, &walk);
}

bool watched_for_some(const struct watched_visit *visit, char **at)
{
	struct walk walk = { visit, 0 };
	bool more = true;

	for (int i = 0; more && i < STRIDES_MAX && walk.bytes < SOME_BYTES; i++)
		more = slab_walk_on(at, STRIDE_BYTES, visit_slab, &walk);
	return more;
}
