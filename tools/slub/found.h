/* SPDX-License-Identifier: MIT */
/* The bugs that a process has found in its watched caches, and where it reports them. */
#ifndef SLUB_TOOL_FOUND_H
#define SLUB_TOOL_FOUND_H

#include "json.h"
#include "snapshot.h"

struct found_cache {
	char name[CACHE_NAME_SIZE];	/* that the program knows */
	uint64_t bugs;
};

/* Of a process: what it counts by itself, at its calls and by each validation. */
struct found {
	bool is_known;			/* false: an older library does not say */
	uint64_t bugs;
	struct found_cache *caches;	/* that have any */
	size_t nr;
};

/* Of the caches that are or were watched and are called @pattern; ends with found_free(). */
void found_read(struct found *found, const struct snapshot *now, const char *pattern);
void found_free(struct found *found);

enum reports {
	REPORTS_UNKNOWN,		/* the library is too old to say */
	REPORTS_NOWHERE,
	REPORTS_STDERR,
	REPORTS_FILE,
};

/* Where reports of watched caches go; *@path: the file, as the option has it. */
enum reports reports_of(const struct snapshot *now, const char **path);
/* A line about that for people: nothing where it is not known. */
void reports_print(const struct snapshot *now);
/* The same as a member: "nowhere", "stderr" or the file. */
void reports_put(struct json *json, const struct snapshot *now);

#endif
