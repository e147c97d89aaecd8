/* SPDX-License-Identifier: MIT */
/*
 * Emptying the lists and barns of caches, and when a burst of frees calls for it.
 *
 * In the worst case each object in a list pins a slab, and keeps memory that a
 * burst of frees could give back.  So the lists of all CPUs are emptied whenever
 * the page layer has given back an eighth of what is in use (2 MiB at the least,
 * 32 at the most).  (With a constant of 32 MiB, 157 MiB stayed of 1 GiB of small
 * objects that were freed in random order.)
 *
 * An ordinary free stops no other CPU for it (COLLECT_HERE): that takes membarrier, which the
 * C library's malloc never asks for, so that a sandbox may end the process for it.
 */
#include "core/slab/local.h"
#include "core/slab/switches.h"
#include "core/slab/slab_internal.h"

#include "core/base/turn.h"
#include "core/page/purge.h"

#include <errno.h>

#define GIVEN_MIN ((size_t)2 << 20)
#define GIVEN_MAX ((size_t)32 << 20)
#define GIVEN_SHARE 8
/*
 * A longer list of slabs is not searched for empty ones after a flush: all but min_partial
 * went back when they became empty.
 */
#define SEARCH_MAX 256

static size_t pages_given;	/* since the last emptying */

/* What is emptied in pieces (below). */
struct slub_cache *_Atomic slab_emptying;	/* the next one; NULL: no round is under way */
static struct turn emptier;
static uint32_t emptyings;			/* atomic: how many were begun */
static uint32_t emptied[AREAS_MAX] rarely_touched;	/* atomic: its last */
static uint32_t empty_next[AREAS_MAX] rarely_touched;	/* atomic: its next slot; 0: the first */

/*
 * A thread in slab_shrink_all() has objects in hand that are in no list and in no slab.
 * A flush would miss them and count them as allocated.  They come to their slabs: so
 * cache_flush() ends when it has seen, behind its own work, that no shrink is under way, and
 * shrinks let it in.  What a shrink that begins later takes into its hands was not in a list
 * when the flush was done.
 */
static uint32_t shrinks_begun, shrinks_over fork_writes;	/* atomic: how often */
static int32_t flushers fork_writes;				/* atomic */
/* How often a flush is waited for, and how often shrinks are: 0.1 and 1 s at the most. */
#define SHRINK_WAITS_MAX 1000
#define FLUSH_WAITS_MAX 10000

/*
 * Chains of the barns until @most objects or more went to slabs; returns how many are left of
 * @most, 0 or less: there may be more chains.
 */
static ptrdiff_t barns_flush(struct slub_cache *cache, ptrdiff_t most)
{
	for (uint32_t cid = 0; cid < percpu_areas_end() && most > 0; cid++) {
		void *chain;

		while (most > 0 && (chain = barn_take(cache, cid)))
			most -= chain_flush(cache, chain);
	}
	return most;
}

cold bool cache_empty_barns_by_one(struct slub_cache *cache)
{
	struct cache_hold pin;
	void *chain = NULL;

	/* A thread that waits for the end of shrinks comes first. */
	if (__atomic_load_n(&flushers, __ATOMIC_RELAXED) > 0 ||
	    !cache_pin_any(cache, &pin))
		return false;
	shrink_begin();
	for (uint32_t cid = 0; cid < percpu_areas_end() && !chain; cid++)
		chain = barn_take(cache, cid);
	if (chain)
		chain_flush(cache, chain);
	shrink_end();
	cache_unpin(&pin);
	return chain;
}

static uint32_t flush_lists(struct slub_cache *cache, const struct slot *lists)
{
	uint32_t nr = chain_flush(cache, lists->main.head);

	return nr + chain_flush(cache, lists->spare.head);
}

/* The lists of whatever has @slot. */
static cold uint32_t flush_any(uint32_t slot, struct slot *lists)
{
	struct slub_cache *cache;
	struct cache_hold pin;
	uint32_t nr;

	if (block_owns_slot(slot)) {
		block_free_collected(slot, lists);
		return 0;
	}
	/* The slot's cache may be ending, but for one whose objects these are. */
	if (!lists->main.head && !lists->spare.head)
		return 0;
	cache = cache_of_slot(slot);
	if (!cache)
		return 0;
	/* As in shrink_pinned(): with its last object the cache could end. */
	cache_pin_held(cache, &pin);
	nr = flush_lists(cache, lists);
	cache_unpin(&pin);
	return nr;
}

/*
 * What is taken of CPUs goes to its slabs: of @cache, which does not end, or of all, if that is
 * NULL.  Returns how many objects went.
 */
static cold uint32_t flush_collection(struct collection *taken, struct slub_cache *cache)
{
	struct local_emptied emptied = { cache, NULL };
	uint32_t nr = 0;

	taken->stopped = local_stopped;
	taken->arg = &emptied;
	while (percpu_collect(taken)) {
		inject(INJECT_collected);
		for (uint32_t i = 0; i < taken->nr_lists; i++) {
			struct slot *lists = &taken->lists[i];

			nr += cache ? flush_lists(cache, lists) :
				      flush_any(collection_slot(taken, i), lists);
		}
		local_give(&emptied);
	}
	return nr;
}

static cold void shrink_cpus(enum collect_from from)
{
	struct collection taken;
	bool is_whole = true;

	if (!percpu_collect_begin(&taken, from))
		return;
	do {
		flush_collection(&taken, NULL);
		is_whole &= taken.is_whole;
	} while (percpu_collect_more(&taken, from));
	percpu_collect_end();
	/* The kernel stops no CPU: its own local lists a thread can empty all the same. */
	for (struct slub_cache *c = is_whole ? NULL : cache_first(); c; c = cache_next(c))
		local_empty_here(c);
}

/* Returns how many slabs were looked at. */
static size_t shrink_nodes(struct slub_cache *cache, size_t search_max)
{
	size_t nr = 0;

	for (uint32_t n = 0; n < slab_nr_nodes(); n++) {
		struct cache_node *node = cache->nodes[n];
		size_t partial = __atomic_load_n(&node->nr_partial, __ATOMIC_RELAXED);

		if (partial > search_max)
			continue;
		node_shrink(cache, node);
		nr += partial;
	}
	return nr;
}

bool cache_shrink_nodes(struct slub_cache *cache)
{
	size_t nr_partial = 0;

	barns_flush(cache, PTRDIFF_MAX);
	shrink_nodes(cache, SIZE_MAX);
	for (uint32_t n = 0; n < slab_nr_nodes(); n++)
		nr_partial += __atomic_load_n(&cache->nodes[n]->nr_partial, __ATOMIC_RELAXED);
	return nr_partial;
}

/* Not for ever: a handler may have interrupted this thread's own flush. */
void shrink_lets_flushers_in(void)
{
	for (unsigned int i = 0; i < SHRINK_WAITS_MAX &&
	     __atomic_load_n(&flushers, __ATOMIC_RELAXED) > 0; i++)
		sys_wait(i);
}

void shrink_begin(void)
{
	/* seq_cst: it comes before the first list that is taken */
	__atomic_fetch_add(&shrinks_begun, 1, __ATOMIC_SEQ_CST);
}

void shrink_end(void)
{
	/* release: pairs with the acquire in nobody_shrinks() */
	__atomic_fetch_add(&shrinks_over, 1, __ATOMIC_RELEASE);
}

/*
 * A slab that was taken out of its node is not counted there any more, and its cache
 * seems to have none; so it is pinned until the slab is given back.  Else the cache
 * could be destroyed meanwhile, and what is counted then is in per-CPU memory of
 * somebody else.
 */
static void shrink_pinned(struct slub_cache *cache)
{
	struct cache_hold pin;

	if (!cache_pin_any(cache, &pin))
		return;
	barns_flush(cache, PTRDIFF_MAX);
	shrink_nodes(cache, SIZE_MAX);
	slab_sparse_look(cache);
	cache_unpin(&pin);
}

/* What frees do in pieces is done by now. */
static void emptying_is_over(void)
{
	uint32_t now = __atomic_load_n(&emptyings, __ATOMIC_RELAXED);

	for (uint32_t cid = 0; now && cid < min_size(percpu_areas_end(), AREAS_MAX); cid++) {
		if (__atomic_load_n(&emptied[cid], __ATOMIC_RELAXED) != now)
			__atomic_store_n(&emptied[cid], now, __ATOMIC_RELAXED);
	}
	__atomic_store_n(&slab_emptying, NULL, __ATOMIC_RELAXED);
	local_all_are_empty();
}

/* The lists of blocks are emptied last: slabs that become empty end there. */
void slab_shrink_all(void)
{
	uint32_t had = slub_thread.flags & THREAD_IN_RECLAIM;

	if (slub_thread.locks_held)
		return;
	if (!had)
		shrink_lets_flushers_in();
	slub_thread.flags |= THREAD_IN_RECLAIM;
	shrink_begin();
	cache_free_postponed();
	slab_shrink_begins(true);
	shrink_cpus(COLLECT_USED);
	for (struct slub_cache *c = cache_first(); c; c = cache_next(c))
		shrink_pinned(c);
	block_flush(COLLECT_USED);
	emptying_is_over();
	shrink_end();
	if (!had)
		slub_thread.flags &= ~(uint32_t)THREAD_IN_RECLAIM;
}

/* In a forked child: those that other threads had begun are over. */
usual void shrink_after_fork(void)
{
	shrinks_over = shrinks_begun;
	flushers = 0;
}

/* False: somebody may have objects in hand, of any cache; *@begun: how many. */
static bool nobody_shrinks(uint32_t *begun)
{
	/* In this order: one that is over was begun. */
	uint32_t over = __atomic_load_n(&shrinks_over, __ATOMIC_ACQUIRE);

	*begun = __atomic_load_n(&shrinks_begun, __ATOMIC_SEQ_CST);
	/* Above it: a handler that interrupted a shrink has forked. */
	return (int32_t)(*begun - over) <= 0;
}

/* Takes one slot's lists off every CPU; false: one could not be stopped. */
static bool slot_flush(struct slub_cache *cache, uint32_t slot,
		       enum collect_from from)
{
	struct slot lists[COLLECT_CPUS];
	struct collection taken = { .lists = lists,
				    .nr_lists_max = COLLECT_CPUS };

	percpu_collection_init(&taken, from, slot, 1);
	flush_collection(&taken, cache);
	return taken.is_whole;
}

/* The same with its barns, and with all of its sampled objects. */
static bool flush_once(struct slub_cache *cache)
{
	struct slub_cache *sampled = cache_shadow(cache, SHADOW_SAMPLED);
	uint32_t sample_slot = cache_sample_slot(cache);
	bool done = slot_flush(cache, cache->list_slot, COLLECT_ALL);

	if (sample_slot)
		done &= slot_flush(cache, sample_slot, COLLECT_ALL);
	barns_flush(cache, PTRDIFF_MAX);
	return sampled ? flush_once(sampled) && done : done;
}

bool cache_list_is_empty(const struct slub_cache *cache, uint32_t cid)
{
	uint32_t slot = __atomic_load_n(&cache->list_slot, __ATOMIC_RELAXED);

	return !percpu_peek(cid, slot) && !percpu_peek(cid, slot + SLOT_SPARE);
}

void cache_empty_lists(struct slub_cache *cache)
{
	slot_flush(cache, cache->list_slot, COLLECT_LISTS);
}

static bool slab_is_empty(struct page *slab)
{
	return state_inuse(slab_read(slab)) == 0;
}

/*
 * Takes an empty slab out of the node; NULL: there is none.  Under the lock an empty
 * slab stays empty: no thread has an object of it to free, and none may carve it.
 */
static cold struct page *take_empty(struct slub_cache *cache,
			       struct cache_node *node)
{
	struct list *i;

	for (i = node->partial.next; i != &node->partial; i = i->next) {
		struct page *slab = container_of(i, struct page, list);

		if (slab_is_empty(slab)) {
			partial_remove(node, slab);
			node->nr_carved -= slab->count;
			node_count_slab(cache, node, -1);
			return slab;
		}
	}
	if (node->carve && slab_is_empty(node->carve)) {
		struct page *slab = node->carve;

		node->carve = NULL;
		node->nr_carved -= slab->count;
		node_count_slab(cache, node, -1);
		return slab;
	}
	return NULL;
}

cold void node_shrink(struct slub_cache *cache, struct cache_node *node)
{
	struct page *slab;

	do {
		lock_acquire(&node->lock);
		slab = take_empty(cache, node);
		lock_release(&node->lock);
		if (slab)
			slab_discard(cache, slab);
	} while (slab);
}

/* ---- on the way of ordinary calls: no CPU is stopped ---- */

bool cache_empty(struct slub_cache *cache)
{
	/* A thread that waits for the end of shrinks comes first. */
	if (__atomic_load_n(&flushers, __ATOMIC_RELAXED) > 0)
		return false;
	shrink_begin();
	slot_flush(cache, cache->list_slot, COLLECT_HERE);
	barns_flush(cache, PURGE_OBJECTS);
	shrink_nodes(cache, SEARCH_MAX);
	shrink_end();
	return true;
}

/* Until nobody has objects in hand; false: it takes longer than @waits waits. */
static bool wait_for_shrinks(unsigned int waits)
{
	uint32_t begun;

	for (unsigned int i = 0; !nobody_shrinks(&begun); i++) {
		if (i == waits)
			return false;
		sys_wait(i);
	}
	return true;
}

bool shrinks_are_over(void)
{
	uint32_t begun;

	return nobody_shrinks(&begun);
}

void shrinks_wait(void)
{
	__atomic_fetch_add(&flushers, 1, __ATOMIC_RELAXED);
	wait_for_shrinks(SHRINK_WAITS_MAX);
	__atomic_fetch_sub(&flushers, 1, __ATOMIC_RELAXED);
}

bool cache_flush(struct slub_cache *cache)
{
	struct cache_hold pin;
	bool done;

	cache_pin_held(cache, &pin);
	done = cache_flush_shut(cache);
	cache_unpin(&pin);
	return done;
}

cold bool cache_flush_shut(struct slub_cache *cache)
{
	bool done;

	cache_free_postponed();
	/* A shrink does not wait for itself. */
	if (slub_thread.flags & THREAD_IN_RECLAIM)
		return flush_once(cache);
	__atomic_fetch_add(&flushers, 1, __ATOMIC_RELAXED);
	done = flush_once(cache) && wait_for_shrinks(FLUSH_WAITS_MAX);
	__atomic_fetch_sub(&flushers, 1, __ATOMIC_RELAXED);
	return done;
}

cold int cache_flush_now(struct slub_cache *cache)
{
	struct cache_hold pin;
	uint32_t before, after;
	bool done;

	cache_free_postponed();
	if (!nobody_shrinks(&before))
		return -EAGAIN;
	cache_pin_held(cache, &pin);
	done = flush_once(cache);
	cache_unpin(&pin);
	if (!done)
		return -EIO;
	return nobody_shrinks(&after) && before == after ? 0 : -EAGAIN;
}

bool cache_has_slabs(const struct slub_cache *cache)
{
	for (uint32_t n = 0; n < slab_nr_nodes(); n++) {
		/* acquire: before the look at pins in slabs_give() */
		if (__atomic_load_n(&cache->nodes[n]->nr_slabs,
				    __ATOMIC_ACQUIRE))
			return true;
	}
	return false;
}

/*
 * The lists of all CPUs and all barns are emptied in pieces: a slow path of a free gives about
 * PURGE_OBJECTS to slabs, the rest is left to the next one.  What counts: each object that goes
 * to its slab, each slab that is looked at, each list and barn, and each page that this call has
 * given back already.  A chain is not cut, so one more may come to it.
 *
 * Each CPU empties its own lists: the one whose thread comes here first at once, the others
 * when a thread of theirs next retires a list.  One that runs nothing of the process keeps what
 * is in its lists, until a trim or the like stops it.  Barns and nodes are gone over by whoever
 * comes by, one thread at a time, a cache after the other.
 */
static bool is_asked_to_empty(void)
{
	uint32_t now = __atomic_load_n(&emptyings, __ATOMIC_RELAXED), cid;

	if (likely(!now))
		return false;
	cid = percpu_here();
	return cid < AREAS_MAX && unlikely(__atomic_load_n(&emptied[cid], __ATOMIC_RELAXED) != now);
}

/* The lists of one slot. */
static uint32_t empty_slot(uint32_t slot)
{
	struct slot lists[COLLECT_CPUS];
	struct collection taken = { .lists = lists,
				    .nr_lists_max = COLLECT_CPUS };

	percpu_collection_init(&taken, COLLECT_HERE, slot, 1);
	return flush_collection(&taken, NULL);
}

/* Those of this CPU. */
static void empty_slots(ptrdiff_t *most)
{
	uint32_t now = __atomic_load_n(&emptyings, __ATOMIC_RELAXED);
	uint32_t cid = percpu_here(), n;

	if (cid >= AREAS_MAX)
		return;
	n = __atomic_load_n(&empty_next[cid], __ATOMIC_RELAXED);
	for (n = n ? n : percpu_next_number(0); n && *most > 0; n = percpu_next_number(n))
		*most -= 1 + (ptrdiff_t)empty_slot(entry_slot(numbered_entry(n)));
	__atomic_store_n(&empty_next[cid], n, __ATOMIC_RELAXED);
	if (!n)
		__atomic_store_n(&emptied[cid], now, __ATOMIC_RELAXED);
}

/* False: its barns have more. */
static bool empty_cache(struct slub_cache *cache, ptrdiff_t *most)
{
	struct cache_hold pin;

	--*most;
	if (!cache_pin_any(cache, &pin))
		return true;
	if (__atomic_load_n(&cache->in_barns, __ATOMIC_RELAXED))
		*most = barns_flush(cache, *most - (ptrdiff_t)percpu_areas_end());
	if (*most > 0) {
		*most -= (ptrdiff_t)shrink_nodes(cache, SEARCH_MAX);
		slab_sparse_look(cache);
	} else {
		cache = NULL;
	}
	cache_unpin(&pin);
	return cache;
}

/* The lists of blocks are emptied last: slabs that become empty end there. */
static void empty_caches(ptrdiff_t *most)
{
	struct slub_cache *cache = __atomic_load_n(&slab_emptying, __ATOMIC_RELAXED);

	if (!cache || *most <= 0 || !turn_try(&emptier))
		return;
	while (cache && *most > 0 && empty_cache(cache, most))
		cache = cache_next(cache);
	__atomic_store_n(&slab_emptying, cache, __ATOMIC_RELAXED);
	turn_end(&emptier);
	if (!cache)
		block_flush(COLLECT_HERE);
}

static cold void empty_some(ptrdiff_t most)
{
	/* A thread that waits for the end of shrinks comes first. */
	if (slub_thread.locks_held || slub_thread.flags & THREAD_IN_RECLAIM ||
	    __atomic_load_n(&flushers, __ATOMIC_RELAXED) > 0)
		return;
	slub_thread.flags |= THREAD_IN_RECLAIM;
	shrink_begin();
	if (is_asked_to_empty())
		empty_slots(&most);
	empty_caches(&most);
	if (local_is_to_empty())
		local_empty_some(&most);
	shrink_end();
	slub_thread.flags &= ~(uint32_t)THREAD_IN_RECLAIM;
}

/* @pages went back: it is time to empty lists when they are many. */
static cold void empty_if_due(size_t pages)
{
	size_t enough = page_used_bytes() / GIVEN_SHARE;

	enough = max_size(min_size(enough, GIVEN_MAX), GIVEN_MIN);
	pages = __atomic_add_fetch(&pages_given, pages, __ATOMIC_RELAXED);
	if (pages * PAGE_BYTES < enough || slub_thread.locks_held)
		return;
	__atomic_store_n(&pages_given, 0, __ATOMIC_RELAXED);
	cache_free_postponed();
	slab_shrink_begins(false);
	__atomic_fetch_add(&emptyings, 1, __ATOMIC_RELAXED);
	if (!slab_is_emptying())
		__atomic_store_n(&slab_emptying, cache_first(), __ATOMIC_RELAXED);
}

usual void slab_reclaim_if_needed(void)
{
	size_t pages = page_purge_if_needed();

	if (unlikely(pages))
		empty_if_due(pages);
	if (unlikely(is_asked_to_empty()) || slab_is_emptying() || local_is_to_empty())
		empty_some((ptrdiff_t)PURGE_OBJECTS - (ptrdiff_t)min_size(pages, PURGE_OBJECTS));
	/* A program that calls seldom comes by with its next malloc(); page_purge_visit(). */
	if (slab_is_emptying() || local_waits())
		slub_thread.malloc_limit = 0;
}

usual void slab_visit(enum page_visit visit)
{
	if (visit == VISIT_QUIET)
		local_tick();
	if (visit >= VISIT_NOW)
		slab_reclaim_if_needed();
	else if (visit == VISIT_LATER &&
		 (page_has_too_much() || slab_is_emptying() || local_waits()))
		slub_thread.malloc_limit = 0;
}
