/* SPDX-License-Identifier: MIT */
/*
 * The reserve: blocks kept aside for callers that must not be refused, above all
 * for code that has to allocate in order to free (the kernel's pfmemalloc).
 *
 * A share of it lies in each zone.  Its blocks have memory behind them, for a
 * page that the system may still refuse is no reserve.  They count as used, so a
 * caller can take one at the limit too.
 *
 * Locks: the zone's lock.
 */
#include <errno.h>

#include "page/page_internal.h"
#include "page/reserve/reserve.h"

static size_t missing_now(void)
{
	size_t missing = 0;

	for (uint32_t n = 0; n < nr_zones; n++) {
		size_t nr = size_read(&zones[n].nr_reserve);
		size_t wanted = size_read(&zones[n].reserve_wanted);

		missing += wanted > nr ? wanted - nr : 0;
	}
	return missing;
}

/*
 * Sums up anew what is missing: after each change, with or without a lock.  Of
 * several threads at it the last to store must not store an old sum, or a
 * reserve that is short would be taken for full.  Each exchange takes in what
 * was changed before the exchanges in front of it, so the last one sums up
 * everything when it looks again; a change that it does not see is followed by
 * an exchange that comes behind it.
 */
static void short_update(void)
{
	size_t missing = missing_now(), again;

	for (;;) {
		inject(INJECT_missing);
		/* acq_rel: pairs with itself in other threads */
		__atomic_exchange_n(&page_reserve_short, missing,
				    __ATOMIC_ACQ_REL);
		again = missing_now();
		if (again == missing)
			return;
		missing = again;
	}
}

static void push(struct zone *zone, struct page *page)
{
	page_flags_write(page, page_flags_make(TYPE_NONE, RESERVE_ORDER,
					       zone->node));
	list_add_head(&zone->reserve, &page->list);
	size_add(&zone->nr_reserve, 1);
}

/* A block out of the zone's reserve; what exceeds @keep only. */
static struct page *pop(struct zone *zone, size_t keep)
{
	struct page *page = NULL;

	lock_acquire(&zone->lock);
	if (size_read(&zone->nr_reserve) > keep) {
		page = container_of(zone->reserve.next, struct page, list);
		list_remove(&page->list);
		size_add(&zone->nr_reserve, -1ul);
	}
	lock_release(&zone->lock);
	if (page)
		short_update();
	return page;
}

struct page *reserve_claim(struct zone *zone, char **whole, bool *is_dirty)
{
	struct page *page;

	if (!*whole)
		return zone_block_take(zone, RESERVE_ORDER, is_dirty);
	page = page_of(*whole);
	zone_block_split(zone, page, BLOCK_ORDER_MAX + 1, RESERVE_ORDER,
			 *is_dirty);
	*whole = NULL;
	return page;
}

/*
 * Memory is put behind a block without the lock, so two may come for one that
 * was missing: the second is given back.  It is not short then, so this does
 * not come round again.
 */
static void keep(struct zone *zone, struct page *page, bool is_dirty)
{
	char *block = page_address(page);
	bool is_wanted;

	for (size_t at = 0; !is_dirty && at < RESERVE_BYTES; at += PAGE_BYTES)
		*(volatile char *)(block + at) = 0;
	inject(INJECT_keep);
	lock_acquire(&zone->lock);
	is_wanted = reserve_is_short(zone);
	if (is_wanted)
		push(zone, page);
	lock_release(&zone->lock);
	short_update();
	if (!is_wanted)
		zone_free(block, RESERVE_ORDER, zone->node, true);
}

void reserve_keep(struct zone *zone, struct page *page, bool is_dirty)
{
	page_charge_always(1 << RESERVE_ORDER);
	keep(zone, page, is_dirty);
}

/* Takes from the zone's free blocks what the reserve lacks. */
static void zone_refill(struct zone *zone)
{
	while (reserve_is_short(zone)) {
		struct page *page = NULL;
		bool is_dirty = false;

		lock_acquire(&zone->lock);
		if (reserve_is_short(zone))
			page = zone_block_take(zone, RESERVE_ORDER, &is_dirty);
		lock_release(&zone->lock);
		if (!page)
			return;
		reserve_keep(zone, page, is_dirty);
	}
}

cold void reserve_refill(void)
{
	if (slub_thread.locks_held)
		return;
	for (uint32_t n = 0; n < nr_zones; n++)
		zone_refill(&zones[n]);
}

/* Fills up what is wanted of the zone; false: there is not enough. */
static bool zone_fill(struct zone *zone)
{
	while (reserve_is_short(zone)) {
		bool is_zero;
		void *block = zone_alloc(RESERVE_ORDER, zone->node, &is_zero);

		/* Another node's block is no share of this one's. */
		if (!block && nr_zones > 1 &&
		    page_growth_ask(RESERVE_BYTES, GROWTH_FAILED))
			block = zone_alloc(RESERVE_ORDER, zone->node, &is_zero);
		if (!block)
			return false;
		keep(zone, page_of(block), !is_zero);
	}
	return true;
}

static void zone_drop(struct zone *zone, size_t keep)
{
	struct page *page;

	while ((page = pop(zone, keep)))
		zone_free(page_address(page), RESERVE_ORDER, zone->node, true);
}

static size_t blocks_wanted(void)
{
	size_t blocks = 0;

	for (uint32_t n = 0; n < nr_zones; n++)
		blocks += size_read(&zones[n].reserve_wanted);
	return blocks;
}

/* Shares @blocks out among the zones; false: there is not enough. */
static bool blocks_set(size_t blocks)
{
	bool filled = true;

	for (uint32_t n = 0; n < nr_zones; n++) {
		size_t share = blocks / nr_zones + (n < blocks % nr_zones);

		size_write(&zones[n].reserve_wanted, share);
	}
	short_update();
	for (uint32_t n = 0; n < nr_zones; n++) {
		zone_drop(&zones[n], size_read(&zones[n].reserve_wanted));
		filled = filled && zone_fill(&zones[n]);
	}
	return filled;
}

cold int page_reserve_set(size_t bytes)
{
	size_t blocks = bytes / RESERVE_BYTES + (bytes % RESERVE_BYTES != 0);
	size_t before = blocks_wanted();
	bool filled = bytes <= heap_reserved_bytes && blocks_set(blocks);

	/* All that there was may be in it by now, and every free would go there. */
	if (!filled)
		blocks_set(before);
	page_purge_if_needed();
	return filled ? 0 : -ENOMEM;
}

size_t page_reserve_bytes(void)
{
	size_t blocks = 0;

	for (uint32_t n = 0; n < nr_zones; n++)
		blocks += size_read(&zones[n].nr_reserve);
	return blocks * RESERVE_BYTES;
}

/* Frees what a block of @order leaves of a block of the reserve. */
static void tail_free(char *block, uint32_t order, uint32_t node)
{
	for (uint32_t o = order; o < RESERVE_ORDER; o++)
		zone_free(block + (PAGE_BYTES << o), o, node, true);
}

cold void *page_reserve_take(uint32_t order, uint32_t node)
{
	struct page *page;

	if (order > RESERVE_ORDER || slub_thread.locks_held)
		return NULL;
	page = pop(&zones[node < nr_zones ? node : 0], 0);
	if (!page)
		return NULL;
	tail_free(page_address(page), order, page_node(page));
	return page_address(page);
}
