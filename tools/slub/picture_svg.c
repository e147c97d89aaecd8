/* SPDX-License-Identifier: MIT */
/*
 * The heap as SVG: a color for each cache, the stronger the fuller its slabs.
 * All cells that look the same are one path, with one rectangle for each run
 * of them in a row.
 */
#include "picture.h"
#include "view.h"

#include <inttypes.h>

#define CELL_WIDTH  10
#define CELL_HEIGHT 14
#define LEFT	    80
#define TOP	    48
#define LEGEND_LINE 18
#define NR_LEGEND   24

/* Hues a golden angle apart are told apart. */
static double rank_hue(size_t rank)
{
	double hue = 210 + 137.508 * (double)rank;

	while (hue >= 360)
		hue -= 360;
	return hue;
}

#define FILL_STEPS 5

/* Fill in steps, so that neighbours become one rectangle. */
static int fill_step(const struct cell *cell)
{
	return (int)(cell_fill(cell) * FILL_STEPS + 0.5);
}

static bool looks_same(const struct cell *a, const struct cell *b)
{
	return a->kind == b->kind &&
	       (a->kind != PIECE_SLAB || (a->cache == b->cache &&
					  fill_step(a) == fill_step(b)));
}

static void put_color(FILE *to, const struct picture *picture,
		      const struct cell *cell)
{
	static const char *const colors[] = {
		[PIECE_LARGE] = "#888888", [PIECE_IDLE] = "#d9cfa8",
		[PIECE_FREE] = "#f4f4f4",
		[PIECE_UNREADABLE] = "#000000",
	};

	if (cell->kind != PIECE_SLAB)
		fputs(colors[cell->kind], to);
	else
		fprintf(to, "hsl(%.0f,70%%,%d%%)",
			rank_hue(picture->ranks[cell->cache]),
			86 - 8 * fill_step(cell));
}

static void put_text(FILE *to, const char *text)
{
	for (; *text; text++) {
		if (*text == '<')
			fputs("&lt;", to);
		else if (*text == '>')
			fputs("&gt;", to);
		else if (*text == '&')
			fputs("&amp;", to);
		else
			fputc(*text, to);
	}
}

/* The rectangles of every run that looks like @look, as a path's data. */
static void put_runs(FILE *to, const struct picture *picture,
		     const struct cell *look, size_t from)
{
	for (size_t i = from; i < picture->nr_cells;) {
		size_t end = (i / picture->nr_columns + 1) *
			     picture->nr_columns;
		size_t nr = 0;

		if (end > picture->nr_cells)
			end = picture->nr_cells;
		while (i + nr < end && looks_same(&picture->cells[i + nr],
						  look))
			nr++;
		if (nr)
			fprintf(to, "M%zu %zuh%zuv%dh-%zuz",
				LEFT + i % picture->nr_columns * CELL_WIDTH,
				TOP + i / picture->nr_columns * CELL_HEIGHT,
				nr * CELL_WIDTH, CELL_HEIGHT - 2,
				nr * CELL_WIDTH);
		i += nr ? nr : 1;
	}
}

static void put_look(FILE *to, const struct picture *picture, size_t first)
{
	const struct cell *look = &picture->cells[first];

	fputs("<path fill='", to);
	put_color(to, picture, look);
	fputs("' d='", to);
	put_runs(to, picture, look, first);
	fputs("'>", to);
	if (look->kind == PIECE_SLAB) {
		fputs("<title>", to);
		put_text(to, picture->snapshot->caches[look->cache].name);
		fprintf(to, ", about %d %% in use</title>",
			100 / FILL_STEPS * fill_step(look));
	}
	fputs("</path>\n", to);
}

static bool is_first_of_its_look(const struct picture *picture, size_t i)
{
	for (size_t before = 0; before < i; before++) {
		if (looks_same(&picture->cells[before], &picture->cells[i]))
			return false;
	}
	return true;
}

static void put_cells(FILE *to, const struct picture *picture)
{
	for (size_t i = 0; i < picture->nr_cells; i++) {
		if (picture->cells[i].kind != PIECE_FREE &&
		    is_first_of_its_look(picture, i))
			put_look(to, picture, i);
	}
}

static void put_scale(FILE *to, const struct picture *picture, size_t rows)
{
	uint64_t row_bytes = picture->nr_columns * picture->pages_per_cell *
			     picture->snapshot->abi.page_bytes;
	char size[SIZE_TEXT];

	for (size_t row = 0; row < rows; row += rows > 16 ? 4 : 1)
		fprintf(to, "<text x='%d' y='%zu' text-anchor='end'>%s"
			"</text>\n", LEFT - 8, TOP + row * CELL_HEIGHT + 10,
			size_text(size, row * row_bytes, false));
}

static size_t put_legend_line(FILE *to, const struct cell *cell,
			      const struct picture *picture, size_t y,
			      const char *name, const char *rest)
{
	fprintf(to, "<rect x='%d' y='%zu' width='12' height='12' fill='", LEFT,
		y - 10);
	put_color(to, picture, cell);
	fprintf(to, "'/><text x='%d' y='%zu'>", LEFT + 20, y);
	put_text(to, name);
	fprintf(to, " %s</text>\n", rest);
	return y + LEGEND_LINE;
}

static size_t legend_height(const struct picture *picture)
{
	size_t nr = picture->snapshot->nr_caches;

	return ((nr < NR_LEGEND ? nr : NR_LEGEND) + 3) * LEGEND_LINE;
}

static void put_legend(FILE *to, const struct picture *picture, size_t y)
{
	const struct snapshot *snapshot = picture->snapshot;
	struct cell cell = { .kind = PIECE_LARGE };
	char rest[96], size[SIZE_TEXT];

	y = put_legend_line(to, &cell, picture, y, "large blocks", "");
	cell.kind = PIECE_IDLE;
	y = put_legend_line(to, &cell, picture, y, "idle memory", "");
	cell = (struct cell){ .kind = PIECE_SLAB, .inuse = 1, .capacity = 1 };
	for (size_t rank = 0; rank < NR_LEGEND; rank++) {
		for (cell.cache = 0; cell.cache < snapshot->nr_caches;
		     cell.cache++) {
			const struct cache_view *cache =
				&snapshot->caches[cell.cache];

			if (picture->ranks[cell.cache] != rank ||
			    !cache->slabs)
				continue;
			snprintf(rest, sizeof(rest), "%s, %.0f %% in use",
				 size_text(size, cache_bytes(snapshot, cache),
					   false),
				 percent(cache->active,
					 cache_capacity(cache)));
			y = put_legend_line(to, &cell, picture, y,
					    cache->name, rest);
		}
	}
}

void picture_print_svg(const struct picture *picture, FILE *to)
{
	size_t rows = (picture->nr_cells + picture->nr_columns - 1) /
		      picture->nr_columns;
	size_t width = LEFT + picture->nr_columns * CELL_WIDTH + 20;
	size_t bottom = TOP + rows * CELL_HEIGHT;
	char size[SIZE_TEXT];

	fprintf(to, "<svg xmlns='http://www.w3.org/2000/svg' width='%zu' "
		"height='%zu' font-family='sans-serif' font-size='11'>\n"
		"<rect width='100%%' height='100%%' fill='#ffffff'/>\n"
		"<text x='%d' y='24' font-size='15'>", width,
		bottom + 24 + legend_height(picture), LEFT);
	put_text(to, picture->snapshot->name);
	fprintf(to, ": the heap, a cell is %s</text>\n",
		size_text(size, picture->pages_per_cell *
			  picture->snapshot->abi.page_bytes, false));
	fprintf(to, "<rect x='%d' y='%d' width='%zu' height='%zu' "
		"fill='#f4f4f4'/>\n", LEFT, TOP,
		picture->nr_columns * CELL_WIDTH, rows * CELL_HEIGHT);
	put_scale(to, picture, rows);
	put_cells(to, picture);
	put_legend(to, picture, bottom + 24);
	fputs("</svg>\n", to);
}
