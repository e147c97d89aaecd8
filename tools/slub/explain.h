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

/* What can be wrong with a guarded object, from bit 0 on. */
#define GUARD_ERRORS 7
extern const char *const guard_errors[GUARD_ERRORS];

/* explain_json.c: the same as what cmd_explain.c prints, as members. */
void put_guarded(struct json *json, const struct guard *guard,
		 const struct source *source, uint64_t address);
void put_found(struct json *json, const struct guard *guard,
	       const struct source *source);
void put_piece(struct json *json, const struct search *search);

#endif
