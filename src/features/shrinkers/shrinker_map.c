/* SPDX-License-Identifier: MIT */
/*
 * Which shrinkers have something in which group on which node.
 *
 *   map_groups[node]    a bit per group
 *   units[node][group]  a list of units of 64 shrinkers
 *     unit->set         a bit per shrinker
 *
 * A walk over 4,000 groups and 4,000 shrinkers visits the pairs that are set,
 * not 16 million.  The group's bit is set last, after the object was added and the
 * pair's bit set, and cleared by a walk that found nothing: clear, barrier, look again
 * (MAP-1).  So a bit may be set for nothing, but nothing is without its bit, once the
 * call that sets it has returned.
 *
 * Units are made when they are first needed and stay with their group's number for ever,
 * so a walk can follow them without a lock.
 *
 * Locks: map_lock, for hanging them in.
 */
#include "features/reclaim/reclaim_internal.h"

#include <errno.h>

struct bits map_groups[OS_NODES_MAX] rarely_touched;
uint32_t map_nodes_end;

static struct lock map_lock fork_writes = LOCK_INIT;
/* By node and number of the group (0: no group), the newest unit's number in unit_pool. */
static uint32_t units[OS_NODES_MAX][BITS_NR] rarely_touched;
static struct pool unit_pool fork_writes =
	POOL_INIT(sizeof(struct map_unit), BITS_NR * 16);

/* ---- units ---- */

static struct map_unit *unit_at(const uint32_t *number)
{
	/* acquire: pairs with the release in unit_make() */
	uint32_t n = __atomic_load_n(number, __ATOMIC_ACQUIRE);

	return n ? pool_item(&unit_pool, n) : NULL;
}

struct map_unit *map_first(uint32_t group, uint32_t node)
{
	return unit_at(&units[node][group]);
}

struct map_unit *map_next(const struct map_unit *unit)
{
	return unit_at(&unit->next);
}

static struct map_unit *unit_find(uint32_t group, uint32_t node,
				  uint32_t number)
{
	struct map_unit *unit = map_first(group, node);

	while (unit && unit->number != number)
		unit = map_next(unit);
	return unit;
}

/* NULL: no memory. */
static struct map_unit *unit_make(uint32_t group, uint32_t node,
				  uint32_t number)
{
	struct map_unit *unit = unit_find(group, node, number), *spare;

	if (likely(unit))
		return unit;
	spare = pool_get(&unit_pool);
	if (!spare)
		return NULL;
	lock_acquire(&map_lock);
	unit = unit_find(group, node, number);
	if (!unit) {
		spare->number = number;
		spare->next = units[node][group];
		__atomic_store_n(&units[node][group],
				 pool_number(&unit_pool, spare),
				 __ATOMIC_RELEASE);
		unit = spare;
		if (map_nodes_end <= node)
			__atomic_store_n(&map_nodes_end, node + 1,
					 __ATOMIC_RELAXED);
	}
	lock_release(&map_lock);
	if (unit != spare)
		pool_put(&unit_pool, spare);
	return unit;
}

/* ---- marks ---- */

static bool is_empty(uint32_t group, uint32_t node)
{
	struct map_unit *unit = map_first(group, node);

	while (unit && !__atomic_load_n(&unit->set, __ATOMIC_SEQ_CST))
		unit = map_next(unit);
	return !unit;
}

int map_mark(uint32_t group, uint32_t node, uint32_t id)
{
	struct map_unit *unit = unit_make(group, node, id / 64);

	if (!unit)
		return -ENOMEM;
	/* MAP-1: the caller has added its object before this look. */
	full_fence();
	if (!bit_is_set(&unit->set, id % 64))
		map_mark_again(unit, group, node, id);
	return 0;
}

void map_unmark(struct map_unit *unit, uint32_t id)
{
	bit_clear(&unit->set, id % 64);		/* MAP-1: a full barrier */
}

void map_mark_again(struct map_unit *unit, uint32_t group, uint32_t node,
		    uint32_t id)
{
	bit_set(&unit->set, id % 64);
	bit_set(map_groups[node].words, group);
}

void map_tidy(uint32_t group, uint32_t node)
{
	if (!is_empty(group, node))
		return;
	bit_clear(map_groups[node].words, group);
	/* MAP-1: pairs with the fence in map_mark(), behind a unit that is hung in. */
	full_fence();
	if (!is_empty(group, node))
		bit_set(map_groups[node].words, group);
}

/* ---- a group goes ---- */

static void move_unit(struct map_unit *unit, uint32_t node, uint32_t to)
{
	uint64_t set = __atomic_exchange_n(&unit->set, 0, __ATOMIC_SEQ_CST);

	for (; set; set &= set - 1)
		map_mark(to, node, unit->number * 64 +
				   (uint32_t)__builtin_ctzll(set));
	for (uint32_t i = 0; i < 64; i++)
		__atomic_store_n(&unit->deferred[i], 0, __ATOMIC_RELAXED);
}

/*
 * The group's bit goes first, and is set last by a thread that marks: a mark that is
 * set meanwhile is found, or stands there for the next move.
 */
void map_move(uint32_t from, uint32_t to)
{
	for (uint32_t node = 0; node < OS_NODES_MAX; node++) {
		struct map_unit *unit = map_first(from, node);

		if (unit)
			bit_clear(map_groups[node].words, from);
		for (; unit; unit = map_next(unit))
			move_unit(unit, node, to);
	}
}

/*
 * A thread that did not come along may have set a pair's bit in map_mark(), and not yet
 * the group's, or had cleared that in map_tidy() and not looked again.
 */
static void maps_fork_child(void)
{
	for (uint32_t node = 0; node < map_nodes_end; node++) {
		for (uint32_t group = 0; group < pool_end(&group_pool);
		     group++) {
			if (!is_empty(group, node))
				bit_set(map_groups[node].words, group);
		}
	}
}

usual void map_fork(enum fork_step step)
{
	lock_fork(&map_lock, step);
	lock_fork(&unit_pool.lock, step);
	if (step == FORK_CHILD)
		maps_fork_child();
}
