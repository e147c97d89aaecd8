/* SPDX-License-Identifier: MIT */
/* What the files of `slub explain` share. */
#ifndef SLUB_TOOL_EXPLAIN_H
#define SLUB_TOOL_EXPLAIN_H

#include "guard.h"
#include "heap.h"
#include "json.h"
#include "snapshot.h"
#include "source.h"

/* Which piece of the heap an address lies in. */
struct search {
	const struct snapshot *snapshot;
	uint64_t address;
	uint64_t clock_offset_ns;	/* CLOCK_REALTIME less the tracks' clock; 0: not known */
	struct piece piece;
	bool found;
};

enum object_kind {
	OBJECT_USED,		/* now, or it was once */
	OBJECT_WATCHED,
	OBJECT_NEVER_USED,
	OBJECT_HOLE,		/* free; what memory it had went back */
	OBJECT_BEHIND,		/* no object: behind the last one of the slab */
};

/* The object of a slab that the address lies in, if it is one. */
struct search_object {
	const struct cache_view *cache;
	uint64_t address, offset;	/* of it; into it */
	enum object_kind kind;
};

struct search_object search_object(const struct search *search);

/*
 * How many guarded objects are in each state; those that wait for readers are
 * freed ones.
 */
#define GUARD_STATES 4
void guard_count(const struct guard *guard, uint64_t counts[GUARD_STATES]);

struct guard_sums {
	uint64_t lost, errors;
};

struct guard_sums guard_sums(const struct guard *guard);

/* explain_watched.c: an object of a watched slab, and where the address is to it. */
enum watched_relation { WATCHED_INSIDE, WATCHED_BEFORE, WATCHED_BEHIND };

struct watched_object {
	uint64_t address;
	uint64_t bytes;			/* as it was asked for */
	uint64_t distance;		/* into it, or to its first or last byte */
	enum watched_relation relation;
	bool is_free;
	char cache[CACHE_NAME_SIZE], letters[8];	/* "malloc-64", "FZPU" */
	/* by enum trace_kind; caller is 0: it is not recorded */
	struct watched_track {
		uint64_t caller, when_ns;
		uint32_t stack, thread, cpu;
	} tracks[2];
};

/* False: @search lies in no object, or how its cache is watched cannot be read. */
bool watched_find(struct watched_object *found, const struct search *search);
/* False: nothing was printed, or put, for the same reasons. */
bool print_watched(const struct search *search);
bool put_watched(struct json *json, const struct search *search);
/* What a living process's clock of tracks lacks to CLOCK_REALTIME. */
uint64_t clock_offset_now(void);

/* explain_misuse.c: what the library has found last.  False: nothing, or it does not say. */
bool misuse_read(struct misuse_last *misuse, const struct source *source);
bool misuse_was_the_end(const struct misuse_last *misuse, const struct source *source);
void print_misuse(const struct misuse_last *misuse, const struct source *source);
void put_misuse(struct json *json, const struct misuse_last *misuse, const struct source *source);
/* A line for each file of a core's stack that has no file here. */
void print_missing(const struct process *process, const uint64_t *frames, size_t nr);

/* What can be wrong with a guarded object, from bit 0 on. */
#define GUARD_ERRORS 7
extern const char *const guard_errors[GUARD_ERRORS];

/* explain_json.c: the same as what cmd_explain.c prints, as members. */
void put_death(struct json *json, const struct source *source);
void put_guarded(struct json *json, const struct guard *guard,
		 const struct source *source, uint64_t address);
void put_found(struct json *json, const struct guard *guard,
	       const struct source *source);
void put_piece(struct json *json, const struct search *search);

#endif
