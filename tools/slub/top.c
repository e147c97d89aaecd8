/* SPDX-License-Identifier: MIT */
/* What slub top shows. */
#include "top.h"
#include "account.h"
#include "groups.h"

#include <inttypes.h>

struct sums {
	uint64_t objects, active, slabs, active_slabs, bytes, active_bytes;
};

static struct sums sum(const struct snapshot *now)
{
	struct sums s = { 0 };

	for (size_t i = 0; i < now->nr_caches; i++) {
		const struct cache_view *cache = &now->caches[i];

		s.objects += cache_capacity(cache);
		s.active += cache->active;
		s.slabs += cache->slabs;
		s.active_slabs += cache->slabs - cache->empty;
		s.bytes += cache_bytes(now, cache);
		s.active_bytes += cache->active * cache_field(cache, SLUB_ABI_CACHE_SIZE);
	}
	return s;
}

static void print_pair(FILE *to, const char *what, uint64_t active,
		       uint64_t total)
{
	fprintf(to, " %-34s : %" PRIu64 " / %" PRIu64 " (%.1f%%)\n", what,
		active, total, percent(active, total));
}

static void print_identity(FILE *to, const struct snapshot *now)
{
	char when[32];

	fprintf(to, " %s", now->target);
	if (now->name[0])
		fprintf(to, " (%s)", now->name);
	if (!now->process)
		fprintf(to, ", as of %s%s", time_text(when, now->time_ns),
			now->has_exited ? ", when it exited" : "");
	fputc('\n', to);
}

/* Returns how many lines it has. */
static size_t print_head(FILE *to, const struct snapshot *now, const struct top *top)
{
	struct sums s = sum(now);
	char a[SIZE_TEXT], b[SIZE_TEXT];
	struct account account;
	size_t lines;

	account_make(&account, now);
	print_identity(to, now);
	lines = account_print_short(to, &account, now, top_columns(top));
	print_pair(to, "Active / Total Objects (% used)", s.active, s.objects);
	print_pair(to, "Active / Total Slabs (% used)", s.active_slabs,
		   s.slabs);
	fprintf(to, " %-34s : %s / %s (%.1f%%)\n",
		"Active / Total Size (% used)",
		size_text(a, s.active_bytes, false),
		size_text(b, s.bytes, false), percent(s.active_bytes,
						      s.bytes));
	return lines + 4;
}

/* ---- columns ---- */

enum column {
	COLUMN_OBJS, COLUMN_ACTIVE, COLUMN_USE, COLUMN_OBJ_SIZE, COLUMN_SLABS,
	COLUMN_OBJ_PER_SLAB, COLUMN_CACHE_SIZE, COLUMN_CACHED, COLUMN_WASTE, COLUMN_SLACK,
	COLUMN_FAST, COLUMN_GROWTH, COLUMNS,
};

/* With the blank before it. */
static const struct {
	const char *title;
	int width;
	enum sort_key key;		/* the order that is by it */
} columns[COLUMNS] = {
	[COLUMN_OBJS] = { "OBJS", 7, SORT_OBJECTS },
	[COLUMN_ACTIVE] = { "ACTIVE", 8, SORT_ACTIVE },
	[COLUMN_USE] = { "USE", 5, SORT_USE },
	[COLUMN_OBJ_SIZE] = { "OBJ SIZE", 9, SORT_SIZE },
	[COLUMN_SLABS] = { "SLABS", 7, SORT_SLABS },
	[COLUMN_OBJ_PER_SLAB] = { "OBJ/SLAB", 9, SORT_PER_SLAB },
	[COLUMN_CACHE_SIZE] = { "CACHE SIZE", 11, SORT_BYTES },
	[COLUMN_CACHED] = { "CACHED", 8, SORT_BYTES },
	[COLUMN_WASTE] = { "WASTE", 8, SORT_WASTE },
	[COLUMN_SLACK] = { "SLACK", 8, SORT_SLACK },
	[COLUMN_FAST] = { "FAST", 7, SORT_FAST },
	[COLUMN_GROWTH] = { "GROWTH", 8, SORT_GROWTH },
};

/* The first are the last to go when there is no room for all. */
static const enum column priorities[COLUMNS] = {
	COLUMN_CACHE_SIZE, COLUMN_USE, COLUMN_WASTE, COLUMN_ACTIVE, COLUMN_GROWTH,
	COLUMN_CACHED, COLUMN_OBJ_SIZE, COLUMN_OBJS, COLUMN_SLABS, COLUMN_SLACK, COLUMN_FAST,
	COLUMN_OBJ_PER_SLAB,
};

/* A name comes first: so many columns are its own, whatever else there is room for. */
#define NAME_COLUMNS 16

/* A bit for each column that fits: that of the order, and then by their priority. */
static unsigned int choose(const struct top *top)
{
	size_t room = top_columns(top), used = NAME_COLUMNS;
	unsigned int chosen = 0;

	for (int i = -1; i < COLUMNS; i++) {
		for (enum column c = 0; c < COLUMNS; c++) {
			bool is_next = i < 0 ? columns[c].key == top->key &&
					       c != COLUMN_CACHED : priorities[i] == c;

			if (!is_next || chosen >> c & 1 ||
			    used + (size_t)columns[c].width > room)
				continue;
			chosen |= 1u << c;
			used += (size_t)columns[c].width;
		}
	}
	return chosen;
}

/* "+1.0M", "" for nothing. */
static const char *growth_text(char *buf, int64_t growth)
{
	uint64_t size = growth < 0 ? -(uint64_t)growth : (uint64_t)growth;

	buf[0] = '\0';
	if (growth)
		size_text(buf + 1, size, false);
	if (growth)
		buf[0] = growth < 0 ? '-' : '+';
	return buf;
}

struct row {
	const struct snapshot *now, *before;
	const struct cache_view *cache;
	bool human;
};

static const char *size_column(char *text, const struct row *row, enum column column)
{
	uint64_t size = cache_field(row->cache, SLUB_ABI_CACHE_SIZE);
	uint64_t all = cache_bytes(row->now, row->cache);

	if (row->human)
		return size_text(text, column == COLUMN_OBJ_SIZE ? size : all, false);
	if (column == COLUMN_OBJ_SIZE)
		snprintf(text, SIZE_TEXT, "%.2fK", (double)size / 1024);
	else
		snprintf(text, SIZE_TEXT, "%" PRIu64 "K", all / 1024);
	return text;
}

static const char *fast_text(char *text, const struct cache_view *cache)
{
	double share = cache_fast_percent(cache);

	snprintf(text, SIZE_TEXT, share > 0 ? "%.1f%%" : "-", share);
	return text;
}

static uint64_t number(const struct cache_view *cache, enum column column)
{
	switch (column) {
	case COLUMN_OBJS:
		return cache_capacity(cache);
	case COLUMN_ACTIVE:
		return cache->active;
	case COLUMN_SLABS:
		return cache->slabs;
	case COLUMN_OBJ_PER_SLAB:
		return cache_field(cache, SLUB_ABI_CACHE_OBJECTS);
	default:
		return cache->cached;
	}
}

/* Its text in @text, with a byte more than SIZE_TEXT for a sign. */
static const char *cell(char *text, const struct row *row, enum column column)
{
	const struct cache_view *cache = row->cache;

	switch (column) {
	case COLUMN_USE:
		snprintf(text, SIZE_TEXT, "%3.0f%%", percent(cache->active,
							     cache_capacity(cache)));
		return text;
	case COLUMN_OBJ_SIZE:
	case COLUMN_CACHE_SIZE:
		return size_column(text, row, column);
	case COLUMN_WASTE:
		return size_text(text, cache_waste(row->now, cache), false);
	case COLUMN_SLACK:
		return slack_text(text, cache, false);
	case COLUMN_FAST:
		return fast_text(text, cache);
	case COLUMN_GROWTH:
		return growth_text(text, cache_growth(row->now, row->before, cache));
	default:
		snprintf(text, SIZE_TEXT, "%" PRIu64, number(cache, column));
		return text;
	}
}

/* @row NULL: the titles. */
static void print_row(FILE *to, const struct row *row, unsigned int chosen)
{
	char text[SIZE_TEXT + 1];

	for (enum column c = 0; c < COLUMNS; c++) {
		if (chosen >> c & 1)
			fprintf(to, c == COLUMN_OBJS ? "%*s" : " %*s",
				columns[c].width - (c != COLUMN_OBJS),
				row ? cell(text, row, c) : columns[c].title);
	}
	fprintf(to, " %s\n", row ? row->cache->name : "NAME");
}

static int print_groups(FILE *to, const struct snapshot *now, struct top *top, size_t lines)
{
	struct groups groups;
	int status = groups_read(&groups, now, "top");

	if (status)
		return status;
	top->titles = print_head(to, now, top);
	groups_print(to, &groups, top->key == SORT_NAME, false, top_columns(top),
		     lines > top->titles + 1 ? lines - top->titles - 1 : 1);
	groups_free(&groups);
	return 0;
}

static void print_caches(FILE *to, struct snapshot *now, const struct snapshot *before,
			 struct top *top, size_t lines)
{
	unsigned int chosen = choose(top);
	size_t nr;

	top->titles = print_head(to, now, top);
	nr = top->titles + 1;
	print_row(to, NULL, chosen);
	cache_sort(now, before, top->key);
	for (size_t i = 0; i < now->nr_caches && nr < lines; i++) {
		struct row row = { now, before, &now->caches[i], top->human };

		if (!row.cache->slabs)
			continue;
		print_row(to, &row, chosen);
		nr++;
	}
}

int top_print(FILE *to, struct snapshot *now, const struct snapshot *before,
	      struct top *top, size_t lines)
{
	if (top->groups)
		return print_groups(to, now, top, lines);
	print_caches(to, now, before, top, lines);
	return 0;
}
