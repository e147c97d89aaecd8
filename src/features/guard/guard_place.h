/* SPDX-License-Identifier: MIT */
/*
 * What is known of objects between guard pages (guard.h draws it), also for other processes:
 * place n lies at base + n * place_bytes, and what is known of it at places + n * place_size.
 * A reader must refuse a `version` that it does not know; fields are only appended.
 *
 * This header needs nothing but <stdint.h>, for the tools.
 */
#ifndef SLUB_GUARD_PLACE_H
#define SLUB_GUARD_PLACE_H

#include "features/debug/track.h"

#define GUARD_VERSION 1u

enum guard_state {
	GUARD_NEVER,		/* used so far */
	GUARD_TAKEN,		/* being changed */
	GUARD_LIVE,
	GUARD_FREED,
	GUARD_WAITING,		/* freed; readers may look at it */
};

/* What was found at the free of an object, as bits. */
enum guard_error {
	GUARD_TWICE = 1,	/* freed again */
	GUARD_INSIDE = 2,	/* freed by a pointer to elsewhere in it */
	GUARD_BEYOND = 4,	/* bytes beside it were written */
	GUARD_CACHE = 8,	/* freed to another cache */
	GUARD_SIZE = 16,	/* freed with another size */
	GUARD_CALL = 32,	/* freed by another kind of call */
	GUARD_ASKED = 64,	/* its size was asked, and it is free or elsewhere */
};

struct guard_place {
	uint64_t object;
	uint64_t bytes;			/* asked for */
	uint32_t state;			/* enum guard_state; atomic */
	uint32_t errors;		/* enum guard_error */
	uint64_t cache;			/* its address */
	uint64_t turn;			/* `turns` when it was freed; waiting: a link */
	struct track allocated;
	struct track freed;
	char name[48];			/* of the cache */
};

struct guard_pool {
	uint32_t version;
	uint32_t size;			/* of this structure */
	uint64_t every;			/* one allocation in so many; 0: off */
	uint64_t base;			/* the first guard page, then place 0 */
	uint64_t bytes;			/* 0: there never was a place */
	uint32_t page_bytes;
	uint32_t place_bytes;		/* from one place to the next */
	uint32_t nr_places;
	uint32_t place_size;		/* of the structure */
	uint64_t places;		/* struct guard_place[] */
	uint64_t turns;			/* atomic; objects that were placed, or were to be */
	uint64_t lost;			/* atomic; there was no place for it */
	uint64_t errors;		/* atomic; found at frees */
	uint64_t clock_offset_ns;	/* CLOCK_REALTIME less the tracks' clock */
	/* stack n: struct stack_record at stacks + n * stack_unit */
	uint64_t stacks;
	uint32_t stack_unit;
	uint32_t next;			/* place to be looked at; atomic */
	/* 0, or behind `size`: none; another such structure, of other objects */
	uint64_t next_pool;
};

#endif
