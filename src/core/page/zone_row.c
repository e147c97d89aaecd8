/* SPDX-License-Identifier: MIT */
/*
 * Rows: free blocks of a zone that lie side by side, of any size.
 *
 * A request whose size is no power of two may get a *row*: a dirty block that is too small, with
 * enough that is free behind it.  Without rows 130 pages need 256 that are free together, at a
 * multiple of 256.  A row goes before clean memory, and after a block that fits: rows begin at
 * any page, so they spread what programs touch of blocks, the first page mostly, over more pages.
 */
#include "core/page/page_internal.h"

/*
 * Blocks that are looked at for a row.  Each costs two misses, 200 ns at the most; the page fault
 * that one page of a row saves costs a microsecond at the least, and a row has nine or more.
 */
#define ROW_TRIES 32

/* How many pages from @end on, up to @more, start free blocks in a row. */
static size_t free_behind(const struct zone *zone, char *end, size_t more)
{
	size_t pages = 0;

	while (pages < more && pagemap_covers(end)) {
		struct page *page = page_of(end);

		if (page_type(page) != TYPE_FREE ||
		    page_node(page) != zone->node)
			break;
		pages += (size_t)1 << page_order(page);
		end += PAGE_BYTES << page_order(page);
	}
	return pages;
}

/* Takes the first @pages of the free block at @page; the rest stays free. */
static size_t take_front(struct zone *zone, struct page *page, size_t pages,
			 size_t *nr_clean)
{
	uint32_t order = page_order(page);
	size_t whole = (size_t)1 << order, dirty = page->count;

	zone_block_remove(zone, page, order);
	pages = min_size(pages, whole);
	*nr_clean += pages - dirty_share(dirty, pages, whole);
	for (size_t at = pages; at < whole;) {
		order = (uint32_t)__builtin_ctzl(at);
		zone_block_insert(zone, page + at, order,
			     dirty_share(dirty, (size_t)1 << order, whole));
		at += (size_t)1 << order;
	}
	return pages;
}

/* Takes @pages from @start on, which free_behind() has found; returns how many are clean. */
static size_t zone_row_take_all(struct zone *zone, char *start, size_t pages)
{
	size_t nr_clean = 0;

	while (pages) {
		size_t taken = take_front(zone, page_of(start), pages, &nr_clean);

		start += taken * PAGE_BYTES;
		pages -= taken;
	}
	return nr_clean;
}

void *zone_row_take(struct zone *zone, struct piece *piece)
{
	struct list *list = &zone->free[ilog2(piece->pages)][DIRTY], *at;
	size_t pages = piece->pages;
	char *start, *row = NULL;

	if (piece->align > PAGE_BYTES)
		return NULL;
	lock_acquire(&zone->lock);
	at = list->next;
	for (int i = 0; at != list && i < ROW_TRIES; i++, at = at->next) {
		start = page_address(container_of(at, struct page, list));
		if (free_behind(zone, start, pages) < pages ||
		    !heap_is_open(start + pages * PAGE_BYTES))
			continue;
		piece->dirty = pages - zone_row_take_all(zone, start, pages);
		piece->is_row = true;
		row = start;
		break;
	}
	lock_release(&zone->lock);
	return row;
}

bool zone_extend(char *end, size_t more, uint32_t node)
{
	struct zone *zone = zone_of_node(node);
	size_t nr_clean = 0;
	bool fits;

	if (!page_charge(more))
		return false;
	/* All but sure: it is free, most of the time. */
	if (pagemap_covers(end + more * PAGE_BYTES - 1))
		heap_open(end + more * PAGE_BYTES);
	lock_acquire(&zone->lock);
	fits = free_behind(zone, end, more) >= more && heap_is_open(end + more * PAGE_BYTES);
	if (fits)
		nr_clean = zone_row_take_all(zone, end, more);
	lock_release(&zone->lock);
	if (!fits)
		page_uncharge(more);
	else if (nr_clean)
		page_bought(nr_clean);
	return fits;
}
