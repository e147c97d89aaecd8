/* SPDX-License-Identifier: MIT */
/* Giving memory back to the system, and what one call may spend on that (renew.c). */
#ifndef SLUB_PAGE_PURGE_H
#define SLUB_PAGE_PURGE_H

#include <time.h>

#include "core/page/page.h"

/*
 * A free that finds too much idle memory gives some of it back, and leaves the rest to the
 * next one: it makes PURGE_CALLS system calls at the most, and begins none when PURGE_NS
 * have passed.  So no free takes longer than that and one call, and a program that goes on
 * freeing ends where it would without a bound: page_purge_owed makes slow paths come more
 * often until then.  Whoever asks for memory (malloc_trim(), a limit) has no bound.
 *
 * Nobody has counted how much memory lay behind a run of superblocks: a program may have
 * touched a page of it, or all.  The call that gives it back tells, by its time: the kernel
 * frees no page in less than PAGE_NS, and passes over what was never touched a superblock
 * at a time.  So the time of a call is an upper bound of what it found.
 *
 * What the kernel refuses (a page that the program locked) is set aside: SB_STUCK in
 * superblock.c, STUCK in zone.c.
 */
#define PURGE_CALLS 16
#define PURGE_NS 200000
/*
 * Superblocks that one call of a bounded purge takes: one at first, twice as many behind
 * one that took a part of the time, for these have hardly any memory.
 */
#define PIECE_MAX 8
#define PIECE_NS (PURGE_NS / PURGE_CALLS)
/* To unlink a page from its table and free it takes more than 100 cycles of any CPU. */
#define PAGE_NS 32

/*
 * Objects that one free gives to their slabs besides: as many as take no longer than the pages.
 * Each takes the misses of three lines (the object, its slab's descriptor, an entry of the TLB),
 * of 100 ns at the most on any machine with memory beside its processor.
 */
#define OBJECT_NS 300
#define PURGE_OBJECTS (PURGE_NS / OBJECT_NS)

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
/* The same, with what @purge spends, of memory in @dirty bytes at the most. */
enum renewal purge_renew(struct purge *purge, char *start, size_t bytes, size_t dirty,
			 uint32_t node);

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
