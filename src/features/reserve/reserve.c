/* SPDX-License-Identifier: MIT */
/*
 * The reserve: blocks kept aside for callers that must not be refused, above all
 * for code that has to allocate in order to free (the kernel's pfmemalloc).
 *
 * A share of it lies in each zone.  Its blocks have memory behind them, for a
 * page that the system may still refuse is no reserve.  They count as used, so a
 * caller can take one at the limit too.
 *
 * What is larger than a block is made of blocks that lie side by side: mostly they do, for
 * the reserve was filled from few superblocks.  No other memory is joined to them.
 *
 * Locks: the zone's lock.
 */
#include <errno.h>

#include "core/page/page_internal.h"
#include "features/reserve/reserve.h"

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
					       zone->node) | PAGE_KEPT);
	list_add_head(&zone->reserve, &page->list);
	size_add(&zone->nr_reserve, 1);
}

/* It is no reserve's any more; under the zone's lock. */
static void pull(struct zone *zone, struct page *page)
{
	list_remove(&page->list);
	page_flags_write(page, page_flags_read(page) & ~PAGE_KEPT);
	size_add(&zone->nr_reserve, -1ul);
}

/* A block out of the zone's reserve; what exceeds @keep only. */
static struct page *pop(struct zone *zone, size_t keep)
{
	struct page *page = NULL;

	lock_acquire(&zone->lock);
	if (size_read(&zone->nr_reserve) > keep) {
		page = container_of(zone->reserve.next, struct page, list);
		pull(zone, page);
	}
	lock_release(&zone->lock);
	if (page && unlikely(!heap_open((char *)page_address(page) + RESERVE_BYTES))) {
		lock_acquire(&zone->lock);
		push(zone, page);
		lock_release(&zone->lock);
		return NULL;
	}
	if (page)
		short_update();
	return page;
}

struct page *reserve_claim(struct zone *zone, char **whole, size_t *dirty)
{
	struct page *page;

	if (!*whole)
		return zone_block_take(zone, RESERVE_ORDER, dirty);
	page = page_of(*whole);
	*dirty = zone_block_split(zone, page, BLOCK_ORDER_MAX + 1, RESERVE_ORDER, *dirty);
	*whole = NULL;
	return page;
}

/*
 * Memory is put behind a block without the lock, so two may come for one that
 * was missing: the second is given back.  It is not short then, so this does
 * not come round again.
 */
static void keep(struct zone *zone, struct page *page, size_t dirty)
{
	char *block = page_address(page);
	bool is_whole = dirty == 1 << RESERVE_ORDER, is_wanted;

	/* What cannot be opened now is tried again when it is wanted. */
	is_whole = is_whole || !heap_open(block + RESERVE_BYTES);
	for (size_t at = 0; !is_whole && at < RESERVE_BYTES; at += PAGE_BYTES)
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

void reserve_keep(struct zone *zone, struct page *page, size_t dirty)
{
	page_charge_always(1 << RESERVE_ORDER);
	keep(zone, page, dirty);
}

/* Takes from the zone's free blocks what the reserve lacks. */
static void zone_refill(struct zone *zone)
{
	while (reserve_is_short(zone)) {
		struct page *page = NULL;
		size_t dirty = 0;

		lock_acquire(&zone->lock);
		if (reserve_is_short(zone))
			page = zone_block_take(zone, RESERVE_ORDER, &dirty);
		lock_release(&zone->lock);
		if (!page)
			return;
		reserve_keep(zone, page, dirty);
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
		/* One that is merged of both kinds may lack some of its memory. */
		keep(zone, page_of(block), 0);
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

/* ---- several blocks ---- */

/* The flag changes under @zone's lock, which this thread has. */
static bool is_kept_at(const struct zone *zone, char *block)
{
	const struct page *page = page_of(block);

	return pagemap_covers(block) && page_flags_read(page) & PAGE_KEPT &&
	       page_node(page) == zone->node && heap_is_open(block + RESERVE_BYTES);
}

/* How many of @zone's blocks lie in a row from @block on, up to @most. */
static size_t row_length(const struct zone *zone, char *block, size_t most)
{
	size_t n = 0;

	while (n < most && is_kept_at(zone, block + n * RESERVE_BYTES))
		n++;
	return n;
}

/* @nr blocks in a row out of the zone's reserve, from an address aligned to @align on. */
static char *row_take(struct zone *zone, size_t nr, size_t align)
{
	char *row = NULL;

	lock_acquire(&zone->lock);
	for (struct list *l = zone->reserve.next; l != &zone->reserve && !row; l = l->next) {
		char *block = page_address(container_of(l, struct page, list));

		if (!((uintptr_t)block % align) && row_length(zone, block, nr) == nr)
			row = block;
	}
	for (size_t i = 0; row && i < nr; i++)
		pull(zone, page_of(row + i * RESERVE_BYTES));
	lock_release(&zone->lock);
	if (row)
		short_update();
	return row;
}

/* What lies behind the first @pages of @nr blocks goes back: to the reserve, which is short. */
static void row_tail_free(char *row, size_t nr, size_t pages, uint32_t node)
{
	size_t at = pages;

	while (at < nr << RESERVE_ORDER) {
		uint32_t order = min_size((size_t)__builtin_ctzl(at), RESERVE_ORDER);

		zone_free(row + at * PAGE_BYTES, order, node, true);
		at += (size_t)1 << order;
	}
}

cold void *reserve_take_large(size_t bytes, size_t align)
{
	size_t pages = max_size((bytes + PAGE_BYTES - 1) / PAGE_BYTES, 1);
	size_t nr = (pages + (1 << RESERVE_ORDER) - 1) >> RESERVE_ORDER;
	uint32_t own = os_node_current();
	char *row = NULL;

	if (slub_thread.locks_held || pages > RESERVE_PAGES_MAX)
		return NULL;
	for (uint32_t n = 0; n < nr_zones && !row; n++) {
		struct zone *zone = &zones[(own + n) % nr_zones];

		row = row_take(zone, nr, align);
		if (!row)
			continue;
		large_count_add(pages);
		large_mark(row, pages, zone->node, false);
		row_tail_free(row, nr, pages, zone->node);
		slab_tell(NULL);
	}
	return row;
}
