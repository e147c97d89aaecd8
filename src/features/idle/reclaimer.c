/* SPDX-License-Identifier: MIT */
/*
 * What the slab and page layers give back by themselves when memory is short,
 * before any shrinker is asked (features/reclaim/reclaim.h): the lists of all CPUs, the
 * barns, empty slabs, free blocks.
 */
#include "features/growth/growth.h"
#include "features/groups/owned.h"
#include "features/rcu/rcu.h"
#include "features/movable/movable.h"
#include "features/idle/idle.h"

#include <errno.h>

#include <slub/control.h>

/* Above it, half of the idle memory may stay: it is only a hint. */
#define PRIORITY_MILD 6

static size_t run(int priority)
{
	size_t keep = priority > PRIORITY_MILD ? page_budget() / 2 : 0;

	slab_shrink_all();
	return page_purge(keep) * PAGE_BYTES;
}

static size_t drain(bool is_last)
{
	return is_last ? deferred_drain_patiently() : deferred_drain();
}

/*
 * A heap that was the same a moment ago is one that nobody uses: what lies
 * idle goes back, once.  One that is at work keeps it, or it would be bought
 * again.
 */
static void idle(void)
{
	static size_t used_then, dirty_then;
	static bool is_done;
	size_t used = page_used_bytes(), dirty = page_nr_dirty();

	if (used != used_then || dirty != dirty_then) {
		is_done = false;
	} else if (!is_done) {
		slab_shrink_all();
		slab_purge_objects(0, SLUB_NODE_ANY);
		page_purge_all();
		is_done = true;
		dirty = page_nr_dirty();
		used = page_used_bytes();
	}
	used_then = used;
	dirty_then = dirty;
}

static size_t move(uint64_t deadline_ns)
{
	size_t bytes = defrag_until(deadline_ns);

	if (bytes)
		page_purge_all();
	return bytes;
}

static const struct reclaimer slabs = {
	.run = run, .drain = drain, .idle = idle, .move = move,
	.used = page_used_bytes,
};

/*
 * The page layer is about to ask the system for more.  What shrinkers free lies
 * in lists and barns at first, where a few objects keep many slabs.
 *
 * Memory that is there is for caches too, so shrinkers are asked only where a limit is
 * near or the system refuses.  Asked whenever the heap grows, each gave up a thirty-second
 * of its objects, up to ten times a second: SQLite's page cache stayed at 180 MiB on a
 * machine that had 20 GiB free, with 83.0 % hits, and takes 560 MiB now, with 92.8 %.
 */
static usual bool before_growth(size_t bytes, enum growth_cause cause)
{
	bool freed = deferred_drain();

	(void)bytes;
	if ((cause == GROWTH_FAILED || page_limit_is_near()) &&
	    shrinkers_run(SLUB_SHRINK_PRIORITY_MAX / 2, NULL))
		freed = true;
	if (freed)
		slab_shrink_all();
	return freed;
}

/* For the free pages of slabs that are in use, at a time: near, and close. */
#define NEAR_NS 20000000ull
#define CLOSE_NS 50000000ull

static size_t resident_bytes(void)
{
	return page_nr_resident() * PAGE_BYTES;
}

static void give_all(void)
{
	slab_shrink_all();
	slab_purge_objects(os_clock_ns() +
			   (page_group_is_close() ? CLOSE_NS : NEAR_NS), SLUB_NODE_ANY);
	page_purge_all();
}

/*
 * The limit is near: what is free is worth more than time.  When it is very
 * near, so is what the program can do without.
 */
static bool when_tight(size_t bytes, enum growth_cause cause)
{
	size_t before = resident_bytes();
	int priority = SLUB_SHRINK_PRIORITY_MAX / 2;
	bool helped = false;

	(void)cause;
	give_all();
	while (resident_bytes() + bytes > before && priority >= 0 &&
	       page_group_is_close()) {
		if (!shrinkers_run(priority--, NULL))
			continue;
		helped = true;
		give_all();
	}
	return helped || resident_bytes() + bytes <= before;
}

SLUB_EXPORT cold long slub_node_shrink(int node)
{
	size_t before, after;
	int err = slub_begin();

	if (err)
		return err;
	if (node != SLUB_NODE_ANY &&
	    (node < 0 || (uint32_t)node >= slab_nr_nodes()))
		return -EINVAL;
	before = page_nr_resident();
	slab_shrink_all();
	slab_purge_objects(0, node);
	if (node == SLUB_NODE_ANY)
		page_purge_all();
	else
		page_purge_node((uint32_t)node);
	after = page_nr_resident();
	return after < before ? (long)((before - after) * PAGE_BYTES) : 0;
}

static const struct kept_charges kept = {
	account_settle_lists, account_lists_are_empty,
};

usual void slab_reclaimer_init(void)
{
	group_set_kept(&kept);
	reclaimer_set(&slabs);
	page_set_growth_hook(before_growth);
	page_set_tight_hook(when_tight);
	page_set_sparse_hook(sparse_purge);
}
