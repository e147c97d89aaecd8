/* SPDX-License-Identifier: MIT */
/*
 * Holes: pages of a slab on which all objects are free go back to the system,
 * though other objects of the slab are in use.
 *
 * What a list of sizes leaves behind when the sizes change is slabs with a few
 * objects each: at one in ten alive, 97 % of the slabs of 32 objects have one,
 * but of the pages with five objects 41 %.  The link of a free object lies in
 * it, so what goes back leaves the freelist too, and is uncarved again: each
 * object that touches a hole, so that one on the border of two is carved with the
 * second of them.  A hole is carved whole.
 *
 * The slab is isolated (defrag.c): nobody takes from it meanwhile, but objects
 * come back to it.  In what order a hole is noted matters to a child that was
 * forked in the middle: it must not take the slab for one without holes that
 * has its last objects uncarved.
 */
#include "core/base/bit_map.h"
#include "core/page/purge.h"
#include "core/slab/slab_internal.h"
#include "features/idle/idle.h"

#define PAGES_MAX (1u << HOLES_ORDER_MAX)

/* The object that the byte at @offset of a slab lies in. */
static uint32_t object_at_offset(const struct slub_cache *cache, size_t offset)
{
	return (uint32_t)(offset / cache->size);
}

/* Behind the last object that touches the pages below @page. */
static uint32_t objects_below(const struct slub_cache *cache, uint32_t page)
{
	uint32_t end = object_at_offset(cache, (size_t)page * PAGE_BYTES +
						       cache->size - 1);

	return end < cache->objects ? end : cache->objects;
}

/* An object lies across the start of @page. */
static bool is_crossed(const struct slub_cache *cache, uint32_t page)
{
	size_t start = (size_t)page * PAGE_BYTES;

	return start % cache->size &&
	       object_at_offset(cache, start) < cache->objects;
}

/*
 * How many objects touch page @page; 0: none, or what lies behind the last object
 * is in use.
 */
static uint32_t objects_on(const struct slub_cache *cache, uint32_t page)
{
	size_t start = (size_t)page * PAGE_BYTES;
	size_t end = (size_t)cache->objects * cache->size;
	uint32_t first = object_at_offset(cache, start);

	if (cache->owner_reciprocal && start + PAGE_BYTES > end)
		return 0;
	if (first >= cache->objects)
		return 0;
	return objects_below(cache, page + 1) - first;
}

uint32_t holes_objects(const struct slub_cache *cache, uint64_t holes)
{
	uint32_t nr = 0;

	for (uint32_t page = 0; page < PAGES_MAX && holes >> page; page++) {
		if (!(holes >> page & 1))
			continue;
		nr += objects_on(cache, page);
		/* One across the border was counted with the page before. */
		if (page && holes >> (page - 1) & 1 && is_crossed(cache, page))
			nr--;
	}
	return nr;
}

bool holes_are_allowed(const struct slub_cache *cache)
{
	return link_is_in_object(cache->link) && !SLUB_CONFIG_HARDENED &&
	       cache->order && cache->order <= HOLES_ORDER_MAX &&
	       !cache->is_reserve && !cache->is_sampled &&
	       os_page_size() == PAGE_BYTES;
}

void holes_carve(const struct slub_cache *cache, const struct page *slab,
		 uint32_t *first, uint32_t *count)
{
	uint64_t holes = slab_holes(cache, slab);
	uint32_t page = (uint32_t)__builtin_ctzll(holes);
	uint32_t end = objects_below(cache, page + 1);

	*first = object_at_offset(cache, (size_t)page * PAGE_BYTES);
	/* It touches the next hole too; and is not the only one here. */
	if (page + 1 < PAGES_MAX && holes >> (page + 1) & 1 &&
	    is_crossed(cache, page + 1))
		end--;
	slub_assert(end > *first);
	*count = end - *first;
}

uint32_t holes_carved(struct page *slab)
{
	uint64_t holes = slab->holes;

	page_charge_always(1);
	compiler_barrier();
	slab->holes = holes & (holes - 1);
	return 1;
}

/* The slab's pages without memory are known no more; how many they were. */
static cold size_t purged_drop(struct slub_cache *cache, struct page *slab)
{
	size_t pages = slab->nr_purged;

	page_charge_always(pages);
	__atomic_fetch_sub(&cache->sparse_purged, pages, __ATOMIC_RELAXED);
	slab_purged_clear(cache, slab);
	return pages;
}

usual void holes_forget(struct slub_cache *cache, struct page *slab)
{
	uint64_t holes = slab_holes(cache, slab);

	if (slab_has_purged(cache, slab))
		purged_drop(cache, slab);
	if (likely(!holes))
		return;
	page_charge_always((size_t)__builtin_popcountll(holes));
	slab->holes = 0;
}

static size_t index_of(const struct slub_cache *cache, const char *base,
		       const void *object)
{
	return (size_t)((const char *)object - base) / cache->size;
}

/* Counts the objects of @chain on each page that they touch. */
static void count_free(const struct slub_cache *cache, const char *base,
		       void *chain, uint32_t *nr)
{
	for (void *o = chain; o; o = chain_next_near(cache, o)) {
		size_t at = index_of(cache, base, o) * cache->size;
		size_t first = at / PAGE_BYTES;
		size_t last = (at + cache->size - 1) / PAGE_BYTES;

		nr[first]++;
		if (last != first)
			nr[last]++;
	}
}

/* The pages on which all objects are in @chain, or on the border of one of @had. */
static cold uint64_t free_pages(const struct slub_cache *cache, const char *base,
			   void *chain, uint64_t had)
{
	uint32_t pages = 1u << cache->order, nr[PAGES_MAX] = { 0 };
	uint64_t all = 0;

	count_free(cache, base, chain, nr);
	for (uint32_t p = 0; p < pages; p++) {
		uint32_t on = objects_on(cache, p);

		if (had >> p & 1)
			continue;
		if (p && had >> (p - 1) & 1)
			nr[p] += is_crossed(cache, p);
		if (p + 1 < pages && had >> (p + 1) & 1)
			nr[p] += is_crossed(cache, p + 1);
		if (on && nr[p] == on)
			all |= 1ull << p;
	}
	return all;
}

/* What of @chain touches none of @holes. */
static void *chain_without(const struct slub_cache *cache, const char *base,
			   void *chain, uint64_t holes)
{
	void *rest = NULL, *next;

	for (; chain; chain = next) {
		next = chain_next_near(cache, chain);
		if (object_is_hole(cache, holes, index_of(cache, base, chain)))
			continue;
		chain_set_next(cache, chain, rest);
		rest = chain;
	}
	return rest;
}

/* @nr objects that the caller has in hand are holes, as @holes says. */
static cold void note(struct page *slab, uint64_t holes, uint32_t nr)
{
	struct double_word old = slab_read(slab), new;

	__atomic_store_n(&slab->holes, holes, __ATOMIC_RELEASE);
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

/* Runs of pages of one slab that go back in a call with a bound, a system call for each. */
#define RUNS_MAX 4

/* The first run of @pages, moved to bit 0; *@first: where it was. */
static uint32_t run_of(uint64_t pages, uint32_t *first)
{
	uint64_t more;

	*first = (uint32_t)__builtin_ctzll(pages);
	more = ~(pages >> *first);
	return more ? (uint32_t)__builtin_ctzll(more) : 64;
}

static uint64_t pages_behind(uint32_t end)
{
	return end < PAGES_MAX ? UINT64_MAX << end : 0;
}

/* The longest runs of @pages, @most of them: each costs a call, however long it is. */
static cold uint64_t longest_runs(uint64_t pages, uint32_t most)
{
	uint64_t chosen = 0;

	while (pages && most--) {
		uint32_t best = 0, best_nr = 0, first, nr;

		for (uint64_t rest = pages; rest; rest &= pages_behind(first + nr)) {
			nr = run_of(rest, &first);
			if (nr <= best_nr)
				continue;
			best = first;
			best_nr = nr;
		}
		chosen |= (pages_behind(best) & ~pages_behind(best + best_nr)) & pages;
		pages &= ~chosen;
	}
	return chosen;
}

static cold void purge_pages(char *base, uint64_t pages, struct purge *purge)
{
	uint32_t first, nr;

	for (; pages; pages &= pages_behind(first + nr)) {
		nr = run_of(pages, &first);
		purge_range(purge, base + first * PAGE_BYTES, nr * PAGE_BYTES);
	}
}

/* Pages of free objects; the freelist is in @chain, what remains of it too. */
static cold uint64_t take_holes(struct slub_cache *cache, struct page *slab,
			   void **chain, uint32_t runs)
{
	const char *base = page_address(slab);
	uint64_t had = slab_holes(cache, slab);
	uint64_t pages = longest_runs(free_pages(cache, base, *chain, had), runs);
	uint32_t nr;

	if (!pages)
		return 0;
	nr = holes_objects(cache, had | pages) - holes_objects(cache, had);
	*chain = chain_without(cache, base, *chain, pages);
	note(slab, had | pages, nr);
	count(cache, slab, nr);
	page_uncharge((size_t)__builtin_popcountll(pages));
	return pages;
}

cold size_t holes_make(struct slub_cache *cache, struct page *slab, struct purge *purge)
{
	uint32_t runs = purge->until == UINT64_MAX ? UINT32_MAX : RUNS_MAX;
	struct double_word state = slab_read(slab);
	uint64_t pages;
	uint32_t nr = 0;
	void *chain;

	/* One whose last objects were never carved has none; nor too full a one. */
	if (slab_objects_end(cache, slab) < cache->objects ||
	    (slab->count - state_inuse(state)) * cache->size < PAGE_BYTES)
		return 0;
	chain = chain_head(cache, take_freelist(cache, slab, STATE_FROZEN, &nr));
	stat_add_many(cache, STAT_OBJECTS_OUT, nr);
	if (SLUB_CONFIG_CHECKS && !chain_ends(cache, chain, cache->objects))
		return 0;
	pages = take_holes(cache, slab, &chain, runs < purge->calls ? runs : purge->calls);
	if (chain)
		chain_flush(cache, chain);
	purge_pages(page_address(slab), pages, purge);
	return (size_t)__builtin_popcountll(pages);
}

/* ---- objects of a page or more, whose link lies elsewhere ---- */

/* A slab is a block, and none of them is shorter than a page. */
#define OBJECTS_MAX (1u << BLOCK_ORDER_MAX)

/* Objects of one slab, by their numbers. */
struct free_objects {
	uint64_t all[OBJECTS_MAX / 64];
	uint64_t new[OBJECTS_MAX / 64];		/* whose memory has not gone back */
	size_t end;
};

static void free_add(struct free_objects *objects, size_t index, bool is_new)
{
	slub_assert(index < OBJECTS_MAX);
	bit_map_set(objects->all, index, true);
	bit_map_set(objects->new, index, is_new);
	if (index >= objects->end)
		objects->end = index + 1;
}

/* Those from @first up to @end lie side by side; what is new of them goes back. */
static cold size_t run_purge(const struct slub_cache *cache, const char *base,
			     const struct free_objects *objects, size_t first, size_t end,
			     struct purge *purge)
{
	/* The kernel rounds a length up, and would take the beginning of what lies behind. */
	uintptr_t unit = os_page_size(), at = (uintptr_t)base;
	uintptr_t from = round_up(at + first * cache->size, unit), new_from;
	uintptr_t to = round_down(at + end * cache->size, unit), new_to;

	if (from >= to)
		return 0;
	first = bit_map_next(objects->new, first, end, true);
	end = bit_map_end(objects->new, end);
	new_from = max_size(from, round_down(at + first * cache->size, unit));
	new_to = min_size(to, round_up(at + end * cache->size, unit));
	if (first < end && new_from < new_to)
		purge_range(purge, (void *)new_from, new_to - new_from);
	return (to - from) / PAGE_BYTES;
}

/*
 * A page that two objects share goes too, in whatever order they were freed.  Returns how many
 * pages of free objects have no memory then.
 */
static cold size_t free_purge(const struct slub_cache *cache, const char *base,
			      const struct free_objects *objects, struct purge *purge)
{
	size_t first, end = 0, pages = 0;

	while ((first = bit_map_next(objects->all, end, objects->end, true)) < objects->end) {
		end = bit_map_next(objects->all, first, objects->end, false);
		pages += run_purge(cache, base, objects, first, end, purge);
	}
	return pages;
}

static cold void purged_set(struct slub_cache *cache, struct page *slab, const void *first,
		       size_t pages)
{
	slab->purged_from = first ? 1 + (uint32_t)index_of(cache, page_address(slab), first) : 0;
	slab->nr_purged = first ? (uint32_t)pages : 0;
	__atomic_fetch_add(&cache->sparse_purged, slab->nr_purged, __ATOMIC_RELAXED);
	page_uncharge(slab->nr_purged);
}

cold void objects_taken(struct slub_cache *cache, struct page *slab)
{
	page_regretted(purged_drop(cache, slab));
}

/*
 * Near a limit this is called again and again, and a system call for each free object,
 * not for each that was freed since, took most of a program's time.
 *
 * Objects come to a freelist at its front, and taking one forgets what was purged
 * (take_freelist(), move.c), so those that were purged are its end, from number
 * `purged_from` - 1 on.  What came back to the slab while its list was in hand lies behind
 * that list now; then nothing is known of the slab.
 */
cold size_t objects_purge(struct slub_cache *cache, struct page *slab, struct purge *purge)
{
	char *base = page_address(slab);
	struct free_objects objects = { .end = 0 };
	void *chain, *tail = NULL, *known = NULL;
	bool is_new = true;
	size_t had = 0, pages;
	uint32_t nr = 0;

	if (slab->purged_from)
		known = base + (size_t)(slab->purged_from - 1) * cache->size;
	if ((void *)slab_read(slab).first == known)
		return 0;
	if (known)
		had = purged_drop(cache, slab);
	chain = take_freelist(cache, slab, STATE_FROZEN, &nr);
	stat_add_many(cache, STAT_OBJECTS_OUT, nr);
	for (void *o = chain; o; o = chain_next(cache, o)) {
		is_new = is_new && o != known;
		free_add(&objects, index_of(cache, base, o), is_new);
		tail = o;
	}
	pages = free_purge(cache, base, &objects, purge);
	chain_flush(cache, chain);
	purged_set(cache, slab, chain_next(cache, tail) ? NULL : chain, pages);
	return pages > had ? pages - had : 0;
}
