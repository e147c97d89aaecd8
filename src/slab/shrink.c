/* SPDX-License-Identifier: MIT */
/*
 * Emptying what the caches hold back, and when a burst of frees calls for it.
 *
 * A list of one CPU pins a slab per object in the worst case, and so keeps
 * memory that a burst of frees could give back: so whenever the page layer has
 * given back an eighth of what is in use (2 MiB at the least, 32 at the most),
 * the lists of all CPUs are emptied too.  (1 GiB of small objects freed in
 * random order: 157 MiB stayed with a constant of 32 MiB.)
 */
#include "slab/slab_internal.h"

#define GIVEN_MIN ((size_t)2 << 20)
#define GIVEN_MAX ((size_t)32 << 20)
#define GIVEN_SHARE 8

static _Atomic size_t pages_given;	/* since the last emptying */

static void flush_chains(struct slub_cache *cache, void *chains)
{
	while (chains) {
		void *next = *chain_next(cache, chains);

		chain_flush(cache, chains);
		chains = next;
	}
}

static void flush_collected(uint32_t slot, struct slot *lists)
{
	struct slub_cache *cache;

	if (block_owns_slot(slot)) {
		block_free_collected(slot, lists);
		return;
	}
	cache = cache_of_slot(slot);
	if (!cache)
		return;
	chain_flush(cache, lists->main.head);
	chain_flush(cache, lists->spare.head);
}

static void shrink_cpus(void)
{
	if (!percpu_collect_begin())
		return;
	for (uint32_t cid = 0; cid < percpu_areas_end(); cid++) {
		struct slot *slots = percpu_collect(cid);
		uint32_t nr = percpu_slots_end() / SLOT_BYTES;

		for (uint32_t i = 1; slots && i < nr; i++)
			flush_collected(i * SLOT_BYTES, &slots[i]);
	}
	percpu_collect_end();
}

void slab_shrink_all(void)
{
	uint32_t had = slub_thread.flags & THREAD_IN_RECLAIM;

	if (slub_thread.locks_held)
		return;
	slub_thread.flags |= THREAD_IN_RECLAIM;
	shrink_cpus();
	for (struct slub_cache *c = cache_first(); c; c = c->next) {
		for (uint32_t n = 0; n < OS_NODES_MAX && c->nodes[n]; n++) {
			flush_chains(c, barn_take_all(c->nodes[n], c));
			node_shrink(c, c->nodes[n]);
		}
	}
	if (!had)
		slub_thread.flags &= ~(uint32_t)THREAD_IN_RECLAIM;
}

void slab_reclaim_if_needed(void)
{
	size_t pages = page_purge_if_needed();
	size_t enough;

	if (likely(!pages))
		return;
	enough = superblock_nr_used() * SUPERBLOCK_BYTES / GIVEN_SHARE;
	enough = max_size(min_size(enough, GIVEN_MAX), GIVEN_MIN);
	pages = __atomic_add_fetch(&pages_given, pages, __ATOMIC_RELAXED);
	if (pages * PAGE_BYTES < enough)
		return;
	pages_given = 0;
	slab_shrink_all();
	page_purge_if_needed();
}
