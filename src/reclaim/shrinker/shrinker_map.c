/* SPDX-License-Identifier: MIT */
/*
 * Which shrinkers have something in which group on which node.
 *
 *   map_groups[node]   a bit per group
 *     map->first.set   the first unit: a bit per shrinker
 *     map->top         a bit per word of the summary
 *     map->summary     a bit per unit of 64 shrinkers
 *       unit->set      a bit per shrinker
 *
 * A walk over 4,000 groups and 4,000 shrinkers visits the pairs that are set,
 * not 16 million.  Bits are set upwards, after the object was added, and
 * cleared by a walk that found nothing: clear, barrier, look again (MAP-1).
 * So a bit may be set for nothing, but nothing is without its bit, once the
 * call that sets it has returned.
 *
 * Blocks and units are made when they are first needed and stay with their
 * group's structure for ever, so a walk can follow them without a lock.
 *
 * Locks: map_lock, for hanging them in.
 */
#include "reclaim/reclaim_internal.h"

#include <errno.h>

#define UNITS_PER_BLOCK 64

struct map_block {
	uint32_t units[UNITS_PER_BLOCK];	/* numbers in unit_pool */
	void *pool_link;
};

struct bits map_groups[OS_NODES_MAX] rarely_touched;

static struct lock map_lock = LOCK_INIT;
/* By node and number of the group; 0 is no group. */
static uint32_t map_numbers[OS_NODES_MAX][GROUPS_MAX] rarely_touched;

static struct pool map_pool =
	POOL_INIT(sizeof(struct map), GROUPS_MAX * OS_NODES_MAX);
static struct pool block_pool =
	POOL_INIT(sizeof(struct map_block), GROUPS_MAX * OS_NODES_MAX);
static struct pool unit_pool =
	POOL_INIT(sizeof(struct map_unit), GROUPS_MAX * 16);

/* The item that *@number names; NULL: none yet. */
static void *item_at(struct pool *pool, const uint32_t *number)
{
	/* acquire: pairs with the release in item_make() */
	uint32_t n = __atomic_load_n(number, __ATOMIC_ACQUIRE);

	return n ? pool_item(pool, n) : NULL;
}

static void *item_make(struct pool *pool, uint32_t *number)
{
	void *item = item_at(pool, number);
	void *spare;

	if (item)
		return item;
	spare = pool_get(pool);
	if (!spare)
		return NULL;
	lock_acquire(&map_lock);
	if (!*number) {
		__atomic_store_n(number, pool_number(pool, spare),
				 __ATOMIC_RELEASE);
		spare = NULL;
	}
	lock_release(&map_lock);
	if (spare)
		pool_put(pool, spare);
	return item_at(pool, number);
}

struct map *map_get(uint32_t group, uint32_t node)
{
	return item_at(&map_pool, &map_numbers[node][group]);
}

struct map_unit *map_unit_find(const struct map *map, uint32_t number)
{
	struct map_block *block =
		item_at(&block_pool, &map->blocks[number / UNITS_PER_BLOCK]);

	return block ? item_at(&unit_pool,
			       &block->units[number % UNITS_PER_BLOCK]) : NULL;
}

static struct map_unit *unit_make(struct map *map, uint32_t number)
{
	struct map_unit *unit = map_unit_get(map, number);
	struct map_block *block;
	uint32_t none = 0;

	if (unit)
		return unit;
	if (__atomic_compare_exchange_n(&map->first_number, &none, number + 1,
					false, __ATOMIC_ACQ_REL,
					__ATOMIC_ACQUIRE) ||
	    none == number + 1)
		return &map->first;
	block = item_make(&block_pool, &map->blocks[number / UNITS_PER_BLOCK]);
	return block ? item_make(&unit_pool,
				 &block->units[number % UNITS_PER_BLOCK]) :
		       NULL;
}

static void mark_upwards(struct map *map, const struct map_unit *unit,
			 uint32_t group, uint32_t node, uint32_t number)
{
	if (unit != &map->first) {
		bit_set(map->summary, number);
		bit_set(&map->top, number / 64);
	}
	bits_set(&map_groups[node], group);
}

int map_mark(uint32_t group, uint32_t node, uint32_t id)
{
	struct map *map = item_make(&map_pool, &map_numbers[node][group]);
	struct map_unit *unit = map ? unit_make(map, id / 64) : NULL;

	if (!unit)
		return -ENOMEM;
	/* MAP-1: the caller has added its object before this look. */
	full_fence();
	if (bit_is_set(&unit->set, id % 64))
		return 0;
	bit_set(&unit->set, id % 64);
	mark_upwards(map, unit, group, node, id / 64);
	return 0;
}

void map_unmark(struct map_unit *unit, uint32_t id)
{
	bit_clear(&unit->set, id % 64);		/* MAP-1: a full barrier */
}

void map_mark_again(uint32_t group, uint32_t node, uint32_t id)
{
	struct map *map = map_get(group, node);
	struct map_unit *unit = map_unit_get(map, id / 64);

	bit_set(&unit->set, id % 64);
	mark_upwards(map, unit, group, node, id / 64);
}

/*
 * One level: @below, which bit @n of @bits stands for, has become 0.  Returns
 * whether the level above may have become 0 too.
 */
static bool tidy_level(const uint64_t *below, uint64_t *bits, uint32_t n)
{
	if (__atomic_load_n(below, __ATOMIC_SEQ_CST))
		return false;
	bit_clear(bits, n);
	if (!__atomic_load_n(below, __ATOMIC_SEQ_CST))
		return true;
	bit_set(bits, n);	/* MAP-1 */
	return false;
}

static bool map_is_empty(const struct map *map)
{
	return !__atomic_load_n(&map->top, __ATOMIC_SEQ_CST) &&
	       !__atomic_load_n(&map->first.set, __ATOMIC_SEQ_CST);
}

void map_tidy(uint32_t group, uint32_t node, uint32_t number)
{
	struct map *map = map_get(group, node);
	struct map_unit *unit = map_unit_get(map, number);

	if (unit != &map->first &&
	    (!tidy_level(&unit->set, map->summary, number) ||
	     !tidy_level(&map->summary[number / 64], &map->top, number / 64)))
		return;
	if (!map_is_empty(map))
		return;
	bits_clear(&map_groups[node], group);
	if (!map_is_empty(map))
		bits_set(&map_groups[node], group);	/* MAP-1 */
}

/* ---- a group goes ---- */

static void move_unit(struct map_unit *unit, uint32_t number, uint32_t node,
		      uint32_t to)
{
	uint64_t set;

	if (!unit)
		return;
	set = __atomic_exchange_n(&unit->set, 0, __ATOMIC_SEQ_CST);
	for (; set; set &= set - 1)
		map_mark(to, node, number * 64 +
				   (uint32_t)__builtin_ctzll(set));
	for (uint32_t i = 0; i < 64; i++)
		__atomic_store_n(&unit->deferred[i], 0, __ATOMIC_RELAXED);
}

/*
 * From the top down, while a thread that marks goes upwards: a mark that is set
 * meanwhile is found, or stands there for the next move.
 */
static void move_map(struct map *map, uint32_t node, uint32_t to)
{
	uint32_t first;

	__atomic_store_n(&map->top, 0, __ATOMIC_SEQ_CST);
	for (uint32_t i = 0; i < ARRAY_SIZE(map->summary); i++) {
		uint64_t units = __atomic_exchange_n(&map->summary[i], 0,
						     __ATOMIC_SEQ_CST);

		for (; units; units &= units - 1) {
			uint32_t number = i * 64 +
					  (uint32_t)__builtin_ctzll(units);

			move_unit(map_unit_find(map, number), number, node, to);
		}
	}
	first = __atomic_load_n(&map->first_number, __ATOMIC_ACQUIRE);
	if (first)
		move_unit(&map->first, first - 1, node, to);
}

void map_move(uint32_t from, uint32_t to)
{
	for (uint32_t node = 0; node < OS_NODES_MAX; node++) {
		struct map *map = map_get(from, node);

		if (!map)
			continue;
		bits_clear(&map_groups[node], from);
		move_map(map, node, to);
	}
}

usual void map_fork_prepare(void)
{
	lock_acquire_for_fork(&map_lock);
	lock_acquire_for_fork(&map_pool.lock);
	lock_acquire_for_fork(&block_pool.lock);
	lock_acquire_for_fork(&unit_pool.lock);
}

/* Of one map: where a unit has a bit there is one in each level above. */
static void map_mend(struct map *map, uint32_t group, uint32_t node)
{
	uint32_t first = __atomic_load_n(&map->first_number, __ATOMIC_RELAXED);

	if (first && map->first.set)
		mark_upwards(map, &map->first, group, node, first - 1);
	for (uint32_t n = 0; n < BITS_WORDS; n++) {
		struct map_unit *unit;

		if (!map->blocks[n / UNITS_PER_BLOCK]) {
			n |= UNITS_PER_BLOCK - 1;
			continue;
		}
		unit = map_unit_find(map, n);
		if (unit && unit->set)
			mark_upwards(map, unit, group, node, n);
	}
}

/*
 * A thread that did not come along may have been on its way upwards in
 * map_mark(), or had cleared a bit above in map_tidy() and not looked again.
 */
static void maps_fork_child(void)
{
	if (pool_end(&map_pool) == 1)	/* there is none */
		return;
	for (uint32_t node = 0; node < OS_NODES_MAX; node++) {
		for (uint32_t group = 0; group < pool_end(&group_pool);
		     group++) {
			struct map *map = map_get(group, node);

			if (map)
				map_mend(map, group, node);
		}
	}
}

usual void map_fork_finish(bool in_child)
{
	lock_release_after_fork(&unit_pool.lock, in_child);
	lock_release_after_fork(&block_pool.lock, in_child);
	lock_release_after_fork(&map_pool.lock, in_child);
	lock_release_after_fork(&map_lock, in_child);
	if (in_child)
		maps_fork_child();
}
