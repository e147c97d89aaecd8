/* SPDX-License-Identifier: MIT */
/*
 * The slabs of a node: refilling a CPU, taking objects back.
 *
 * Objects go back to a slab without a lock, unless the slab enters or leaves the
 * partial list.  Then the node's lock comes before the exchange.  Between the two
 * no other thread can free a slab that became empty, and use its pages for
 * another slab (SLAB-4).
 *
 * Locks: node->lock.
 */
#include "core/slab/key.h"
#include "core/slab/local.h"
#include "core/slab/slab_internal.h"

struct cache_node *node_current(struct slub_cache *cache)
{
	return cache->nodes[os_node_current()];
}

/* Under the node's lock; a look without it finds a whole number. */
static void nr_partial_add(struct cache_node *node, int n)
{
	__atomic_store_n(&node->nr_partial, node->nr_partial + (size_t)n,
			 __ATOMIC_RELAXED);
}

void partial_add(struct cache_node *node, struct page *slab, bool tail)
{
	if (tail)
		list_add_tail(&node->partial, &slab->list);
	else
		list_add_head(&node->partial, &slab->list);
	nr_partial_add(node, 1);
}

void partial_remove(struct cache_node *node, struct page *slab)
{
	list_remove(&slab->list);
	nr_partial_add(node, -1);
}

void slab_update_failed(struct page *slab)
{
	const struct slub_cache *cache = cache_of(page_address(slab));

	if (cache)
		stat_add(cache, STAT_CMPXCHG_DOUBLE_FAIL);
}

/* ---- slabs come and go; no lock held ---- */

/* A cache with so many slabs has come to stay: it will fill the next slab too. */
#define SLABS_TOUCHED 8

static void *slab_block(struct slub_cache *cache, uint32_t node, bool *is_zero)
{
	if (cache->is_reserve)
		return page_reserve_take(cache->order, node);
	if (!block_is_near(cache->order, node))
		slab_empty_left();
	if (__atomic_load_n(&cache->nodes[node]->nr_slabs,
			    __ATOMIC_RELAXED) >= SLABS_TOUCHED &&
	    link_is_in_object(cache->link) &&
	    option_value(OPTION_mode) != MODE_COMPACT)
		return block_alloc_touched(cache->order, node);
	return block_alloc(cache->order, node, is_zero);
}

static struct page *slab_new(struct slub_cache *cache, uint32_t node)
{
	bool is_zero = false;
	void *block = slab_block(cache, node, &is_zero);
	struct page *slab;

	if (!block)
		return NULL;
	stat_add(cache, STAT_SLAB_ALLOC);
	/* Of a cache that is watched otherwise, or not at all. */
	sanitizer_slab(block, PAGE_BYTES << cache->order, SANITIZER_SLAB_BEGINS);
	slab = page_of(block);
	page_flags_write(slab, page_flags_make(TYPE_SLAB, cache->order, node) |
				       (is_zero ? PAGE_FRESH : 0));
	if (SLUB_CONFIG_HARDENED && gap_close(block, cache->order, node))
		page_flags_write(slab, page_flags_read(slab) | PAGE_FENCED);
	slab_count_set(slab, 0);
	slab_holes_clear(cache, slab);
	slab_purged_clear(cache, slab);
	slab_state_set(slab, 0, state_make(cache->objects, 0));
	local_clear(cache, slab);
	pagemap_set(block, (size_t)1 << cache->order, cache->slot);
	return slab;
}

void slab_give_back(struct page *slab)
{
	void *block = page_address(slab);
	uint32_t order = page_order(slab), node = page_node(slab);
	struct slub_cache *cache = cache_of(block);

	if (SLUB_CONFIG_HARDENED && page_flags_read(slab) & PAGE_FENCED)
		gap_open(block, order, node);
	if (cache) {
		stat_add(cache, STAT_SLAB_FREE);
		holes_forget(cache, slab);
		/* As watched_slab_discard() says it. */
		if (cache->debug)
			sanitizer_slab(block, PAGE_BYTES << order, SANITIZER_SLAB_ENDS);
	}
	pagemap_set(block, (size_t)1 << order, MAP_NONE);
	page_flags_write(slab, 0);
	block_free(block, order, node);
}

void slab_discard(struct slub_cache *cache, struct page *slab)
{
	inject(INJECT_discard);
	if (unlikely(cache->flags & SLUB_CACHE_TYPESAFE_BY_RCU))
		slab_give_back_later(slab);
	else
		slab_give_back(slab);
	slab_tell(cache);
}

void node_count_slab(struct slub_cache *cache, struct cache_node *node, int n)
{
	/* Read without the lock too: see slab_block(). */
	__atomic_store_n(&node->nr_slabs, node->nr_slabs + (size_t)n,
			 __ATOMIC_RELAXED);
	__atomic_store_n(&node->nr_objects,
			 node->nr_objects + (size_t)n * cache->objects,
			 __ATOMIC_RELAXED);
	if (node->nr_slabs > node->nr_slabs_peak)
		node->nr_slabs_peak = node->nr_slabs;
}

/* ---- refill ---- */

/* @count objects of @slab, from number @first on, that are not linked yet. */
struct carving {
	struct page *slab;
	uint32_t first;
	uint32_t count;
	uint32_t pages;		/* pages of these that had gone back to the system */
};

void *take_freelist(struct slub_cache *cache, struct page *slab,
		    uintptr_t bits, uint32_t *nr)
{
	struct double_word old = slab_read(slab), new;

	do {
		if (!old.first)
			return NULL;
		new.first = 0;
		new.second = state_make(cache->objects, bits) | slab->count;
	} while (!slab_update(slab, &old, new));
	slab_purged_taken(cache, slab);
	*nr = slab->count - state_inuse(old);
	return (void *)old.first;
}

/*
 * How many objects to carve at once.  To link an object is to touch its page.  So a
 * young cache carves a page's worth, and more as it grows; a large cache carves what a
 * CPU's list holds.  (With four pages' worth at the most, 100,000 objects of 2 KiB that
 * are written take 940 cycles each, and 887 so; the peaks of the workloads are equal.)
 */
#define CARVED_SHARE 8
#define CARVED_SHARE_LARGE 32

static uint32_t carve_count(struct slub_cache *cache, struct cache_node *node)
{
	size_t least = max_size(PAGE_BYTES / cache->size, 1);
	size_t n = max_size(node->nr_carved / CARVED_SHARE, least);
	size_t list = (size_t)capacity_now(cache);

	n = min_size(n, cache->carve_batch);
	n = max_size(n, min_size(node->nr_carved / CARVED_SHARE_LARGE, list));
	return (uint32_t)max_size(n, SLUB_CONFIG_HARDENED ? HARDENED_SHUFFLED : 0);
}

/* Marks up to @most objects of @slab as carved; under the node's lock. */
static void carve(struct slub_cache *cache, struct cache_node *node,
		  struct page *slab, uint32_t most, struct carving *out)
{
	uint32_t left = cache->objects - slab->count;
	struct double_word old = slab_read(slab), new;

	slub_assert(left > 0);	/* SLAB-2: else no refill would find it */
	out->slab = slab;
	out->first = slab->count;
	out->count = (uint32_t)min_size(min_size(carve_count(cache, node), most), left);
	if (unlikely(slab_holes(cache, slab)))
		holes_carve(cache, slab, &out->first, &out->count);
	if (SLUB_CONFIG_HARDENED)
		hardened_carved(cache, (char *)page_address(slab) +
				       (size_t)out->first * cache->size,
				out->count);
	slab_count_set(slab, slab->count + out->count);
	if (unlikely(cache->ctor != NULL))
		__atomic_fetch_add(&node->nr_constructing, 1, __ATOMIC_RELAXED);
	if (unlikely(slab_holes(cache, slab)))
		out->pages = holes_carved(slab);
	node->nr_carved += out->count;
	do {
		new = old;
		new.second += out->count;
		if (slab->count == cache->objects) {
			new.second &= ~(STATE_FROZEN | STATE_LISTED);
			if (old.first)
				new.second |= STATE_LISTED;
		}
	} while (!slab_update(slab, &old, new));
	if (slab->count < cache->objects)
		return;
	if (old.second & STATE_FROZEN) {
		node->carve = NULL;
		if (new.second & STATE_LISTED)
			partial_add(node, slab, true);
	} else if (!(new.second & STATE_LISTED)) {
		partial_remove(node, slab);
	}
}

/* A refill passes over so many slabs that have nothing but holes. */
#define HOLES_PASSED_MAX 8

/* The first slab with free objects that have memory, if one is near the front. */
static struct page *partial_first(struct slub_cache *cache,
				  struct cache_node *node)
{
	struct page *slab;

	for (int i = 0;; i++) {
		slab = container_of(node->partial.next, struct page, list);
		if (likely(!slab_holes(cache, slab)) ||
		    slab_read(slab).first || i == HOLES_PASSED_MAX)
			return slab;
		partial_remove(node, slab);
		partial_add(node, slab, true);
	}
}

/* A chain from the first partial slab, or something to carve there. */
static void *refill_partial(struct slub_cache *cache, struct cache_node *node,
			    uint32_t *nr, struct carving *carving)
{
	struct page *slab;
	void *chain;
	bool done;

	if (list_is_empty(&node->partial))
		return NULL;
	slab = partial_first(cache, node);
	done = slab->count == cache->objects;
	chain = take_freelist(cache, slab, done ? 0 : STATE_LISTED, nr);
	if (!chain)
		carve(cache, node, slab, UINT32_MAX, carving);
	else if (done)
		partial_remove(node, slab);
	return chain;
}

static void *refill_carve(struct slub_cache *cache, struct cache_node *node,
			  uint32_t *nr, struct carving *carving)
{
	void *chain;

	if (!node->carve)
		return NULL;
	chain = take_freelist(cache, node->carve, STATE_FROZEN, nr);
	if (!chain)
		carve(cache, node, node->carve, UINT32_MAX, carving);
	return chain;
}

/* Runs the constructor: once in the life of each object. */
static void carving_construct(struct slub_cache *cache, char *object,
			      uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		cache->ctor(object + (size_t)i * cache->size);
}

/* Objects smaller than a line are linked line by line within so many bytes. */
#define WINDOW_BYTES 1024
#define LINE_BYTES 64

/*
 * Links @nr objects from @object on, one every @stride bytes, behind *@link.  Returns
 * the link of the last.  Keys are written as well: an earlier use of the pages may have
 * left some there.
 */
static void **link_every(struct slub_cache *cache, void **link, char *object,
			 uint32_t nr, size_t stride)
{
	const bool clears = !cache->has_keys && cache_may_have_keys(cache);

	for (uint32_t i = 0; i < nr; i++) {
		if (cache_is_keyed(cache))
			link_set_keyed(link, object);
		else
			*link = object;
		link = link_of(cache, object);
		if (clears)
			key_clear(keyed_place(cache, object));
		object += stride;
	}
	return link;
}

/*
 * Links what was carved, in the order of the addresses.  No lock is held: a
 * constructor may allocate.
 *
 * Objects smaller than a line are an exception: up to 16 objects in a row lie on
 * different lines.  The chain takes the first object of each line of a window, then
 * the second of each, and so on.  Otherwise a thread that hands out small objects one
 * by one would give the same line to threads on two CPUs.  These would fight for it
 * from then on, for free and malloc give a thread the same objects again.
 */
static void *carving_link(struct slub_cache *cache,
			  const struct carving *carving)
{
	char *base = page_address(carving->slab);
	char *first = base + (size_t)carving->first * cache->size;
	uint32_t step = (LINE_BYTES + cache->size - 1) / cache->size;
	/* The hardened build links them elsewhere: NOLINTNEXTLINE(*DeadStores) */
	uint32_t window = step > 1 ? WINDOW_BYTES / cache->size :
				     carving->count;
	/* NOLINTNEXTLINE(*DeadStores): as above */
	void *chain[2], **link = chain;	/* as an object's first two words */

	if (unlikely(cache->is_accounted) && !cache->debug)
		account_carved(cache, first, carving->count);
	if (unlikely(cache->ctor != NULL))
		carving_construct(cache, first, carving->count);
	if (SLUB_CONFIG_HARDENED)
		return hardened_link(cache, first, carving->count);
	for (uint32_t i = 0; i < carving->count; i += window) {
		char *object = first + (size_t)i * cache->size;
		uint32_t n = (uint32_t)min_size(carving->count - i, window);

		for (uint32_t turn = 0; turn < step && turn < n; turn++) {
			link = link_every(cache, link, object,
					  (n - turn + step - 1) / step,
					  (size_t)step * cache->size);
			object += cache->size;
		}
	}
	if (cache_is_keyed(cache))
		link_set_keyed(link, NULL);
	else
		*link = NULL;
	return chain[0];
}

/* One chain; NULL: the node has no partial slab, and no slab to carve. */
static void *refill_once(struct slub_cache *cache, struct cache_node *node,
			 uint32_t *nr, bool *carved)
{
	struct carving carving = { NULL, 0, 0, 0 };
	void *chain;

	lock_acquire(&node->lock);
	chain = refill_partial(cache, node, nr, &carving);
	if (!chain && !carving.slab)
		chain = refill_carve(cache, node, nr, &carving);
	if (chain || carving.slab)
		local_own(cache, chain ? slab_of(cache, chain) : carving.slab);
	lock_release(&node->lock);
	if (unlikely(carving.pages))
		page_bought_again(carving.pages);
	if (!carving.slab)
		return chain;
	inject(INJECT_carved);
	*carved = true;
	*nr = carving.count;
	chain = carving_link(cache, &carving);
	/* release: pairs with the acquire in has_raw() */
	if (unlikely(cache->ctor != NULL))
		__atomic_fetch_sub(&node->nr_constructing, 1, __ATOMIC_RELEASE);
	return chain;
}

cold void *node_carve_fresh(struct slub_cache *cache, struct cache_node *node, bool *may_grow)
{
	struct carving carving = { NULL, 0, 0, 0 };
	struct page *slab;

	lock_acquire(&node->lock);
	slab = list_is_empty(&node->partial) ? node->carve :
	       container_of(node->partial.next, struct page, list);
	*may_grow = !slab;
	if (slab && page_flags_read(slab) & PAGE_FRESH && slab->count < cache->objects &&
	    !slab_read(slab).first)
		carve(cache, node, slab, 1, &carving);
	lock_release(&node->lock);
	return carving.count ? (char *)page_address(slab) + (size_t)carving.first * cache->size :
			       NULL;
}

bool node_grow(struct slub_cache *cache, struct cache_node *node)
{
	struct page *slab = slab_new(cache, node->node);

	if (!slab)
		return false;
	inject(INJECT_grow);
	lock_acquire(&node->lock);
	node_count_slab(cache, node, 1);
	/* No other thread can reach the slab yet: no exchange is needed. */
	if (!node->carve) {
		slab_state_set(slab, 0, state_make(cache->objects, STATE_FROZEN));
		node->carve = slab;
	} else {
		slab_state_set(slab, 0, state_make(cache->objects, STATE_LISTED));
		partial_add(node, slab, true);
	}
	lock_release(&node->lock);
	slab_tell(cache);
	return true;
}

/*
 * A refill takes the free objects of so many slabs at the most.  It tries longer only as
 * long as it has none: other threads may be quicker to carve the slab that it has added.
 */
#define REFILL_SLABS_MAX 8
void *node_refill(struct slub_cache *cache, struct cache_node *node,
		  uint32_t *nr)
{
	uint32_t wanted = refill_wanted(cache);
	void *chain = NULL;
	uint32_t have = 0;

	for (int i = 0; (i < REFILL_SLABS_MAX || !chain) && have < wanted; i++) {
		bool carved = false;
		uint32_t n = 0;
		void *more = chain_head(cache, refill_once(cache, node, &n, &carved));

		if (!more && !chain) {
			/* These counted as in use all the time. */
			more = local_over(cache, node, wanted, nr);
			if (more)
				return more;
		}
		if (!more) {
			if (chain || !node_grow(cache, node))
				break;
			continue;
		}
		/* The new chain goes in front: appending walks it, and it is short. */
		if (chain && n < wanted) {
			if (!chain_append(cache, more, n, chain))
				break;
			chain = more;
		} else if (chain) {
			if (!chain_append(cache, chain, have, more)) {
				chain = NULL;
				break;
			}
		} else {
			chain = more;
		}
		have += n;
		/* Carving touches memory, so what it gave is enough. */
		if (carved)
			break;
	}
	*nr = have;
	stat_add_many(cache, STAT_OBJECTS_OUT, have);
	slab_tell(cache);
	return chain;
}

/* ---- free ---- */

/* The fate of a slab that gets objects back. */
struct fate {
	bool lists;	/* it enters the partial list */
	bool empties;	/* its last object came back */
	bool discards;	/* and it goes back to the page layer */
};

static struct fate slab_fate(struct slub_cache *cache, struct cache_node *node,
			     struct double_word old, uint32_t nr)
{
	bool is_full = !(old.second & (STATE_FROZEN | STATE_LISTED));
	struct fate fate;

	fate.empties = state_inuse(old) == nr &&
		       !(old.second & STATE_FROZEN);
	/* Does the partial list keep enough without it?  A guess until the lock is held. */
	fate.discards = fate.empties &&
			__atomic_load_n(&node->nr_partial, __ATOMIC_RELAXED) >=
				cache->min_partial + !is_full;
	fate.lists = is_full && !fate.discards;
	return fate;
}

static void free_objects(struct slub_cache *cache, struct page *slab, void *head, void *tail,
			 uint32_t nr, bool is_ended)
{
	struct cache_node *node = cache->nodes[page_node(slab)];
	struct double_word old = slab_read(slab), new;
	bool locked = false;
	struct fate fate;

	for (;;) {
		/* An object counts as in use until it is back: one of these came twice. */
		if (SLUB_CONFIG_CHECKS && unlikely(state_inuse(old) < nr)) {
			if (locked)
				lock_release(&node->lock);
			suspect_count(cache, head);
			return;
		}
		fate = slab_fate(cache, node, old, nr);
		if ((fate.lists || fate.empties) && !locked) {
			inject(INJECT_fate);
			lock_acquire(&node->lock);
			locked = true;
			old = slab_read(slab);
			continue;
		}
		/* Else the tail, which may be in no cache, leads there. */
		if (old.first || !is_ended)
			chain_set_next(cache, tail, (void *)old.first);
		new.first = (uintptr_t)head;
		new.second = old.second - nr;
		if (fate.discards)
			new.second &= ~STATE_LISTED;
		else if (fate.lists)
			new.second |= STATE_LISTED;
		if (slab_update(slab, &old, new))
			break;
	}
	stat_add_many(cache, STAT_OBJECTS_BACK, nr);
	if (!locked)
		return;
	if (fate.lists)
		partial_add(node, slab, true);
	if (fate.discards) {
		if (old.second & STATE_LISTED)
			partial_remove(node, slab);
		node_count_slab(cache, node, -1);
		node->nr_carved -= slab->count;
	}
	lock_release(&node->lock);
	if (fate.lists)
		stat_add(cache, STAT_FREE_ADD_PARTIAL);
	if (!fate.discards)
		return;
	if (old.second & STATE_LISTED)
		stat_add(cache, STAT_FREE_REMOVE_PARTIAL);
	slab_discard(cache, slab);
}

void slab_free_objects(struct slub_cache *cache, struct page *slab,
		       void *head, void *tail, uint32_t nr)
{
	free_objects(cache, slab, head, tail, nr, false);
}

void slab_free_list(struct slub_cache *cache, struct page *slab, void *head, void *tail,
		    uint32_t nr)
{
	free_objects(cache, slab, head, tail, nr, true);
}
