/* SPDX-License-Identifier: MIT */
/*
 * Free pages of slabs that are partly in use are held memory: the budget counts them
 * (core/page/budget.c), and has them given back when they are too much.
 *
 * Nobody counts them.  A cache knows how many of its objects are free in slabs, from what it
 * counts anyway, and how many slabs these lie in.  If they lie there at random, a certain
 * share of the pages has no other objects.  Programs free neighbours together more often, so
 * the estimate is an eighth of the free bytes at the least.  A purge learns the truth, slab by
 * slab: pages that it did not find are not promised again (sparse_seen), until more objects
 * are free.
 *
 * The cache whose slabs promise most for a look comes first: the emptiest one.  Its partial
 * list goes round, from the front: there stand the slabs that have been on it for the longest
 * time.  So a round looks at each slab once, a call goes on where the last one ended, and no
 * call walks over all slabs.  A round ends early if the first slabs do not have the promised
 * pages.  A purge is a part of the call that core/page/budget.c bounds.
 *
 * holes.c gives the pages of a slab back, and says how the slab takes them again, page by page.
 * The budget regrets pages that are taken again soon: a program that fills and empties its
 * slabs keeps them from the second time on.
 *
 * Locks: node->lock, while slabs are isolated and put back.
 */
#include "core/page/purge.h"
#include "core/slab/slab_internal.h"
#include "features/movable/movable.h"
#include "features/idle/idle.h"

/* Of free bytes one part in so many may be whole pages, however few objects are free. */
#define FREE_SHARE 8
/*
 * To look at a slab is to follow its freelist, at a miss for most objects.  So many objects
 * may be looked at for each page that goes back.
 */
#define WORTH_OBJECTS 128
/*
 * A program that is just freeing may free the whole slab, and then the look was in vain.  So a
 * cache has to be at rest: the longer, the more objects lie on a page; and several times as
 * long as the latest pauses between its chains, where these come often.  Objects of a page or
 * more need no rest: their links lie side by side in the descriptors.
 */
#define REST_NS 250000u
#define PAUSES 8
#define PAUSE_MAX_NS 5000000u
/* If none is at rest, nobody looks again for so long. */
#define ASK_AGAIN_NS 1000000u
/*
 * What one call may do: no round for fewer pages, a round is judged after so many slabs, and one
 * hold of the lock passes over no more.
 */
#define LOOKS PURGE_CALLS
/* Of a slab's objects one part in so many has to be free. */
#define SPARSE_SHARE 4
/* It is looked at again when a part of a page more is free: one in so many. */
#define CHANGED_SHARE 4
/* A cache looks at itself when as much came back as makes so much of the budget. */
#define STEP_SHARE 16
#define STEP_BYTES ((size_t)256 << 10)

/* The round that a purge is at; changed by one thread at a time, the purger. */
static struct round {
	struct slub_cache *cache;
	size_t tried;		/* slabs, since it was judged */
	size_t found;		/* pages in them */
} current;

static bool may_be_sparse(const struct slub_cache *cache)
{
	return cache->stats && !cache->is_reserve && cache_bytes_may_go(cache);
}

static uint32_t objects_per_page(const struct slub_cache *cache)
{
	return (uint32_t)(PAGE_BYTES / cache->size + (PAGE_BYTES % cache->size != 0));
}

/* ---- is it at rest? ---- */

static uint32_t objects_moved(const struct slub_cache *cache)
{
	return (uint32_t)slub_percpu_sum32(cache->stats + 4 * STAT_OBJECTS_OUT) +
	       (uint32_t)slub_percpu_sum32(cache->stats + 4 * STAT_OBJECTS_BACK);
}

/*
 * A clock that stands still while nobody looks, for a process that waits for a CPU is not at
 * rest.  A time that two threads add at once is added once.
 */
static uint64_t watched_ns(uint64_t now)
{
	static _Atomic uint64_t last_ns, sum_ns;
	uint64_t last = __atomic_exchange_n(&last_ns, now, __ATOMIC_RELAXED);
	uint64_t sum = __atomic_load_n(&sum_ns, __ATOMIC_RELAXED);

	if (now > last)
		sum += min_size(now - last, PAUSE_MAX_NS);
	__atomic_store_n(&sum_ns, sum, __ATOMIC_RELAXED);
	return sum;
}

/* Notes at @now whether objects of @cache went to or from slabs since the last look. */
static void note_moves(struct slub_cache *cache, uint64_t now)
{
	uint32_t moved = objects_moved(cache);
	uint64_t pause = now - __atomic_load_n(&cache->sparse_moved_ns, __ATOMIC_RELAXED);
	uint32_t before = __atomic_load_n(&cache->sparse_pause_ns, __ATOMIC_RELAXED);

	if (moved == __atomic_load_n(&cache->sparse_moved, __ATOMIC_RELAXED))
		return;
	pause = max_size(min_size(pause, PAUSE_MAX_NS), before / 2);
	__atomic_store_n(&cache->sparse_moved, moved, __ATOMIC_RELAXED);
	__atomic_store_n(&cache->sparse_moved_ns, now, __ATOMIC_RELAXED);
	__atomic_store_n(&cache->sparse_pause_ns, (uint32_t)pause, __ATOMIC_RELAXED);
}

static bool is_at_rest(struct slub_cache *cache, uint64_t now)
{
	uint64_t rest = objects_per_page(cache) * REST_NS;

	if (!link_is_in_object(cache->link))
		return true;
	note_moves(cache, now);
	rest = max_size(rest, PAUSES * (uint64_t)__atomic_load_n(&cache->sparse_pause_ns,
								 __ATOMIC_RELAXED));
	return now - __atomic_load_n(&cache->sparse_moved_ns, __ATOMIC_RELAXED) >= rest;
}

/* ---- the account ---- */

/* What lies in partial slabs, as of a moment ago. */
struct fill {
	size_t slabs;
	size_t carved;		/* objects */
	size_t free;		/* of these, in the slabs */
};

static size_t out_of_slabs(const struct slub_cache *cache)
{
	return (uint32_t)slub_percpu_sum32(cache->stats + 4 * STAT_OBJECTS_OUT) -
	       (uint32_t)slub_percpu_sum32(cache->stats + 4 * STAT_OBJECTS_BACK);
}

static struct fill fill_of(struct slub_cache *cache)
{
	size_t carved = 0, full = 0, out = out_of_slabs(cache);
	struct fill fill = { 0, 0, 0 };

	for (uint32_t n = 0; n < slab_nr_nodes(); n++) {
		struct cache_node *node = cache->nodes[n];

		lock_acquire(&node->lock);
		carved += node->nr_carved;
		fill.slabs += node->nr_partial;
		full += node->nr_slabs - node->nr_partial - (node->carve != NULL);
		lock_release(&node->lock);
	}
	fill.free = carved - min_size(out, carved);
	full *= cache->objects;
	fill.carved = max_size(carved - min_size(full, carved), fill.free);
	return fill;
}

static size_t in_pages(const struct slub_cache *cache, size_t objects)
{
	return objects * cache->size / PAGE_BYTES;
}

#define SHARE_SHIFT 16

/* @share, in 2^16ths, to the power of @n. */
static uint64_t power(uint64_t share, uint32_t n)
{
	uint64_t result = 1ul << SHARE_SHIFT;

	for (; n; n >>= 1) {
		if (n & 1)
			result = result * share >> SHARE_SHIFT;
		share = share * share >> SHARE_SHIFT;
	}
	return result;
}

/* Pages that are free as a whole, if each object is free or not by chance. */
static size_t pages_by_chance(const struct slub_cache *cache, const struct fill *fill)
{
	uint64_t share = ((uint64_t)fill->free << SHARE_SHIFT) / max_size(fill->carved, 1);

	return in_pages(cache, fill->carved) * power(share, objects_per_page(cache)) >> SHARE_SHIFT;
}

static size_t expected(const struct slub_cache *cache, const struct fill *fill)
{
	size_t pages = in_pages(cache, fill->free), gone;

	if (!fill->slabs)
		return 0;
	if (link_is_in_object(cache->link))
		return max_size(pages_by_chance(cache, fill), pages / FREE_SHARE);
	gone = size_read(&cache->sparse_purged);
	return pages - min_size(gone, pages);
}

/* The purger puts right what is lost between the two. */
static void count_set(struct slub_cache *cache, size_t pages)
{
	size_t before = __atomic_exchange_n(&cache->sparse_pages, pages, __ATOMIC_RELAXED);

	__atomic_fetch_add(&page_nr_sparse, pages - before, __ATOMIC_RELAXED);
}

static void count_less(struct slub_cache *cache, size_t pages)
{
	size_t before = size_read(&cache->sparse_pages);

	count_set(cache, before - min_size(before, pages));
}

/* What is promised, less what a look has not found. */
static void update(struct slub_cache *cache)
{
	struct fill fill = fill_of(cache);
	size_t pages = expected(cache, &fill), promised;
	size_t seen = min_size(size_read(&cache->sparse_seen), pages);

	note_moves(cache, watched_ns(purge_clock_ns()));
	size_write(&cache->sparse_seen, seen);
	promised = pages;
	pages -= seen;
	if (pages < max_size(fill.carved / WORTH_OBJECTS, LOOKS)) {
		size_write(&cache->sparse_left, 0);
		pages = 0;
	} else if (!size_read(&cache->sparse_left)) {
		/* A round begins. */
		size_write(&cache->sparse_promised, promised);
		size_write(&cache->sparse_left, fill.slabs);
	}
	count_set(cache, pages);
}

/* One more in each look: what other ways than its own frees gave back a cache has not seen. */
static cold void update_next(void)
{
	static struct slub_cache *last;		/* atomic */
	struct slub_cache *cache = __atomic_load_n(&last, __ATOMIC_RELAXED);
	struct cache_hold pin;

	cache = cache ? cache_next(cache) : NULL;
	if (!cache)
		cache = cache_first();
	__atomic_store_n(&last, cache, __ATOMIC_RELAXED);
	if (!cache_pin_any(cache, &pin))
		return;
	if (may_be_sparse(cache))
		update(cache);
	cache_unpin(&pin);
}

void slab_sparse_look(struct slub_cache *cache)
{
	if (may_be_sparse(cache))
		update(cache);
}

size_t sparse_look(struct slub_cache *cache)
{
	update_next();
	if (!may_be_sparse(cache))
		return SIZE_MAX;
	update(cache);
	return max_size(page_budget() / STEP_SHARE, STEP_BYTES) / cache->size;
}

/* The round is over: what was promised when it began, and was not found, is not there. */
static cold void round_end(struct slub_cache *cache)
{
	size_write(&cache->sparse_seen, size_read(&cache->sparse_promised));
	size_write(&cache->sparse_left, 0);
	update(cache);
}

/* ---- the purge ---- */


static uint32_t nr_free(struct page *slab)
{
	return slab->count - state_inuse(counters_of(slab));
}

/* Has it so many free objects that have memory?  Not what a look has seen as it is. */
static bool is_worth_it(const struct slub_cache *cache, struct page *slab)
{
	uint32_t free = nr_free(slab), looked = *page_looked(slab);

	if (free == slab->count || free < slab->count / SPARSE_SHARE ||
	    (free >= looked && in_pages(cache, (free - looked) * CHANGED_SHARE) == 0))
		return false;
	return in_pages(cache, free) > (link_is_in_object(cache->link) ? 0 : slab->nr_purged);
}

/*
 * Isolates the first slab of @node that is worth it; *@looked: and how many, of @most at the
 * most, were looked at for that.  NULL: there is none.
 */
static cold struct page *isolate(struct slub_cache *cache, struct cache_node *node, size_t most,
				 size_t *looked)
{
	struct page *found = NULL;

	lock_acquire(&node->lock);
	if (unlikely(node_has_raw(node)))
		most = 0;
	most = min_size(min_size(most, LOOKS), node->nr_partial);
	for (*looked = 0; *looked < most && !found; ++*looked) {
		struct page *slab = container_of(node->partial.next, struct page, list);

		if (is_worth_it(cache, slab)) {
			slab_isolate(node, slab);
			found = slab;
		} else {
			partial_remove(node, slab);
			partial_add(node, slab, true);
		}
	}
	lock_release(&node->lock);
	return found;
}

/* One slab of @node; returns how many pages went back. */
static cold size_t purge_one(struct slub_cache *cache, struct cache_node *node, size_t most,
			size_t *looked, struct purge *purge)
{
	struct page *slab = isolate(cache, node, most, looked);
	size_t pages;

	inject(INJECT_isolate);
	if (!slab)
		return 0;
	pages = slab_purge_free(cache, slab, purge);
	*page_looked(slab) = nr_free(slab);
	current.tried++;
	current.found += pages;
	slab_put_back(cache, node, slab, true);
	return pages;
}

/* After some slabs: has it found so few pages that the others are not worth a look? */
static bool is_in_vain(const struct slub_cache *cache)
{
	bool is_poor = current.found < current.tried * cache->objects / WORTH_OBJECTS;

	if (current.tried < LOOKS)
		return false;
	current.tried = current.found = 0;
	return is_poor;
}

/* Goes on with the round of @cache; returns how many pages went back. */
static cold size_t go_round(struct slub_cache *cache, size_t pages, struct purge *purge)
{
	size_t left = size_read(&cache->sparse_left), found = 0, promised;
	uint32_t at = 0;

	while (left && found < pages && purge_may(purge)) {
		size_t looked, n = 0;

		for (; at < slab_nr_nodes(); at++) {
			n = purge_one(cache, cache->nodes[at], left, &looked, purge);
			if (looked)
				break;
		}
		left = at < slab_nr_nodes() ? left - looked : 0;
		found += n;
		size_write(&cache->sparse_left, left);
		purge_tick(purge);
		if (is_in_vain(cache))
			left = 0;
	}
	promised = size_read(&cache->sparse_promised);
	size_write(&cache->sparse_promised, promised - min_size(found, promised));
	/* These moves are its own. */
	if (link_is_in_object(cache->link))
		__atomic_store_n(&cache->sparse_moved, objects_moved(cache), __ATOMIC_RELAXED);
	if (left)
		count_less(cache, found);
	else
		round_end(cache);
	return found;
}

/* Under a pin: before it the cache could become another one. */
static cold size_t purge_cache(struct slub_cache *cache, size_t pages, struct purge *purge)
{
	struct cache_hold pin;
	size_t found = 0;

	if (movers_enter(cache, &pin, false)) {
		count_set(cache, 0);
		return 0;
	}
	shrink_begin();
	if (may_be_sparse(cache))
		found = go_round(cache, pages, purge);
	else
		count_set(cache, 0);
	shrink_end();
	movers_leave(&pin);
	return found;
}

/*
 * The cache with most to find for a look, of those at rest; what all have is put right.
 * NULL: none has.
 */
static cold struct slub_cache *emptiest(uint64_t now)
{
	struct slub_cache *best = NULL;
	size_t most = 0, sum = 0;

	for (struct slub_cache *c = cache_first(); c; c = cache_next(c)) {
		size_t pages = size_read(&c->sparse_pages), each;

		if (!pages)
			continue;
		sum += pages;
		each = (pages << SHARE_SHIFT) /
		       max_size(size_read(&c->sparse_left) << c->order, 1);
		if ((best && each <= most) || !is_at_rest(c, now))
			continue;
		best = c;
		most = each;
	}
	size_write(&page_nr_sparse, sum);
	return best;
}

cold size_t sparse_purge(size_t pages, struct purge *purge)
{
	size_t found = 0;

	while (found < pages && purge_may(purge)) {
		struct slub_cache *cache = current.cache;

		uint64_t now = watched_ns(purge->now);

		if (!cache || !size_read(&cache->sparse_pages) || !is_at_rest(cache, now)) {
			cache = emptiest(now);
			current = (struct round){ cache, 0, 0 };
		}
		if (!cache) {
			__atomic_store_n(&page_sparse_wait_ns, os_clock_ns() + ASK_AGAIN_NS,
					 __ATOMIC_RELAXED);
			break;
		}
		found += purge_cache(cache, pages - found, purge);
	}
	return found;
}
