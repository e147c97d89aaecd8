/* SPDX-License-Identifier: MIT */
/*
 * Windows: the memory of several blocks, brought at once.
 *
 * A page in a heap of small pages costs a page fault at its first touch.  Who
 * knows that all pages of a block will be touched, soon, asks for them here: they come
 * with those of the clean blocks behind it, which the next blocks are taken from.  In a
 * virtual machine (Linux 6.18), by the number of pages asked for at once, ns per page:
 *
 *   touched  2      4      8      16     32     512    in huge pages
 *   1,990    1,975  1,670  1,520  1,440  1,400  1,380  330
 *
 * So a window is 16 pages.  Its free blocks count as dirty: they are idle memory like
 * any other, and whoever wants a block gets them before clean ones.
 *
 * Locks: zone->lock, not across the system call.
 */
#include <errno.h>

#include "page/page_internal.h"

#define WINDOW_ORDER 4

void *window_alloc(uint32_t order, uint32_t node)
{
	bool is_zero;
	void *block = zone_alloc(order, node, &is_zero);
	uint32_t end = order;
	bool is_dirty;

	/* Where memory is limited nothing is brought that nobody asked for. */
	if (!block || !is_zero || !page_memory_is_ample())
		return block;
	if (order < WINDOW_ORDER)
		end = zone_block_widen(block, order, WINDOW_ORDER, node);
	inject(INJECT_window);
	/* What breaks off, for want of memory in the group, say, has brought some of it. */
	is_dirty = os_populate(block, PAGE_BYTES << end) != -EINVAL;
	if (end == order)
		return block;
	if (is_dirty)
		page_bought(((size_t)1 << end) - ((size_t)1 << order));
	zone_block_narrow(block, end, order, node, is_dirty);
	return block;
}
