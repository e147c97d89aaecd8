/* SPDX-License-Identifier: MIT */
/* Giving memory back to the system: budget.c says what one call may spend on it. */
#ifndef SLUB_PAGE_PURGE_H
#define SLUB_PAGE_PURGE_H

#include <time.h>

#include "page/page.h"

/* Fine enough for one system call, as os_clock_ns() is not. */
static inline uint64_t purge_clock_ns(void)
{
	return os_clock_read_ns(CLOCK_MONOTONIC);
}

/* What one call spends. */
struct purge {
	uint32_t calls;		/* system calls left */
	uint32_t piece;		/* superblocks that the next one takes at the most */
	uint32_t nr_refused;
	uint64_t now, until;	/* ns; until UINT64_MAX: unbounded */
	size_t touched;		/* bytes that went back, at the most */
};

void purge_begin(struct purge *purge, bool is_bounded);
bool purge_may(const struct purge *purge);
/* Time has passed otherwise. */
void purge_tick(struct purge *purge);
/* One call; what the kernel answers. */
int purge_range(struct purge *purge, void *start, size_t bytes);

/* renew.c */
enum renewal {
	RENEW_CLEAN,	/* the memory went back, and all of it reads as zero */
	RENEW_DIRTY,	/* the system did not want it: as it was */
	RENEW_LOST,	/* nothing is mapped there any more, and cannot be */
};
/* Gives the memory of whole pages back and, where they are many, maps them anew. */
enum renewal renew(char *start, size_t bytes, uint32_t node);
/* The same, with what @purge spends; budget.c. */
enum renewal purge_renew(struct purge *purge, char *start, size_t bytes, uint32_t node);

/* zone.c */
/* Gives blocks back until at most @pages dirty pages are left, as far as @purge allows. */
void zone_purge(size_t pages, struct purge *purge);
void zone_purge_node(uint32_t node, struct purge *purge);
/* Those that were set aside are tried again. */
void zone_retry(void);
size_t zone_nr_stuck(void);

/* superblock.c: the same of free superblocks */
void superblock_purge(size_t pages, struct purge *purge);
/* All that idle on @node, where there are several; one that is bound to none stays. */
void superblock_purge_node(uint32_t node, struct purge *purge);
/*
 * Gives back the descriptors of superblocks without memory of their own, until those of
 * @keep are left.
 */
void superblock_purge_descriptors(size_t keep, struct purge *purge);
void superblock_retry(void);
/* Where their number stands that were set aside. */
const _Atomic size_t *superblock_stuck_place(void);
/* Without memory, but with that of their descriptors. */
size_t superblock_nr_clean(void);
/* A run whose memory goes back at once, as far as the kernel takes it. */
void superblock_free_purged(char *start, size_t n, struct purge *purge);
/* Memory of the descriptors of a superblock. */
#define DESCRIPTORS_BYTES (SUPERBLOCK_PAGES * (sizeof(struct page) + sizeof(void *)))

#endif
