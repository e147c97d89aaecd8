/* SPDX-License-Identifier: MIT */
/* The heap as a grid of cells, each some pages, and its two renderings. */
#ifndef SLUB_TOOL_PICTURE_H
#define SLUB_TOOL_PICTURE_H

#include "heap.h"

#include <stdio.h>

struct cell {
	enum piece_kind kind;		/* of most of it */
	uint64_t kind_pages;
	size_t cache;			/* of a PIECE_SLAB */
	uint64_t inuse;			/* objects in its slabs */
	uint64_t capacity;
};

struct picture {
	const struct snapshot *snapshot;
	uint64_t pages_per_cell;	/* a power of two */
	size_t nr_columns;
	size_t nr_cells;
	struct cell *cells;
	/* caches by their slabs' bytes, the largest first; see picture_rank() */
	size_t *ranks;
};

/* At most about @rows_max rows of @columns cells. */
void picture_make(struct picture *picture, const struct snapshot *snapshot,
		  size_t columns, size_t rows_max);
void picture_free(struct picture *picture);
/* How full the slabs of the cell are, 0 to 1. */
double cell_fill(const struct cell *cell);

void picture_print_text(const struct picture *picture, bool color);
void picture_print_svg(const struct picture *picture, FILE *to);

#endif
