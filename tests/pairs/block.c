/* SPDX-License-Identifier: MIT */
/* The blocks of a cell: each has a stamp all over, and lies where no other one lies. */
#include "pairs.h"

/* Of large ones the first and the last bytes alone have a stamp. */
enum { ENDS = 4096 };

static void stamp(const struct block *block)
{
	size_t head = block->size < ENDS ? block->size : ENDS;

	fire_stamp(block->at, head, block->id);
	if (block->size > 2 * ENDS)
		fire_stamp(block->at + block->size / 8 * 8 - ENDS, ENDS, ~block->id);
}

static void stamp_check(struct cell *cell, const struct block *block)
{
	size_t head = block->size < ENDS ? block->size : ENDS;
	size_t at = fire_stamp_differs(block->at, head, block->id);

	if (at == head && block->size > 2 * ENDS) {
		head = ENDS;
		at = fire_stamp_differs(block->at + block->size / 8 * 8 - ENDS, ENDS, ~block->id);
	}
	if (at != head)
		cell_fail(cell, "block %p of %zu bytes, of %s: byte %zu of a stamp has changed",
			  (void *)block->at, block->size,
			  block->maker ? block->maker->name : "malloc", at);
}

static struct block *block_add(struct cell *cell, const struct feature *maker, void *at,
			       size_t size)
{
	struct block *place = NULL;

	for (int i = 0; i < BLOCKS; i++) {
		struct block *other = &cell->blocks[i];

		if (!other->at) {
			place = other;
			continue;
		}
		if ((char *)at < other->at + other->size && other->at < (char *)at + size)
			cell_fail(cell, "the same memory twice: %p of %zu bytes, of %s, and "
				  "%p of %zu, of %s",
				  at, size, maker ? maker->name : "malloc", (void *)other->at,
				  other->size, other->maker ? other->maker->name : "malloc");
	}
	if (!place)
		cell_fail(cell, "more than %d blocks", BLOCKS);
	place->at = at;
	place->size = size;
	place->maker = maker;
	place->id = ++cell->next_id;
	place->in_group = cell_is_in(cell, IN_GROUP) || maker == &feature_group;
	stamp(place);
	return place;
}

/* May no memory be an answer here? */
static bool is_refused(struct cell *cell)
{
	if (cell_is_in(cell, IN_HANDLER))
		return true;
	for (int i = 0; i < 2; i++)
		if (cell->is_there[i] && cell->pair[i]->refuses)
			return true;
	return false;
}

struct block *block_take(struct cell *cell, const struct feature *maker, size_t size)
{
	void *at;

	if (maker && (!maker->alloc || !cell_has(cell, maker) ||
		      cell_is_in(cell, maker->alloc_not)))
		maker = NULL;
	errno = 0;
	at = maker ? maker->alloc(cell, &size) : malloc(size);
	if (at)
		return block_add(cell, maker, at, size);
	if (!is_refused(cell) || errno != ENOMEM)
		cell_fail(cell, "%s: no memory for %zu bytes, errno %d",
			  maker ? maker->name : "malloc", size, errno);
	return NULL;
}

bool block_give(struct cell *cell, struct block *block, const struct feature *by)
{
	const struct feature *maker = block->maker;
	void *at = block->at;

	if (!at)
		return true;
	if (by && (!by->release || !cell_has(cell, by) || cell_is_in(cell, by->release_not) ||
		   (maker && maker->is_freed_by_itself)))
		by = NULL;
	if (!by && maker && cell_is_in(cell, maker->free_not))
		return false;
	stamp_check(cell, block);
	block->at = NULL;
	if (by)
		by->release(cell, at);
	else if (maker)
		maker->free(cell, at);
	else
		free(at);
	return true;
}

void blocks_check(struct cell *cell)
{
	for (int i = 0; i < BLOCKS; i++)
		if (cell->blocks[i].at)
			stamp_check(cell, &cell->blocks[i]);
}

size_t blocks_of(const struct cell *cell, const struct feature *maker)
{
	size_t nr = 0;

	for (int i = 0; i < BLOCKS; i++)
		nr += cell->blocks[i].at && cell->blocks[i].maker == maker;
	return nr;
}

void blocks_give_all(struct cell *cell, const struct feature *maker, const struct feature *by)
{
	for (int i = 0; i < BLOCKS; i++)
		if (cell->blocks[i].at && cell->blocks[i].maker == maker &&
		    !block_give(cell, &cell->blocks[i], by))
			cell_fail(cell, "a block of %s cannot be freed here",
				  maker ? maker->name : "malloc");
}

/* ---- memory without a stamp ---- */

struct loose loose_take(struct cell *cell, const struct feature *me, size_t size)
{
	const struct feature *other = cell_other(cell, me);
	struct loose loose = { NULL, NULL };
	size_t got = size;

	if (other->alloc && cell_has(cell, other) && !cell_is_in(cell, other->alloc_not)) {
		loose.at = other->alloc(cell, &got);
		loose.maker = other;
		if (loose.at && got >= size)
			return loose;
		if (!loose.at && errno == ENOMEM)
			return loose;
		if (loose.at)
			other->free(cell, loose.at);
	}
	loose.maker = NULL;
	loose.at = malloc(size);
	return loose;
}

void loose_give(struct cell *cell, const struct feature *me, struct loose loose)
{
	const struct feature *other = cell_other(cell, me);

	if (!loose.at)
		return;
	if (other->release && cell_has(cell, other) && !cell_is_in(cell, other->release_not) &&
	    !(loose.maker && loose.maker->is_freed_by_itself))
		other->release(cell, loose.at);
	else if (loose.maker)
		loose.maker->free(cell, loose.at);
	else
		free(loose.at);
}

void fill_until_refused(struct cell *cell, const struct feature *me, size_t piece)
{
	enum { PIECES = 256 };
	static struct loose some[PIECES];
	size_t nr = 0;
	void *volatile again;	/* else the compiler may leave both calls out */

	while (nr < PIECES) {
		errno = 0;
		some[nr] = loose_take(cell, me, piece);
		if (!some[nr].at)
			break;
		memset(some[nr++].at, 1, piece < ENDS ? piece : ENDS);
	}
	if (nr == PIECES || errno != ENOMEM)
		cell_fail(cell, "%zu pieces of %zu bytes, errno %d, and a limit", nr, piece, errno);
	for (size_t i = 0; i < nr; i++)
		loose_give(cell, me, some[i]);
	/* While a reader is inside its memory cannot come back. */
	if (nr < 4 || (cell_is_in(cell, IN_READER) && cell->handed_over))
		return;
	again = malloc(piece * 3);
	if (!again && !cell_has(cell, &feature_fail))
		cell_fail(cell, "%zu pieces of %zu bytes were freed, and there is no room for %zu",
			  nr, piece, piece * 3);
	free(again);
}
