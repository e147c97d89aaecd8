/* SPDX-License-Identifier: MIT */
/*
 * Asking the shrinkers: how much of whom, by the kernel's arithmetic.
 *
 *   delta = (freeable >> priority) * 4 / seeks      (freeable / 2: SEEKS_NONE)
 *   total = min((owed >> priority) + delta, 2 * freeable)
 *
 * asked for in batches; what is not done is owed, at most 2 * freeable.
 *
 * What callbacks say is not believed further than it can be borne: counts are
 * cut at COUNT_MAX, a visit ends after SCANS_MAX calls of scan, and a scan that
 * says that it looked at nothing is taken to have looked at its batch.
 */
#include "features/reclaim/reclaim_internal.h"

#define COUNT_MAX ((size_t)1 << 48)
#define SCANS_MAX 4096

/* An outrageous count is one of several billions. */
static size_t believe(size_t count)
{
	return min_size(count, COUNT_MAX);
}

static size_t share(size_t freeable, const struct slub_shrinker *shrinker,
		    int priority)
{
	size_t part = freeable >> priority;

	if (shrinker->seeks == SLUB_SHRINKER_SEEKS_NONE)
		return freeable / 2;
	/* Most of the time there is little pressure: save the division. */
	return part ? part * 4 / (shrinker->seeks ? shrinker->seeks : SLUB_SHRINKER_SEEKS) : 0;
}

/* Once a shrinker: it may go on so. */
static void cut_short(struct slub_shrinker *shrinker)
{
	if (__atomic_fetch_add(&shrinker->cut_short, 1, __ATOMIC_RELAXED))
		return;
	log_message("shrinker '%s': asked %d times in one visit, and there is "
		    "still more; left to the next walk", shrinker->name ?
		    shrinker->name : "", SCANS_MAX);
}

/* What became of a visit. */
struct visit {
	size_t scanned;
	size_t freed;
	uint32_t scans;
};

/* Has @total looked at; false: the shrinker was unregistered by a callback. */
static bool scan_all(struct walker *walker, struct slub_shrinker *shrinker,
		     struct slub_shrink_control *control, size_t total,
		     size_t freeable, struct visit *visit)
{
	size_t batch = shrinker->batch ? shrinker->batch : SLUB_SHRINKER_BATCH;

	while (total >= batch || total >= freeable) {
		size_t nr = min_size(batch, total), freed;

		if (visit->scans == SCANS_MAX) {
			cut_short(shrinker);
			break;
		}
		control->nr_to_scan = control->nr_scanned = nr;
		visit->scans++;
		freed = shrinker->scan(shrinker, control);
		if (freed == SLUB_SHRINK_STOP)
			break;
		visit->freed += believe(freed);
		nr = control->nr_scanned ? believe(control->nr_scanned) : nr;
		visit->scanned += nr;
		total -= min_size(nr, total);
		if (!walker_is_inside(walker, shrinker))
			return false;
	}
	return walker_is_inside(walker, shrinker);
}

static void account(struct slub_shrinker *shrinker, const struct visit *visit)
{
	if (!visit->scans)
		return;
	reclaim_count(&shrinker->scans, visit->scans);
	reclaim_count(&shrinker->scanned, visit->scanned);
	reclaim_count(&shrinker->freed, visit->freed);
}

/*
 * What a shrinker is owed in a group lies in the map, and stays there when it goes: so
 * the word has a part of its stamp as well, and the next shrinker of that number
 * does not take over the debt.
 */
#define OWED_BITS 50
#define OWED_MAX ((1ull << OWED_BITS) - 1)

static uint64_t owed_stamp(const struct slub_shrinker *shrinker)
{
	return shrinker->flags & SLUB_SHRINKER_GROUP_AWARE ?
	       shrinker->stamp << OWED_BITS : 0;
}

static size_t owed_count(uint64_t word, const struct slub_shrinker *shrinker)
{
	return (word & ~OWED_MAX) == owed_stamp(shrinker) ? word & OWED_MAX : 0;
}

/* Takes all that is owed; most of the time there is nothing to write. */
static size_t owed_take(int64_t *owed, const struct slub_shrinker *shrinker)
{
	if (!__atomic_load_n(owed, __ATOMIC_RELAXED))
		return 0;
	return owed_count((uint64_t)__atomic_exchange_n(owed, 0,
							__ATOMIC_RELAXED),
			  shrinker);
}

static void owed_add(int64_t *owed, size_t n,
		     const struct slub_shrinker *shrinker)
{
	int64_t old = __atomic_load_n(owed, __ATOMIC_RELAXED);
	uint64_t sum;

	do {
		sum = min_size(owed_count((uint64_t)old, shrinker) + n,
			       OWED_MAX) | owed_stamp(shrinker);
	} while (!__atomic_compare_exchange_n(owed, &old, (int64_t)sum, true,
					      __ATOMIC_RELAXED,
					      __ATOMIC_RELAXED));
}

size_t shrink_one(struct walker *walker, struct slub_shrinker *shrinker,
		  struct slub_shrink_control *control, int64_t *owed)
{
	struct visit visit = { 0, 0, 0 };
	size_t freeable, delta, before, rest;

	freeable = shrinker->count(shrinker, control);
	if (freeable == 0 || freeable >= SLUB_SHRINK_EMPTY)
		return freeable == SLUB_SHRINK_STOP ? 0 : freeable;
	if (!walker_is_inside(walker, shrinker))
		return 0;
	freeable = believe(freeable);
	before = owed_take(owed, shrinker);
	delta = share(freeable, shrinker, control->priority);
	if (!scan_all(walker, shrinker, control,
		      min_size((before >> control->priority) + delta,
			       2 * freeable), freeable, &visit))
		return visit.freed;
	account(shrinker, &visit);
	rest = before + delta;
	rest -= min_size(rest, visit.scanned);
	rest = min_size(rest, 2 * freeable);
	if (rest)
		owed_add(owed, rest, shrinker);
	return visit.freed;
}

/* What all pairs of one group and node have in common. */
struct place {
	struct walker *walker;
	uint32_t group;		/* its number */
	struct slub_shrink_control control;
};

/* The pair said that it has nothing: MAP-1. */
static size_t shrink_empty(struct place *place, struct slub_shrinker *shrinker,
			   struct map_unit *unit, uint32_t id)
{
	size_t freed;

	map_unmark(unit, id);
	inject(INJECT_unmark);
	freed = shrink_one(place->walker, shrinker, &place->control,
			   &unit->deferred[id % 64]);
	if (freed == SLUB_SHRINK_EMPTY)
		return 0;
	if (walker_is_inside(place->walker, shrinker))
		map_mark_again(unit, place->group,
			       (uint32_t)place->control.node, id);
	return freed;
}

/*
 * The shrinker went, or the group did.  The next shrinker of that number may
 * well want the bit again: it is left alone in most walks, since the
 * threads that set and clear it want the same cache line.
 */
#define STALE_WALKS 32

static void forget_stale(struct place *place, struct map_unit *unit,
			 uint32_t id)
{
	map_unmark(unit, id);
	if (__atomic_load_n(&shrinker_table[id], __ATOMIC_SEQ_CST) &&
	    (!place->group || bit_is_set(groups_alive.words, place->group)))
		map_mark_again(unit, place->group,
			       (uint32_t)place->control.node, id);
}

static size_t shrink_pair(struct place *place, struct map_unit *unit,
			  uint32_t id)
{
	struct walker *walker = place->walker;
	struct slub_shrinker *shrinker;
	size_t freed;

	shrinker = walker_enter(walker, id, place->control.group, place->group);
	if (unlikely(!shrinker)) {
		if (walker->walks % STALE_WALKS == 0)
			forget_stale(place, unit, id);
		return 0;
	}
	freed = shrink_one(walker, shrinker, &place->control,
			   &unit->deferred[id % 64]);
	if (unlikely(freed == SLUB_SHRINK_EMPTY))
		freed = walker_is_inside(walker, shrinker) ?
			shrink_empty(place, shrinker, unit, id) : 0;
	walker_leave(walker);
	return freed;
}

/* The shrinkers of one group (0: no group) on one node. */
static size_t shrink_map(struct walker *walker, uint32_t group, uint32_t node,
			 int priority)
{
	struct place place = { walker, group,
		{ 0, 0, group_of_number(group), (int)node, priority, { 0 } } };
	struct map_unit *unit;
	bool is_empty = true;
	size_t freed = 0;

	for (unit = map_first(group, node); unit; unit = map_next(unit)) {
		uint64_t set = __atomic_load_n(&unit->set, __ATOMIC_RELAXED);

		for (; set; set &= set - 1)
			freed += shrink_pair(&place, unit, unit->number * 64 +
					     (uint32_t)__builtin_ctzll(set));
		is_empty &= !__atomic_load_n(&unit->set, __ATOMIC_RELAXED);
	}
	if (unlikely(is_empty))
		map_tidy(group, node);
	return freed;
}

static size_t shrink_always(struct walker *walker, uint32_t id, int priority)
{
	uint32_t nr_nodes = reclaim_nr_nodes;
	size_t freed = 0, got;

	for (uint32_t node = 0; node < nr_nodes; node++) {
		struct slub_shrink_control control = { 0, 0, NULL, (int)node,
						       priority, { 0 } };
		struct slub_shrinker *shrinker = walker_enter(walker, id, NULL,
							      0);

		if (!shrinker)
			break;
		if (!(shrinker->flags & SLUB_SHRINKER_NUMA_AWARE))
			nr_nodes = 1;
		/* The number may be another one's since. */
		if (node >= nr_nodes) {
			walker_leave(walker);
			break;
		}
		got = shrink_one(walker, shrinker, &control,
				 &shrinker->deferred[node]);
		freed += got == SLUB_SHRINK_EMPTY ? 0 : got;
		walker_leave(walker);
	}
	return freed;
}

/* A walk: over what, and until when. */
struct walk {
	struct walker *walker;
	const struct slub_group *top;
	int priority;
	uint64_t deadline_ns;	/* 0: none */
	bool is_over;
	size_t freed;
};

/* Where the last walk with a deadline ended: the group by node, and the shrinker. */
static uint32_t resume[OS_NODES_MAX + 1];

static bool is_over(struct walk *walk)
{
	if (walk->deadline_ns && os_clock_ns() >= walk->deadline_ns)
		walk->is_over = true;
	return walk->is_over;
}

static bool is_spared(const struct walk *walk, uint32_t n)
{
	struct slub_group *group;

	if (!walk->top && likely(!__atomic_load_n(&groups_with_low,
						  __ATOMIC_RELAXED)))
		return false;
	group = group_of_number(n);
	if (walk->top && !group_is_below(group, walk->top))
		return true;
	return group && group != walk->top && walk->priority &&
	       group_is_protected(group);
}

/* For a node: those that are asked in every walk, and have no groups. */
#define NODE_ALWAYS OS_NODES_MAX

/* Numbers in [@n, @end) of @bits; returns where it stopped, @end: nowhere. */
static uint32_t walk_part(struct walk *walk, const struct bits *bits,
			  uint32_t node, uint32_t n, uint32_t end)
{
	/* The program did not call: it was woken (features/debug/wake.h). */
	if (slub_thread.growth == THREAD_GROWTH_QUIET)
		return end;
	for (n = bits_next(bits, n, end, true); n < end;
	     n = bits_next(bits, n + 1, end, true)) {
		if (node != NODE_ALWAYS && is_spared(walk, n))
			continue;
		if (is_over(walk))
			return n;
		walk->freed += node == NODE_ALWAYS ?
			shrink_always(walk->walker, n, walk->priority) :
			shrink_map(walk->walker, n, node, walk->priority);
	}
	return end;
}

/* All numbers below @end; with a deadline from where the last such walk ended. */
static void walk_round(struct walk *walk, const struct bits *bits,
		       uint32_t node, uint32_t end)
{
	uint32_t from = 0, n;

	if (walk->is_over)
		return;
	if (walk->deadline_ns)
		from = __atomic_load_n(&resume[node], __ATOMIC_RELAXED);
	n = walk_part(walk, bits, node, from, end);
	if (!walk->is_over && from)
		n = walk_part(walk, bits, node, 0, from);
	if (walk->deadline_ns)
		__atomic_store_n(&resume[node], walk->is_over ? n : 0,
				 __ATOMIC_RELAXED);
}

static usual void walk_run(struct walk *walk)
{
	uint32_t nr_nodes = __atomic_load_n(&map_nodes_end, __ATOMIC_RELAXED);
	uint32_t end = walk->top ? 0 : __atomic_load_n(&shrinkers_end,
						       __ATOMIC_RELAXED);

	if (bits_next(&shrinkers_always, 0, end, true) == end && !nr_nodes)
		return;
	walk->walker = walker_begin();
	if (!walk->walker)
		return;
	walk_round(walk, &shrinkers_always, NODE_ALWAYS, end);
	for (uint32_t node = 0; node < nr_nodes; node++)
		walk_round(walk, &map_groups[node], node,
			   pool_end(&group_pool));
	walker_end(walk->walker);
}

usual size_t shrinkers_run(int priority, const struct slub_group *top)
{
	struct walk walk = { NULL, top, priority, 0, false, 0 };

	walk_run(&walk);
	return walk.freed;
}

size_t shrinkers_run_until(int priority, uint64_t deadline_ns,
			   bool *is_cut_short)
{
	struct walk walk = { NULL, NULL, priority, deadline_ns, false, 0 };

	walk_run(&walk);
	*is_cut_short = walk.is_over;
	return walk.freed;
}
