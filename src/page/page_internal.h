/* SPDX-License-Identifier: MIT */
/* What the files of the page layer share and no other layer knows. */
#ifndef SLUB_PAGE_INTERNAL_H
#define SLUB_PAGE_INTERNAL_H

#include "page/page.h"

enum zone_kind { CLEAN, DIRTY, KINDS };

/*
 * The buddy lists of one node, and what it keeps aside.  The reserve lies under
 * the zone's own lock so that a free can fill it before anyone else sees
 * the block.
 */
struct zone {
	struct lock lock;
	uint32_t node;		/* const */
	/* under lock */
	uint32_t present;	/* bit per order: a list is not empty */
	struct list free[BLOCK_ORDER_MAX + 1][KINDS];
	struct list reserve;	/* blocks of RESERVE_ORDER, type TYPE_NONE */
	/* written under lock, read without it too */
	_Atomic size_t nr_dirty;	/* pages in dirty blocks */
	_Atomic size_t nr_reserve;	/* blocks in the reserve */
	_Atomic size_t reserve_wanted;	/* blocks that it is to have */
};

/* zone.c */
extern struct zone zones[OS_NODES_MAX];
extern uint32_t nr_zones;
/* A block of 2^@order pages off the lists, or NULL; under the zone's lock. */
struct page *zone_block_take(struct zone *zone, uint32_t order,
			     bool *is_dirty);
/*
 * Splits what starts at @page, of order @from and on no list, down to @order;
 * the rest goes on the lists.  Under the zone's lock.
 */
void zone_block_split(struct zone *zone, struct page *page, uint32_t from,
		      uint32_t order, bool is_dirty);

/* reserve.c */
void reserve_init(struct zone *zone);
/* In a child whose parent forked without the lock: what was there is lost. */
void reserve_forget(struct zone *zone);
bool reserve_is_short(const struct zone *zone);
/*
 * One block for a reserve that is short of it: from *@whole, a superblock that
 * came back whole (set to NULL if it is used), or off the lists.  NULL: there is
 * none.  Under the zone's lock.
 */
struct page *reserve_claim(struct zone *zone, char **whole, bool *is_dirty);
/* Puts a claimed block into the reserve; with no lock held. */
void reserve_keep(struct zone *zone, struct page *page, bool is_dirty);

#endif
