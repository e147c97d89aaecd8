/* SPDX-License-Identifier: MIT */
/*
 * Leaks in order.  One that no other leads to is direct, and what it leads to stands beneath it,
 * beneath the first where there are several.  Of a ring the object with the lowest address stands
 * for all.
 */
#include "leak.h"
#include "slub.h"

#include <stdlib.h>
#include <string.h>

struct grouping {
	struct leaks *leaks;
	struct leak_groups *groups;
	uint64_t *led_to;		/* a bit for each object: another leak leads to it */
	uint64_t from;			/* whose edges are visited */
	unsigned int nr_examples;
};

static bool is_leak(const struct leaks *leaks, uint64_t object)
{
	return leak_block_of(leaks, object)->suspect & leak_bit(object);
}

static void note_edge(struct leaks *leaks, uint64_t target, void *arg)
{
	struct grouping *grouping = arg;

	if (target != grouping->from && is_leak(leaks, target))
		grouping->led_to[target / LEAK_BLOCK_OBJECTS] |= leak_bit(target);
}

/* Calls @visit for each leak of @bits of block number @i. */
static void for_each(struct grouping *grouping, size_t i, uint64_t bits,
		     void (*visit)(struct grouping *grouping, uint64_t object))
{
	for (; bits; bits &= bits - 1)
		visit(grouping, i * LEAK_BLOCK_OBJECTS + (uint64_t)__builtin_ctzll(bits));
}

static void note_edges(struct grouping *grouping, uint64_t object)
{
	grouping->from = object;
	leak_edges(grouping->leaks, object, note_edge, grouping);
}

/* ---- groups ---- */

static struct leak_group *group_of(struct grouping *grouping, uint64_t object)
{
	struct leak_groups *groups = grouping->groups;
	struct leaks *leaks = grouping->leaks;
	const struct leak_slab *slab = &leaks->slabs[leak_block_of(leaks, object)->slab];
	struct leak_group made = { .cache = slab->cache }, *row;
	size_t at = 0, found;
	uint64_t hash;

	leak_object_at(leaks, object, &made.size);
	made.nr_frames = leak_stack_of(groups->stacks, object, &made.stack, made.frames);
	hash = hash_mix(hash_mix(made.stack, made.size), (uint64_t)(int64_t)made.cache);
	while ((found = index_next(&groups->index, hash, &at)) != INDEX_NONE) {
		row = &groups->rows[found];
		if (row->cache == made.cache && row->size == made.size && row->stack == made.stack)
			return row;
	}
	/* Doubled whenever the number is a power of two. */
	if (!(groups->nr & (groups->nr - 1)))
		groups->rows = must_have(reallocarray(groups->rows,
						      groups->nr ? 2 * groups->nr : 1,
						      sizeof(*groups->rows)));
	index_add(&groups->index, hash, groups->nr);
	row = &groups->rows[groups->nr++];
	*row = made;
	return row;
}

static void count_beneath(struct grouping *grouping, struct leak_group *row, uint64_t nr,
			  uint64_t bytes)
{
	row->nr_beneath += nr;
	row->bytes_beneath += bytes;
	grouping->groups->nr_beneath += nr;
	grouping->groups->bytes_beneath += bytes;
}

static void enter(struct grouping *grouping, uint64_t object, bool is_ring)
{
	struct leak_group *row = group_of(grouping, object);
	struct leaks *leaks = grouping->leaks;
	uint64_t nr, bytes;

	leaks->reached = leaks->reached_bytes = 0;
	leak_mark_object(leaks, object);
	leak_mark_rest(leaks);
	nr = leaks->reached - 1;
	bytes = leaks->reached_bytes - row->size;
	row->nr++;
	row->bytes += row->size;
	row->nr_rings += is_ring;
	if (row->nr_examples < grouping->nr_examples) {
		row->examples[row->nr_examples] = object;
		row->beneath[row->nr_examples++] = nr;
	}
	grouping->groups->nr_direct++;
	grouping->groups->bytes_direct += row->size;
	count_beneath(grouping, row, nr, bytes);
}

static void enter_root(struct grouping *grouping, uint64_t object)
{
	enter(grouping, object, false);
}

static void enter_ring(struct grouping *grouping, uint64_t object)
{
	if (leak_block_of(grouping->leaks, object)->marked & leak_bit(object))
		return;
	enter(grouping, object, true);
}

static int compare(const void *a, const void *b)
{
	const struct leak_group *one = a, *other = b;
	int order = compare_numbers(other->bytes + other->bytes_beneath,
				    one->bytes + one->bytes_beneath);

	if (order)
		return order;
	order = compare_numbers(other->nr, one->nr);
	return order ? order : compare_numbers(one->examples[0], other->examples[0]);
}

void leak_groups_make(struct leaks *leaks, struct leak_groups *groups, unsigned int nr_examples)
{
	struct grouping grouping = { .leaks = leaks, .groups = groups,
				     .nr_examples = nr_examples };

	*groups = (struct leak_groups){ .stacks = leak_stacks_open(leaks) };
	grouping.led_to = must_have(calloc(leaks->nr_blocks + 1, sizeof(uint64_t)));
	for (size_t i = 0; i < leaks->nr_blocks; i++)
		for_each(&grouping, i, leaks->blocks[i].suspect, note_edges);
	/* From here on a leak is all that there is, and what stands in its place is marked. */
	leaks->is_counting = true;
	for (size_t i = 0; i < leaks->nr_blocks; i++) {
		leaks->blocks[i].allocated = leaks->blocks[i].suspect;
		leaks->blocks[i].marked = 0;
	}
	for (size_t i = 0; i < leaks->nr_blocks; i++)
		for_each(&grouping, i, leaks->blocks[i].suspect & ~grouping.led_to[i], enter_root);
	for (size_t i = 0; i < leaks->nr_blocks; i++)
		for_each(&grouping, i, leaks->blocks[i].suspect & ~leaks->blocks[i].marked,
			 enter_ring);
	free(grouping.led_to);
	if (groups->nr)
		qsort(groups->rows, groups->nr, sizeof(*groups->rows), compare);
}

void leak_groups_free(struct leak_groups *groups)
{
	leak_stacks_close(groups->stacks);
	index_free(&groups->index);
	free(groups->rows);
}
