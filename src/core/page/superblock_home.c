/* SPDX-License-Identifier: MIT */
/* The node that a superblock's memory lies on, where there are several. */
#include "core/page/page_internal.h"

/*
 * The node that each superblock was last bound to, + 1.  The entry of a free superblock is
 * under the lock; that of another belongs to the thread that took it, by the lock.  NULL:
 * there is one node.
 */
uint8_t *superblock_homes;

static size_t home_of(const char *start)
{
	return ((uintptr_t)start - heap_start) >> SUPERBLOCK_SHIFT;
}

/*
 * What was just taken becomes memory of @node.  Memory that idled there on another
 * node goes back first: binding does not move it, and to have it moved
 * would copy what nobody wants.  Returns how many are clean then.
 */
size_t superblock_settle_on(char *start, size_t n, uint32_t node, size_t nr_clean)
{
	size_t first = home_of(start);
	bool is_strange = false;

	if (!os_node_bind(start, n * SUPERBLOCK_BYTES, node))
		return nr_clean;
	for (size_t i = first; i < first + n; i++) {
		is_strange |= superblock_homes[i] && superblock_homes[i] != node + 1;
		superblock_homes[i] = (uint8_t)(node + 1);
	}
	if (is_strange && nr_clean < n &&
	    !os_purge(start, n * SUPERBLOCK_BYTES))
		return n;
	return nr_clean;
}
