/* SPDX-License-Identifier: MIT */
/* Caches in order, and numbers as people read them. */
#ifndef SLUB_TOOL_VIEW_H
#define SLUB_TOOL_VIEW_H

#include "json.h"
#include "snapshot.h"

/* The letters are slabtop's; the capitals are slabinfo's options. */
enum sort_key {
	SORT_ACTIVE = 'a',
	SORT_PER_SLAB = 'b',
	SORT_BYTES = 'c',
	SORT_SLABS = 'l',
	SORT_ACTIVE_SLABS = 'v',
	SORT_NAME = 'n',
	SORT_OBJECTS = 'o',
	SORT_PAGES = 'p',
	SORT_SIZE = 's',
	SORT_USE = 'u',
	SORT_WASTE = 'w',
	SORT_GROWTH = 'g',
	SORT_SLACK = 'k',
	SORT_FAST = 'f',
	SORT_PARTIAL = 'P',
	SORT_ACTIVITY = 'A',
};

/* The keys with their meanings, for --help. */
void sort_print_help(FILE *to);
/* The keys alone, "a b c". */
const char *sort_keys(void);
/* @before, for the growth, may be NULL. */
void cache_sort(struct snapshot *snapshot, const struct snapshot *before,
		enum sort_key key);
bool sort_key_is_known(int letter);

#define SIZE_TEXT 24
/* "8.0M"; with @exact the bytes. */
const char *size_text(char buf[SIZE_TEXT], uint64_t bytes, bool exact);
double percent(uint64_t part, uint64_t whole);

/* Memory that its slabs take beyond the objects that the program holds. */
uint64_t cache_waste(const struct snapshot *snapshot,
		     const struct cache_view *cache);
/*
 * Of the objects in use, what was not asked for: the rest of their size class, an
 * estimate; false: not known.
 */
bool cache_slack(const struct cache_view *cache, uint64_t *bytes);
/*
 * The fast path counts nothing.  But a list that was fetched is handed out object
 * by object, one of them by the slow path: so about this share of the allocations
 * at the least went by the fast one; 0: nothing is known.
 */
double cache_fast_percent(const struct cache_view *cache);
/* As text; "-" if it is not known. */
const char *slack_text(char buf[SIZE_TEXT], const struct cache_view *cache,
		       bool exact);
/* Bytes that it has grown since @before; 0 without one. */
int64_t cache_growth(const struct snapshot *snapshot,
		     const struct snapshot *before,
		     const struct cache_view *cache);
/* Chains and slabs that moved on its behalf since the start. */
uint64_t cache_activity(const struct cache_view *cache);

/* The time as "2026-01-31 12:00:00"; "unknown" for 0. */
const char *time_text(char buf[32], uint64_t ns);

/* The head that every JSON output of a snapshot begins with. */
void json_open_snapshot(struct json *json, const struct snapshot *snapshot,
			const char *what);
/* What the expressions of value.def are about, of a heap that was read. */
struct heap_census {
	uint64_t committed_bytes, slab_bytes, active_bytes, large_bytes, dirty_bytes, refused_bytes;
	uint64_t moved_runs, deferred_bytes, deferred_objects;
	uint64_t objects, object_bytes;	/* active ones */
	uint64_t cached, cached_bytes;	/* of these, in lists */
	uint64_t free, free_bytes;	/* in slabs */
};

struct heap_census heap_census_of(const struct snapshot *snapshot);
/* An object @what, "heap" or "objects", of the rows whose names begin so. */
void json_totals(struct json *json, const struct snapshot *snapshot, const char *what);

#endif
