/* SPDX-License-Identifier: MIT */
/* The heap as a grid of cells. */
#include "picture.h"
#include "slub.h"
#include "view.h"

#include <errno.h>
#include <stdlib.h>

double cell_fill(const struct cell *cell)
{
	return cell->capacity ?
	       (double)cell->inuse / (double)cell->capacity : 0;
}

/* What most of a cell's pages are: the last of its kind that was not outvoted. */
static void cell_vote(struct cell *cell, const struct piece *piece,
		      uint64_t pages)
{
	bool is_same = cell->kind == piece->kind &&
		       (piece->kind != PIECE_SLAB ||
			cell->cache == piece->cache);

	if (is_same) {
		cell->kind_pages += pages;
	} else if (cell->kind_pages >= pages) {
		cell->kind_pages -= pages;
	} else {
		cell->kind = piece->kind;
		cell->cache = piece->cache;
		cell->kind_pages = pages - cell->kind_pages;
	}
}

static void add_piece(const struct piece *piece, void *arg)
{
	struct picture *picture = arg;
	const struct snapshot *snapshot = picture->snapshot;
	uint64_t first = (piece->address - snapshot->abi.heap_start) /
			 snapshot->abi.page_bytes;
	uint64_t end = first + piece->pages;

	while (first < end) {
		uint64_t number = first / picture->pages_per_cell;
		uint64_t next = (number + 1) * picture->pages_per_cell;
		uint64_t pages = (next < end ? next : end) - first;
		struct cell *cell = &picture->cells[number];

		if (number >= picture->nr_cells)
			return;
		cell_vote(cell, piece, pages);
		if (piece->kind == PIECE_SLAB) {
			cell->inuse += piece->inuse * pages;
			cell->capacity += pages * cache_field(
				&snapshot->caches[piece->cache],
				SLUB_ABI_CACHE_OBJECTS);
		}
		first += pages;
	}
}

static const struct snapshot *ranking;

static int by_bytes(const void *a, const void *b)
{
	uint64_t x = cache_bytes(ranking,
				 &ranking->caches[*(const size_t *)a]);
	uint64_t y = cache_bytes(ranking,
				 &ranking->caches[*(const size_t *)b]);

	return compare_numbers(y, x);
}

static void rank_caches(struct picture *picture)
{
	size_t nr = picture->snapshot->nr_caches;
	size_t *sorted = must_have(calloc(nr, sizeof(*sorted)));

	picture->ranks = must_have(calloc(nr, sizeof(*picture->ranks)));
	for (size_t i = 0; i < nr; i++)
		sorted[i] = i;
	ranking = picture->snapshot;
	qsort(sorted, nr, sizeof(*sorted), by_bytes);
	for (size_t i = 0; i < nr; i++)
		picture->ranks[sorted[i]] = i;
	free(sorted);
}

void picture_make(struct picture *picture, const struct snapshot *snapshot,
		  size_t columns, size_t rows_max)
{
	uint64_t pages = snapshot->abi.heap_bytes / snapshot->abi.page_bytes;

	*picture = (struct picture){
		.snapshot = snapshot,
		.pages_per_cell = 1,
		.nr_columns = columns,
	};
	while (pages / picture->pages_per_cell > columns * rows_max)
		picture->pages_per_cell *= 2;
	picture->nr_cells = (size_t)((pages + picture->pages_per_cell - 1) /
				     picture->pages_per_cell);
	picture->cells = must_have(calloc(picture->nr_cells, sizeof(*picture->cells)));
	for (size_t i = 0; i < picture->nr_cells; i++)
		picture->cells[i].kind = PIECE_FREE;
	rank_caches(picture);
	heap_walk(snapshot->process, snapshot, add_piece, picture);
}

void picture_free(struct picture *picture)
{
	free(picture->cells);
	free(picture->ranks);
	picture->cells = NULL;
	picture->ranks = NULL;
}
