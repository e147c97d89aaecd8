/* SPDX-License-Identifier: MIT */
/*
 * The heap in letters: one for each of the 26 largest caches, a capital where
 * at least three quarters of the objects are in use.
 */
#include "picture.h"
#include "view.h"

#include <inttypes.h>

#define NR_LETTERS 26

/* 256-color numbers that tell neighbours apart on dark and light. */
static const unsigned char colors[] = {
	33, 208, 40, 198, 51, 220, 129, 118, 203, 75, 178, 171, 43,
	167, 111, 148, 205, 69, 214, 35, 135, 190, 161, 81, 137, 244,
};

static char cell_letter(const struct picture *picture,
			const struct cell *cell)
{
	size_t rank = picture->ranks[cell->cache];

	if (rank >= NR_LETTERS)
		return '*';
	return (char)((cell_fill(cell) >= 0.75 ? 'A' : 'a') + (int)rank);
}

static void print_cell(const struct picture *picture,
		       const struct cell *cell, bool color)
{
	static const char marks[] = {
		[PIECE_LARGE] = '=', [PIECE_IDLE] = '.', [PIECE_FREE] = ' ',
		[PIECE_UNREADABLE] = '?',
	};
	size_t rank;

	if (cell->kind != PIECE_SLAB) {
		putchar(marks[cell->kind]);
		return;
	}
	rank = picture->ranks[cell->cache];
	if (color && rank < NR_LETTERS)
		printf("\033[38;5;%um%c\033[0m", colors[rank],
		       cell_letter(picture, cell));
	else
		putchar(cell_letter(picture, cell));
}

static void print_legend(const struct picture *picture)
{
	const struct snapshot *snapshot = picture->snapshot;

	puts("\nA capital: three quarters of the objects or more in use.");
	for (size_t rank = 0; rank < NR_LETTERS; rank++) {
		for (size_t i = 0; i < snapshot->nr_caches; i++) {
			const struct cache_view *cache = &snapshot->caches[i];
			char size[SIZE_TEXT];

			if (picture->ranks[i] != rank || !cache->slabs)
				continue;
			printf("%c %-20s %9s in %" PRIu64 " slabs, %3.0f %% "
			       "in use\n", (char)('A' + rank), cache->name,
			       size_text(size, cache_bytes(snapshot, cache),
					 false), cache->slabs,
			       percent(cache->active, cache_capacity(cache)));
		}
	}
	puts("* other caches   = large block   . idle memory   (blank) free\n"
	     "? not readable");
}

/* Rows at the end that hold nothing are not printed. */
static size_t count_rows(const struct picture *picture)
{
	size_t end = picture->nr_cells;

	while (end && picture->cells[end - 1].kind == PIECE_FREE)
		end--;
	return (end + picture->nr_columns - 1) / picture->nr_columns;
}

void picture_print_text(const struct picture *picture, bool color)
{
	const struct slub_abi *abi = &picture->snapshot->abi;
	uint64_t cell_bytes = picture->pages_per_cell * abi->page_bytes;
	size_t rows = count_rows(picture);
	char size[SIZE_TEXT];

	printf("%s, heap at %#" PRIx64 ", one letter is %s\n\n",
	       picture->snapshot->target, abi->heap_start,
	       size_text(size, cell_bytes, false));
	for (size_t row = 0; row < rows; row++) {
		size_t i = row * picture->nr_columns;
		size_t end = i + picture->nr_columns;

		printf("%9s |", size_text(size, i * cell_bytes, false));
		for (; i < end && i < picture->nr_cells; i++)
			print_cell(picture, &picture->cells[i], color);
		for (; i < end; i++)
			putchar(' ');
		puts("|");
	}
	print_legend(picture);
}
