/* SPDX-License-Identifier: MIT */
/* slub map: a picture of the heap. */
#include "json.h"
#include "picture.h"
#include "request.h"
#include "view.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define COLUMNS_MIN 16
#define COLUMNS_MAX 512
#define ROWS_TEXT   32
#define ROWS_SVG    64

enum { OPTION_SVG = REQUEST_FIRST_OWN, OPTION_COLUMNS };

struct map {
	bool svg;
	double columns;			/* 0: as wide as the terminal */
	int status;
};

static void print_map_help(FILE *to)
{
	fputs("usage: slub map [OPTION...] TARGET\n\n"
	      "Draws the heap of a process, from its lowest address up: which\n"
	      "cache has which pages, and how full they are.  The process is\n"
	      "not stopped.  A statistics file has no heap to draw.\n\n"
	      "  slub map --svg 1234 > heap.svg\n\n"
	      "      --svg             draw SVG\n"
	      "      --columns=N       cells in a row\n", to);
	request_print_help(to, false);
}

static size_t columns_of_terminal(void)
{
	struct winsize size;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || size.ws_col < 40)
		return 64;
	return size.ws_col - 14u;
}

struct pieces {
	struct json *json;
	const struct snapshot *snapshot;
};

static void put_piece(const struct piece *piece, void *arg)
{
	static const char *const kinds[] = {
		[PIECE_SLAB] = "slab", [PIECE_LARGE] = "large",
		[PIECE_IDLE] = "idle", [PIECE_UNREADABLE] = "unreadable",
	};
	const struct pieces *pieces = arg;
	const struct cache_view *cache =
		&pieces->snapshot->caches[piece->cache];
	struct json *json = pieces->json;

	if (piece->kind == PIECE_FREE)
		return;
	json_open(json, NULL);
	json_string(json, "kind", kinds[piece->kind]);
	json_address(json, "address", piece->address);
	json_number(json, "pages", piece->pages);
	if (piece->kind == PIECE_SLAB) {
		json_string(json, "cache", cache->name);
		json_number(json, "objects", piece->inuse);
		json_number(json, "carved", piece->carved);
		json_number(json, "capacity",
			    cache_field(cache, SLUB_ABI_CACHE_OBJECTS));
	}
	json_close(json);
}

static void print_json(const struct snapshot *now)
{
	struct json json = { .to = stdout };
	struct pieces pieces = { &json, now };

	json_open_snapshot(&json, now, "map");
	json_totals(&json, now, "heap");
	json_number(&json, "page_bytes", now->abi.page_bytes);
	json_address(&json, "heap_start", now->abi.heap_start);
	json_open_array(&json, "pieces");
	heap_walk(now->process, now, put_piece, &pieces);
	json_close(&json);
	json_close(&json);
}

static void print_picture(const struct snapshot *now,
			  const struct request *request, const struct map *map)
{
	size_t columns = map->columns ? (size_t)map->columns :
			 map->svg ? 128 : columns_of_terminal();
	struct picture picture;

	picture_make(&picture, now, columns, map->svg ? ROWS_SVG : ROWS_TEXT);
	if (map->svg)
		picture_print_svg(&picture, stdout);
	else
		picture_print_text(&picture, request->color);
	picture_free(&picture);
}

static void print(struct snapshot *now, const struct snapshot *before,
		  const struct request *request, void *arg)
{
	struct map *map = arg;

	(void)before;
	if (!now->process) {
		complain("map: %s is a statistics file, which has no heap to "
			 "draw; a process or a core file has", now->target);
		map->status = STATUS_USAGE;
		return;
	}
	if (request->format == FORMAT_JSON)
		print_json(now);
	else
		print_picture(now, request, map);
}

static int parse(int argc, char **argv, struct request *request,
		 struct map *map)
{
	const struct own_option own[] = {
		{ "svg", OPTION_SVG, .on = &map->svg },
		{ "columns", OPTION_COLUMNS, .number = &map->columns,
		  .min = COLUMNS_MIN, .max = COLUMNS_MAX },
	};
	int status = request_parse(request, argc, argv, own, 2, NULL);

	if (status)
		return status;
	if (request->help)
		return 0;
	if (request->format == FORMAT_OPENMETRICS) {
		complain("map: a picture is no metric; use --json or --svg");
		return STATUS_USAGE;
	}
	return request_check(request, argc, argv, 0);
}

static int map_main(int argc, char **argv)
{
	struct map map = { .svg = false };
	struct request request;
	int status;

	request_init(&request, "map");
	status = parse(argc, argv, &request, &map);
	if (status)
		return status;
	if (request.help) {
		print_map_help(stdout);
		return 0;
	}
	status = request_run(&request, print, &map);
	return status ? status : map.status;
}

const struct command cmd_map = {
	.name = "map",
	.summary = "draws the heap of a process",
	.print_help = print_map_help,
	.main = map_main,
};
