/* SPDX-License-Identifier: MIT */
/*
 * Caches that a program has left: lists and barns of such a cache pin its slabs.
 *
 * First, caches with half or more of what is in no slab free in lists and barns: the
 * program allocates other sizes now.  They are emptied before the heap takes another
 * superblock for a slab or a large block, until as much came back.  Texts that grow by realloc
 * pass through ten classes, and each kept all of its blocks.  Neither kept large blocks nor all
 * lists are emptied: that gave nothing more, and took page faults.
 *
 * Second, a cache that a program is done with for now: what it uses of it has fallen by a
 * quarter, and more of its slabs lies free than a size may hold.  Its own frees look, once
 * as many objects have gone to slabs as could make that true.  After frees in random order
 * each slab has an object in some list, so no page goes back, and nothing else empties the
 * lists.  It does not replace shrink.c's emptying of all caches.
 *
 * docs/notes.md ("Memory") has the figures, and those of other bounds.
 *
 * Counts are those of a moment ago, so a cache may be emptied that is in use; it refills.
 * No lock is held over more than one cache.
 */
#include "core/slab/local.h"
#include "core/slab/slab_internal.h"
#include "features/idle/idle.h"

/*
 * Of one cache, for each CPU: eight page faults for a stop of the CPU.  With 32 KiB
 * at the least json took 120 faults more.
 */
#define LEFT_BYTES ((size_t)32 << 10)
#define LEFT_BYTES_MIN ((size_t)64 << 10)
/* Of what is in no slab one part in so many may be in use. */
#define USED_SHARE 2
/* What is used has to fall by one part in so many from the most since the last time. */
#define FALLEN_SHARE 4
/* What one size may hold of the budget; a list's bound in capacity_fit() is the same. */
#define SIZES_SHARE 16
/* Lists begin anew where their end brought back more than one slab in so many. */
#define WORTH_SHARE 8
/* A large heap looks each time it has grown by so much. */
#define GROWN_SHARE 16
/* A heap that is smaller does not look. */
#define SUPERBLOCKS_MIN 2

/* Objects in the lists of one CPU. */
static size_t slot_nr_cached(const struct slub_cache *cache,
			     const struct slot *slot)
{
	size_t nr = 0;

	if (__atomic_load_n(&slot->main.head, __ATOMIC_RELAXED))
		nr = slot_main_nr(slot, capacity_now(cache));
	if (__atomic_load_n(&slot->spare.head, __ATOMIC_RELAXED))
		nr += slot_spare_nr(slot, chain_length(cache));
	return nr;
}

cold size_t cache_nr_in_lists(const struct slub_cache *cache)
{
	uint32_t offset = __atomic_load_n(&cache->list_slot, __ATOMIC_RELAXED);
	size_t nr = 0;

	for (uint32_t cid = 0; cid < percpu_areas_end(); cid++) {
		char *area = percpu_area(cid);

		if (area)
			nr += slot_nr_cached(cache, (struct slot *)
					     (area + offset));
	}
	return nr + __atomic_load_n(&cache->in_barns, __ATOMIC_RELAXED);
}

usual size_t cache_nr_cached(const struct slub_cache *cache)
{
	return cache_nr_in_lists(cache) + local_nr(cache);
}

static size_t nr_carved(struct slub_cache *cache)
{
	size_t nr = 0;

	for (uint32_t n = 0; n < slab_nr_nodes(); n++) {
		struct cache_node *node = cache->nodes[n];

		lock_acquire(&node->lock);
		nr += node->nr_carved;
		lock_release(&node->lock);
	}
	return nr;
}

/* Objects that are in no slab: in use, or in lists and barns. */
static size_t nr_out(const struct slub_cache *cache)
{
	uint32_t stats = cache->stats;

	return (uint32_t)slub_percpu_sum32(stats + 4 * STAT_OBJECTS_OUT) -
	       (uint32_t)slub_percpu_sum32(stats + 4 * STAT_OBJECTS_BACK);
}

/* Of @cache: what is carved, what is in no slab, and how much of that in lists and barns. */
struct objects {
	size_t carved, out, cached;
};

static struct objects objects_of(struct slub_cache *cache)
{
	size_t carved = nr_carved(cache);
	size_t out = min_size(nr_out(cache), carved);

	return (struct objects){
		carved, out, min_size(cache_nr_in_lists(cache), out)
	};
}

static bool may_be_left(const struct slub_cache *cache)
{
	return !cache->is_reserve && cache->stats;
}

/* Bytes that may come back of @cache; 0: it is not worth it. */
static size_t left_bytes(struct slub_cache *cache)
{
	struct objects nr;
	size_t bytes;

	if (!may_be_left(cache))
		return 0;
	nr = objects_of(cache);
	bytes = nr.carved * cache->size;
	if (bytes < max_size(LEFT_BYTES * percpu_areas_end(), LEFT_BYTES_MIN))
		return 0;
	return nr.cached >= nr.out - nr.out / USED_SHARE ? bytes : 0;
}

static size_t empty_if_left(struct slub_cache *cache)
{
	struct cache_hold pin;
	size_t bytes;

	if (!cache_pin_any(cache, &pin))
		return 0;
	bytes = left_bytes(cache);
	if (bytes && !cache_empty(cache))
		bytes = 0;
	cache_unpin(&pin);
	return bytes;
}

/*
 * Has the heap grown, or fallen, since somebody looked?  The first superblocks are no
 * reason: the look at all caches alone made 30 KiB of code resident.
 */
static usual bool is_due(size_t superblocks)
{
	static _Atomic size_t looked_at;
	size_t then = __atomic_load_n(&looked_at, __ATOMIC_RELAXED);

	if (superblocks < SUPERBLOCKS_MIN)
		return false;
	if (superblocks >= then && superblocks - then < then / GROWN_SHARE)
		return false;
	__atomic_store_n(&looked_at, superblocks, __ATOMIC_RELAXED);
	return true;
}

usual void slab_empty_left(void)
{
	size_t superblocks = superblock_nr_used(), bytes = 0, enough;

	if (slub_thread.locks_held || slub_thread.flags & THREAD_IN_RECLAIM ||
	    !is_due(superblocks))
		return;
	enough = max_size(superblocks / GROWN_SHARE, 1) * SUPERBLOCK_BYTES;
	slub_thread.flags |= THREAD_IN_RECLAIM;
	for (struct slub_cache *c = cache_first(); c && bytes < enough;
	     c = cache_next(c))
		bytes += empty_if_left(c);
	if (bytes)
		block_flush(COLLECT_HERE);
	slub_thread.flags &= ~(uint32_t)THREAD_IN_RECLAIM;
}

/* Lists and barns of @cache, and how long lists may be. */
static void empty_now(struct slub_cache *cache, size_t carved)
{
	size_t now;

	slub_thread.flags |= THREAD_IN_RECLAIM;
	cache_empty(cache);
	slub_thread.flags &= ~(uint32_t)THREAD_IN_RECLAIM;
	now = nr_carved(cache);
	if (carved - min_size(now, carved) > carved / WORTH_SHARE)
		capacity_restart(cache);
}

/*
 * Returns how many objects have to come back before it is worth another look: half of what
 * is missing, for allocations may come between and @left_in counts frees alone.
 */
static size_t look(struct slub_cache *cache)
{
	struct objects nr = objects_of(cache);
	size_t used = nr.out - nr.cached, idle = nr.carved - used;
	size_t most = max_size(used, size_read(&cache->left_most));
	size_t enough = most - most / FALLEN_SHARE;
	size_t allowed = page_budget() / SIZES_SHARE / cache->size;

	if (used > enough || idle <= allowed) {
		size_write(&cache->left_most, most);
		return max_size(used - min_size(used, enough),
				allowed - min_size(allowed, idle)) / 2;
	}
	empty_now(cache, nr.carved);
	size_write(&cache->left_most, used);
	return used / FALLEN_SHARE / 2;
}

void slab_left_look(struct slub_cache *cache)
{
	size_t left_in = UINT32_MAX;

	if (slub_thread.locks_held || slub_thread.flags & THREAD_IN_RECLAIM)
		return;
	if (may_be_left(cache)) {
		left_in = min_size(look(cache), UINT32_MAX);
		left_in = min_size(sparse_look(cache), left_in);
	}
	__atomic_store_n(&cache->left_in, (uint32_t)left_in, __ATOMIC_RELAXED);
}
