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
/* A request begins, which may go behind what is mapped there. */
void wall_begin(bool may_pass);
/* Has the request met a wall, and where the heap ends now? */
bool wall_was_met(void);
bool wall_is_met(void);
/* The heap has grown. */
void wall_end(void);
/* @n superblocks have become strange. */
void wall_strange_add(size_t n);
/* The program has mapped some of the next @n superblocks. */
enum growth wall_pass(size_t n);
/* The tables of @n more have no place: what was passed over may be free by now. */
enum growth wall_refill(size_t n);
/* The same where the heap has no place for @n more. */
enum growth wall_end_of_heap(size_t n);

#endif
