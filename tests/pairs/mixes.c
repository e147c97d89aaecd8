/* SPDX-License-Identifier: MIT */
/* Features that are other calls for the same memory: realloc(), bulk calls, another CPU. */
#include "pairs.h"

#include <sched.h>

/* ---- realloc ---- */

static void *realloc_alloc(struct cell *cell, size_t *size)
{
	size_t least = *size / 3 + 1;
	char *block = malloc(least), *larger;

	(void)cell;
	if (!block)
		return NULL;
	memset(block, 0x3c, least);
	larger = realloc(block, *size);
	if (!larger) {
		free(block);
		return NULL;
	}
	for (size_t i = 0; i < least; i++)
		if (larger[i] != 0x3c)
			cell_fail(cell, "realloc() to %zu bytes: byte %zu is lost", *size, i);
	return larger;
}

static void realloc_free(struct cell *cell, void *block)
{
	(void)cell;
	if (realloc(block, 0))
		cell_fail(cell, "realloc(block, 0) is no free");
}

/* One that moves is malloc's from then on, and charged to the group that the thread is in. */
static void block_resize(struct cell *cell, struct block *block, size_t size)
{
	char *moved = realloc(block->at, size);

	if (!moved || moved == block->at)
		return;
	block->at = moved;
	block->maker = NULL;
	block->in_group = cell_is_in(cell, IN_GROUP);
}

static void realloc_disturb(struct cell *cell)
{
	for (int i = 0; i < BLOCKS; i++) {
		struct block *block = &cell->blocks[i];

		if (!block->at || (block->maker && block->maker != &feature_bucket &&
				   block->maker != &feature_group))
			continue;
		block_resize(cell, block, block->size * 2 + 17);
		block_resize(cell, block, block->size);
	}
}

const struct feature feature_realloc = {
	.name = "realloc",
	.alloc = realloc_alloc,
	.free = realloc_free,
	.disturb = realloc_disturb,
	/* There it may be refused. */
	.disturb_not = IN_HANDLER,
};

/* ---- bulk ---- */

enum { BULK = 144, NR_BULK = 12 };

static struct slub_cache *bulk;

static void bulk_enter(struct cell *cell)
{
	bulk = slub_cache_create("pair-bulk", BULK, 16, SLUB_CACHE_ACCOUNT, NULL);
	if (!bulk)
		cell_fail(cell, "slub_cache_create: errno %d", errno);
}

static void *bulk_alloc(struct cell *cell, size_t *size)
{
	void *objects[NR_BULK];

	(void)cell;
	*size = BULK;
	if (slub_cache_alloc_bulk(bulk, SLUB_ALLOC_ZERO, NR_BULK, objects) != NR_BULK)
		return NULL;
	for (int i = 0; i < NR_BULK; i++)
		for (int k = 0; k < BULK; k++)
			if (((char *)objects[i])[k])
				cell_fail(cell, "an object with a byte that is not zero");
	for (int i = 0; i < NR_BULK; i++)
		memset(objects[i], i, BULK);
	slub_cache_free_bulk(bulk, NR_BULK - 1, objects + 1);
	return objects[0];
}

static void bulk_free(struct cell *cell, void *block)
{
	(void)cell;
	slub_cache_free_bulk(bulk, 1, &block);
}

/* Among objects of the cache and of malloc, and nothing. */
static void bulk_release(struct cell *cell, void *block)
{
	void *objects[] = { slub_cache_alloc(bulk), NULL, block, malloc(70),
			    slub_cache_alloc(bulk) };

	(void)cell;
	slub_cache_free_bulk(NULL, 5, objects);
}

static bool bulk_leave(struct cell *cell)
{
	return cell_expect(cell, slub_cache_destroy(bulk), "slub_cache_destroy",
			   cell_is_in(cell, IN_READER) ? -EDEADLK : 0);
}

const struct feature feature_bulk = {
	.name = "bulk",
	.enter = bulk_enter,
	.leave = bulk_leave,
	.alloc = bulk_alloc,
	.free = bulk_free,
	.release = bulk_release,
};

/* ---- cpu ---- */

static cpu_set_t allowed;

static void cpu_enter(struct cell *cell)
{
	if (sched_getaffinity(0, sizeof(allowed), &allowed))
		cell_fail(cell, "sched_getaffinity: errno %d", errno);
}

/* Not where it is now, if there is another one. */
static void cpu_hop(void)
{
	int here = sched_getcpu();
	cpu_set_t others = allowed;

	if (here >= 0)
		CPU_CLR(here, &others);
	if (CPU_COUNT(&others))
		sched_setaffinity(0, sizeof(others), &others);
}

static void cpu_around(struct cell *cell)
{
	cpu_hop();
	cell_nest(cell);
	sched_setaffinity(0, sizeof(allowed), &allowed);
}

static void cpu_release(struct cell *cell, void *block)
{
	(void)cell;
	cpu_hop();
	free(block);
}

static void cpu_disturb(struct cell *cell)
{
	(void)cell;
	cpu_hop();
}

static bool cpu_leave(struct cell *cell)
{
	(void)cell;
	return !sched_setaffinity(0, sizeof(allowed), &allowed);
}

const struct feature feature_cpu = {
	.name = "cpu",
	.enter = cpu_enter,
	.leave = cpu_leave,
	.around = cpu_around,
	.release = cpu_release,
	.disturb = cpu_disturb,
};
