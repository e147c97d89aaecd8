/* SPDX-License-Identifier: MIT */
/*
 * Which shrinkers have something in which group on which node.
 *
 *   map_groups[node]   a bit per group
 *     map->first         the first unit: a bit per shrinker
 *     map->lists         lists of units of 64 shrinkers
 *       unit->set          a bit per shrinker
 *
 * A walk over 4,000 groups and 4,000 shrinkers visits the pairs that are set,
 * not 16 million.  The group's bit is set last, after the object was added and the
 * pair's bit set, and cleared by a walk that found nothing: clear, barrier, look again
 * (MAP-1).  So a bit may be set for nothing, but nothing is without its bit, once the
 * call that sets it has returned.
 *
 * Maps and units are made when they are first needed and stay with their group's
 * structure for ever, so a walk can follow them without a lock.
 *
 * Locks: map_lock, for hanging them in.
 */
#include "reclaim/reclaim_internal.h"

#include <errno.h>

struct bits map_groups[OS_NODES_MAX] rarely_touched;

static struct lock map_lock = LOCK_INIT;
/* By node and number of the group; 0 is no group. */
static uint32_t map_numbers[OS_NODES_MAX][GROUPS_MAX] rarely_touched;

static struct pool map_pool =
	POOL_INIT(sizeof(struct map), GROUPS_MAX * OS_NODES_MAX);
static struct pool unit_pool =
	POOL_INIT(sizeof(struct map_unit), GROUPS_MAX * 16);

struct map *map_get(uint32_t group, uint32_t node)
{
	/* acquire: pairs with the release in map_make() */
	uint32_t n = __atomic_load_n(&map_numbers[node][group],
				     __ATOMIC_ACQUIRE);

	return n ? pool_item(&map_pool, n) : NULL;
}

static struct map *map_make(uint32_t group, uint32_t node)
{
	uint32_t *number = &map_numbers[node][group];
	struct map *map = map_get(group, node), *spare;

	if (map)
		return map;
	spare = pool_get(&map_pool);
	if (!spare)
		return NULL;
	lock_acquire(&map_lock);
	if (!*number) {
		__atomic_store_n(number, pool_number(&map_pool, spare),
				 __ATOMIC_RELEASE);
		spare = NULL;
	}
	lock_release(&map_lock);
	if (spare)
		pool_put(&map_pool, spare);
	return map_get(group, node);
}

/* ---- units ---- */

static struct map_unit *unit_at(const uint32_t *number)
{
	/* acquire: pairs with the release in unit_hang() */
	uint32_t n = __atomic_load_n(number, __ATOMIC_ACQUIRE);

	return n ? pool_item(&unit_pool, n) : NULL;
}

static struct map_unit *unit_find(struct map *map, uint32_t number)
{
	struct map_unit *unit = unit_at(&map->lists[number % MAP_LISTS]);

	while (unit && unit->number != number + 1)
		unit = unit_at(&unit->next);
	return unit;
}

struct map_unit *map_unit_get(struct map *map, uint32_t number)
{
	struct map_unit *first = map_first(map);

	return likely(first && first->number == number + 1) ?
		       first : unit_find(map, number);
}

struct map_unit *map_unit_listed(struct map *map, const struct map_unit *unit)
{
	struct map_unit *next = unit ? unit_at(&unit->next) : NULL;
	uint32_t list = unit ? (unit->number - 1) % MAP_LISTS + 1 : 0;

	for (; !next && list < MAP_LISTS; list++)
		next = unit_at(&map->lists[list]);
	return next;
}

/* Hangs @unit in; false: another thread was quicker. */
static bool unit_hang(struct map *map, struct map_unit *unit, uint32_t number)
{
	uint32_t *list = &map->lists[number % MAP_LISTS];
	bool done;

	lock_acquire(&map_lock);
	done = !unit_find(map, number);
	if (done) {
		unit->number = number + 1;
		unit->next = *list;
		__atomic_store_n(list, pool_number(&unit_pool, unit),
				 __ATOMIC_RELEASE);
		__atomic_store_n(&map->has_lists, 1, __ATOMIC_SEQ_CST);
	}
	lock_release(&map_lock);
	return done;
}

static struct map_unit *unit_make(struct map *map, uint32_t number)
{
	struct map_unit *unit = map_unit_get(map, number), *spare;
	uint32_t none = 0;

	if (unit)
		return unit;
	if (__atomic_compare_exchange_n(&map->first.number, &none, number + 1,
					false, __ATOMIC_ACQ_REL,
					__ATOMIC_ACQUIRE) ||
	    none == number + 1)
		return &map->first;
	spare = pool_get(&unit_pool);
	if (!spare)
		return NULL;
	if (!unit_hang(map, spare, number))
		pool_put(&unit_pool, spare);
	return unit_find(map, number);
}

/* ---- marks ---- */

static bool map_is_empty(struct map *map)
{
	struct map_unit *unit = NULL;

	while ((unit = map_unit_next(map, unit)) != NULL) {
		if (__atomic_load_n(&unit->set, __ATOMIC_SEQ_CST))
			return false;
	}
	return true;
}

static void pair_mark(struct map_unit *unit, uint32_t group, uint32_t node,
		      uint32_t id)
{
	bit_set(&unit->set, id % 64);
	bits_set(&map_groups[node], group);
}

int map_mark(uint32_t group, uint32_t node, uint32_t id)
{
	struct map *map = map_make(group, node);
	struct map_unit *unit = map ? unit_make(map, id / 64) : NULL;

	if (!unit)
		return -ENOMEM;
	/* MAP-1: the caller has added its object before this look. */
	full_fence();
	if (bit_is_set(&unit->set, id % 64))
		return 0;
	pair_mark(unit, group, node, id);
	return 0;
}

void map_unmark(struct map_unit *unit, uint32_t id)
{
	bit_clear(&unit->set, id % 64);		/* MAP-1: a full barrier */
}

void map_mark_again(uint32_t group, uint32_t node, uint32_t id)
{
	pair_mark(map_unit_get(map_get(group, node), id / 64), group, node, id);
}

void map_tidy(uint32_t group, uint32_t node)
{
	struct map *map = map_get(group, node);

	if (!map_is_empty(map))
		return;
	bits_clear(&map_groups[node], group);
	if (!map_is_empty(map))
		bits_set(&map_groups[node], group);	/* MAP-1 */
}

/* ---- a group goes ---- */

static void move_unit(struct map_unit *unit, uint32_t node, uint32_t to)
{
	uint64_t set = __atomic_exchange_n(&unit->set, 0, __ATOMIC_SEQ_CST);

	for (; set; set &= set - 1)
		map_mark(to, node, (unit->number - 1) * 64 +
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
		struct map *map = map_get(from, node);
		struct map_unit *unit = NULL;

		if (!map)
			continue;
		bits_clear(&map_groups[node], from);
		while ((unit = map_unit_next(map, unit)) != NULL)
			move_unit(unit, node, to);
	}
}

/*
 * A thread that did not come along may have set a pair's bit in map_mark(), and not yet
 * the group's, or had cleared that in map_tidy() and not looked again.
 */
static void maps_fork_child(void)
{
	if (pool_end(&map_pool) == 1)	/* there is none */
		return;
	for (uint32_t node = 0; node < OS_NODES_MAX; node++) {
		for (uint32_t group = 0; group < pool_end(&group_pool);
		     group++) {
			struct map *map = map_get(group, node);

			if (map && !map_is_empty(map))
				bits_set(&map_groups[node], group);
		}
	}
}

usual void map_fork(enum fork_step step)
{
	lock_fork(&map_lock, step);
	lock_fork(&map_pool.lock, step);
	lock_fork(&unit_pool.lock, step);
	if (step == FORK_CHILD)
		maps_fork_child();
}
