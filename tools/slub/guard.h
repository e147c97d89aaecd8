/* SPDX-License-Identifier: MIT */
/* The objects between guard pages of a process, as it shows them. */
#ifndef SLUB_TOOL_GUARD_H
#define SLUB_TOOL_GUARD_H

#include "source.h"

#define GUARD_FRAMES_MAX 128

struct guard {
	struct guard_pool pool;	/* bytes is 0 if there is none */
	struct guard_place *places;
	struct guard *next;		/* places for other objects, or NULL */
};

/* 0, or -errno: EPROTO a version (in pool) that is not known, EBADMSG it is damaged. */
int guard_read(struct guard *guard, const struct source *source);
void guard_free(struct guard *guard);
/* Adds what is allocated to the caches and large blocks of @snapshot. */
void guard_count_live(const struct guard *guard, struct snapshot *snapshot);

/* What @address has to do with an object. */
enum guard_relation {
	GUARD_APART,		/* nothing is known of it */
	GUARD_INSIDE_LIVE,
	GUARD_INSIDE_FREED,
	GUARD_BEFORE,		/* an allocated object */
	GUARD_BEHIND,
	GUARD_BEFORE_FREED,
	GUARD_BEHIND_FREED,
};

struct guard_finding {
	enum guard_relation relation;
	uint64_t distance;	/* into it, or to its first or last byte */
	const struct guard_place *place;
};

/* The one of @guard and those behind it that @address is of; NULL: none. */
const struct guard *guard_of(const struct guard *guard, uint64_t address);
/* Of a guard that has the address. */
struct guard_finding guard_find(const struct guard *guard, uint64_t address);
/* How many frames of the stack of @track were read. */
size_t guard_stack(const struct guard *guard, const struct source *source,
		   const struct track *track,
		   uint64_t frames[GUARD_FRAMES_MAX]);

#endif
