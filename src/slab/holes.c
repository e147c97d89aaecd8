/* SPDX-License-Identifier: MIT */
/*
 * Holes: pages of a slab on which all objects are free go back to the system,
 * though other objects of the slab are in use.
 *
 * What a list of sizes leaves behind when the sizes change is slabs with a few
 * objects each: at one in ten alive, 97 % of the slabs of 32 objects have one,
 * but of the pages with five objects 41 %.  The link of a free object lies in
 * it, so what goes back leaves the freelist too, and is uncarved again.
 *
 * The slab is isolated (defrag.c): nobody takes from it meanwhile, but objects
 * come back to it.  In what order a hole is noted matters to a child that was
 * forked in the middle: it must not take the slab for one without holes that
 * has its last objects uncarved.
 */
#include "slab/slab_internal.h"

static uint64_t run_of(uint32_t first, uint32_t count)
{
	uint64_t ones = count < 64 ? (1ull << count) - 1 : UINT64_MAX;

	return ones << first;
}

/*
 * The objects that page @page of a slab touches; 0: what lies behind the last
 * object is in use.
 */
static uint64_t objects_on(const struct slub_cache *cache, uint32_t page)
{
	size_t start = (size_t)page * PAGE_BYTES;
	size_t end = (size_t)cache->objects * cache->size;
	uint32_t first = (uint32_t)(start / cache->size);
	uint32_t last = (uint32_t)((start + PAGE_BYTES - 1) / cache->size);

	if (cache->owner_reciprocal && start + PAGE_BYTES > end)
		return 0;
	if (first >= cache->objects)
		return 0;
	if (last >= cache->objects)
		last = cache->objects - 1;
	return run_of(first, last - first + 1);
}

/* A bit per page on which all objects are among @objects. */
static uint64_t pages_of(const struct slub_cache *cache, uint64_t objects)
{
	uint64_t pages = 0;

	for (uint32_t p = 0; objects && p < 1u << cache->order; p++) {
		uint64_t on = objects_on(cache, p);

		if (on && (on & ~objects) == 0)
			pages |= 1ull << p;
	}
	return pages;
}

static uint64_t objects_of(const struct slub_cache *cache, uint64_t pages)
{
	uint64_t objects = 0;

	for (; pages; pages &= pages - 1)
		objects |= objects_on(cache, (uint32_t)__builtin_ctzll(pages));
	return objects;
}

static size_t nr_pages(const struct slub_cache *cache, uint64_t holes)
{
	return (size_t)__builtin_popcountll(pages_of(cache, holes));
}

bool holes_are_allowed(const struct slub_cache *cache)
{
	return link_is_in_object(cache->link) && !SLUB_CONFIG_HARDENED &&
	       cache->order && cache->objects <= HOLES_OBJECTS_MAX &&
	       !cache->is_reserve && !cache->is_sampled &&
	       os_page_size() == PAGE_BYTES;
}

void holes_carve(const struct slub_cache *cache, const struct page *slab,
		 uint32_t *first, uint32_t *count)
{
	uint64_t holes = slab_holes(cache, slab);
	uint64_t more;

	*first = (uint32_t)__builtin_ctzll(holes);
	more = ~(holes >> *first);
	if (more)
		*count = (uint32_t)min_size(*count,
					    (size_t)__builtin_ctzll(more));
}

uint32_t holes_carved(const struct slub_cache *cache, struct page *slab,
		      uint32_t first, uint32_t count)
{
	uint64_t holes = slab_holes(cache, slab);
	uint64_t left = holes & ~run_of(first, count);
	size_t pages = nr_pages(cache, holes) - nr_pages(cache, left);

	page_charge_always(pages);
	compiler_barrier();
	slab->link = (void *)(uintptr_t)left;
	return (uint32_t)pages;
}

void holes_forget(const struct slub_cache *cache, struct page *slab)
{
	uint64_t holes = slab_holes(cache, slab);

	if (likely(!holes))
		return;
	page_charge_always(nr_pages(cache, holes));
	slab->link = NULL;
}

static uint64_t chain_objects(const struct slub_cache *cache,
			      const struct page *slab, void *chain)
{
	char *base = page_address(slab);
	uint64_t objects = 0;

	for (void *o = chain; o; o = chain_next(cache, o))
		objects |= 1ull << (size_t)((char *)o - base) / cache->size;
	return objects;
}

/* What of @chain is not among @holes. */
static void *chain_without(const struct slub_cache *cache, char *base,
			   void *chain, uint64_t holes)
{
	void *rest = NULL, *next;

	for (; chain; chain = next) {
		next = chain_next(cache, chain);
		if (holes >> (size_t)((char *)chain - base) / cache->size & 1)
			continue;
		chain_set_next(cache, chain, rest);
		rest = chain;
	}
	return rest;
}

/* @objects, which the caller has in hand, become holes. */
static void note(struct slub_cache *cache, struct page *slab, uint64_t objects)
{
	uint32_t nr = (uint32_t)__builtin_popcountll(objects);
	uint64_t holes = slab_holes(cache, slab) | objects;
	struct double_word old = slab_read(slab), new;

	__atomic_store_n(&slab->link, (void *)(uintptr_t)holes,
			 __ATOMIC_RELEASE);
	do {
		new = old;
		new.second -= nr;
	} while (!slab_update(slab, &old, new));
	__atomic_store_n(&slab->count, slab->count - nr, __ATOMIC_RELEASE);
}

static void count(struct slub_cache *cache, struct page *slab, uint32_t nr)
{
	struct cache_node *node = cache->nodes[page_node(slab)];

	lock_acquire(&node->lock);
	node->nr_carved -= nr;
	lock_release(&node->lock);
	stat_add_many(cache, STAT_OBJECTS_BACK, nr);
}

static void purge_pages(char *base, uint64_t pages)
{
	while (pages) {
		uint32_t first = (uint32_t)__builtin_ctzll(pages);
		uint64_t more = ~(pages >> first);
		uint32_t n = more ? (uint32_t)__builtin_ctzll(more) : 64;

		os_purge(base + first * PAGE_BYTES, n * PAGE_BYTES);
		pages &= ~run_of(first, n);
	}
}

/* Pages of free objects; the freelist is in @chain, what remains of it too. */
static uint64_t take_holes(struct slub_cache *cache, struct page *slab,
			   void **chain)
{
	uint64_t had = slab_holes(cache, slab), objects, pages;

	objects = had | chain_objects(cache, slab, *chain);
	pages = pages_of(cache, objects) & ~pages_of(cache, had);
	objects = objects_of(cache, pages) & ~had;
	if (!objects)
		return 0;
	*chain = chain_without(cache, page_address(slab), *chain, objects);
	note(cache, slab, objects);
	count(cache, slab, (uint32_t)__builtin_popcountll(objects));
	page_uncharge((size_t)__builtin_popcountll(pages));
	return pages;
}

void holes_make(struct slub_cache *cache, struct page *slab)
{
	struct double_word state = slab_read(slab);
	uint64_t pages;
	uint32_t nr = 0;
	void *chain;

	/* One whose last objects were never carved has none; nor too full a one. */
	if (slab_objects_end(cache, slab) < cache->objects ||
	    (slab->count - state_inuse(state)) * cache->size < PAGE_BYTES)
		return;
	chain = take_freelist(cache, slab, STATE_FROZEN, &nr);
	stat_add_many(cache, STAT_OBJECTS_OUT, nr);
	pages = take_holes(cache, slab, &chain);
	if (chain)
		chain_flush(cache, chain);
	purge_pages(page_address(slab), pages);
}
