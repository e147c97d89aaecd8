/* SPDX-License-Identifier: MIT */
/*
 * The account of a process's memory: every byte of its RSS is in one part of it, and the largest
 * part says why memory does not go down.
 */
#ifndef SLUB_TOOL_ACCOUNT_H
#define SLUB_TOOL_ACCOUNT_H

#include "json.h"
#include "snapshot.h"

enum account_part {
	ACCOUNT_LIVE,		/* objects and large blocks that the program holds */
	ACCOUNT_LISTS,		/* freed objects in the lists of CPUs and in barns */
	ACCOUNT_HOLES,		/* the rest of slabs that an object keeps */
	ACCOUNT_HELD,		/* free pages and empty slabs */
	ACCOUNT_TABLES,		/* the library's own structures */
	ACCOUNT_ELSEWHERE,	/* outside the heap: code, stacks, files, other mappings */
	ACCOUNT_PARTS,
};

/* What is known of one cache: bytes, those of slabs with memory behind them. */
struct account_cache {
	uint64_t slabs;		/* slabs with an object in use */
	uint64_t used;		/* objects that the program holds */
	uint64_t cached;	/* objects in lists and barns */
	uint64_t sparse;	/* of `slabs`: those with free objects too */
	uint64_t sparse_used;	/* objects of these that are not free */
	uint64_t sparse_room;	/* all their objects */
	uint64_t spare;		/* pages of these without an object in use */
};

struct account_input {
	const struct account_cache *caches;
	size_t nr_caches;
	uint64_t large, held, tables;
	uint64_t rss;		/* 0: not known */
	uint64_t retain;	/* what of the free pages stays after a shrink */
};

#define ACCOUNT_NO_CACHE SIZE_MAX

/* The name of a mapping that has none. */
#define ACCOUNT_NO_FILE "memory of no file"

struct account {
	bool has_rss;		/* false: the parts are of the heap alone */
	bool may_shrink;	/* there is a process that could */
	uint64_t all;		/* sum of the parts: the RSS, if it is known */
	uint64_t parts[ACCOUNT_PARTS];
	uint64_t back;		/* what `slub shrink` would give back, about */
	enum account_part why;	/* the largest part */
	uint64_t why_bytes;	/* of it; for holes: of the slabs that they are in */
	size_t largest;		/* the cache with most of that part */
	uint64_t largest_bytes;
	uint64_t kept_percent;	/* of the objects of slabs with holes, in use */
	char place[64];		/* ACCOUNT_ELSEWHERE: the mapping with most of it */
};

/* account.c: by the numbers alone. */
void account_sum(struct account *account, const struct account_input *input);
/* account_read.c: of the process, the core or the file that the snapshot is of. */
void account_make(struct account *account, const struct snapshot *snapshot);

const char *account_part_name(enum account_part part);
/* One sentence, for the caller to free; without a process nothing is said of `slub shrink`. */
char *account_why(const struct account *account, const struct snapshot *snapshot);
/* The sum, line by line, as the head of `slub stats`. */
void account_print(FILE *to, const struct account *account, const struct snapshot *snapshot);
/*
 * The same in two lines of a table, and the sentence in lines of @columns, two at the most.
 * Returns how many lines that is.
 */
size_t account_print_short(FILE *to, const struct account *account,
			   const struct snapshot *snapshot, size_t columns);
void account_json(struct json *json, const struct account *account,
		  const struct snapshot *snapshot);

#endif
