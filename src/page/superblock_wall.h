/* SPDX-License-Identifier: MIT */
/* What superblock.c and superblock_wall.c tell each other; all of it under superblock_lock. */
#ifndef SLUB_PAGE_SUPERBLOCK_WALL_H
#define SLUB_PAGE_SUPERBLOCK_WALL_H

#include "page/page_internal.h"

enum growth {
	GROWN,
	REFUSED,	/* by the kernel, or by a limit */
	WALLED,		/* for addresses that the program has mapped */
	PASSED,		/* there is more now, elsewhere: look anew */
};

/* superblock.c */
/* Superblocks that have just been mapped. */
void superblock_add(size_t first, size_t n);
/* The heap ends behind @n that have just been mapped at @first; what it passed over is strange. */
void superblock_go_on(size_t first, size_t n);
/* Committed, and not the heap's. */
bool superblock_is_strange(size_t index);
size_t superblock_nr_committed(void);

static inline char *superblock_address(size_t index)
{
	return (char *)heap_start + index * SUPERBLOCK_BYTES;
}

/* superblock_wall.c */
void wall_init(void);

/* What the request in hand knows of it. */
struct wall {
	bool passes;		/* it may go behind one */
	bool is_met;		/* by it, and the heap has not grown since */
	_Atomic bool is_around;	/* the heap is walled in; read without the lock too */
	uint32_t nr_tries;	/* it has made */
	uint32_t nr_steps;	/* in vain, since the heap last grew; of all requests */
};
extern struct wall wall SLUB_INTERNAL;

/* A request begins, which may go behind what is mapped there. */
static inline void wall_begin(bool may_pass)
{
	wall.passes = may_pass;
	wall.nr_tries = 0;
	wall.is_met = false;
}

/* Has the request met a wall, and where the heap ends now? */
static inline bool wall_was_met(void)
{
	return wall.nr_tries;
}

static inline bool wall_is_met(void)
{
	return wall.is_met;
}

static inline void wall_around_set(bool is_so)
{
	__atomic_store_n(&wall.is_around, is_so, __ATOMIC_RELAXED);
}

/* The heap has grown. */
static inline void wall_end(void)
{
	wall.nr_steps = 0;
	wall.is_met = false;
	wall_around_set(false);
}

/* @n superblocks have become strange. */
void wall_strange_add(size_t n);
/* The program has mapped some of the next @n superblocks. */
enum growth wall_pass(size_t n);
/* The tables of @n more have no place: what was passed over may be free by now. */
enum growth wall_refill(size_t n);
/* The same where the heap has no place for @n more. */
enum growth wall_end_of_heap(size_t n);

#endif
