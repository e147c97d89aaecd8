/* SPDX-License-Identifier: MIT */
/*
 * Blocks of 2^order pages, through per-CPU lists: a freed block comes back on
 * the next request of its order without a lock.  (The kernel's page allocator
 * pass-through went from 106 to 434 cycles for want of this.)
 *
 * The lists are ordinary slots, linked through the descriptors.  A list that
 * is full goes back to the zone whole.
 *
 * A *window* is the memory of several blocks, brought at once.  A page in a heap of
 * small pages costs a page fault at its first touch.  A caller that will soon touch all
 * pages of a block asks for a window.  Then these pages come together with those of the
 * clean blocks behind it, which the next requests get.  In a virtual machine
 * (Linux 6.18), by the number of pages asked for at once, ns per page:
 *
 *   touched  2      4      8      16     32     512    in huge pages
 *   1,990    1,975  1,670  1,520  1,440  1,400  1,380  330
 *
 * So a window is 16 pages.  Its free blocks count as dirty: they are idle memory like
 * any other, and a thread that wants a block gets them before clean ones.
 */
#include <errno.h>

#include "page/page_internal.h"

/* Bytes that one CPU may keep per order, and blocks at the least. */
#define LIST_BYTES ((size_t)128 << 10)
#define LIST_BLOCKS_MIN 2
#define LIST_BLOCKS_MAX 8

#define WINDOW_ORDER 4

#define NR_SLOTS (BLOCK_ORDER_MAX + 1)
/* Of so many CPUs at a time what is in the lists fits the stack: 2.5 KiB. */
#define FLUSH_CPUS 8

/* const after start, in a row; 0: no list for this order */
static uint32_t slots[NR_SLOTS];

static int32_t list_capacity(uint32_t order)
{
	size_t n = LIST_BYTES / (PAGE_BYTES << order);

	n = min_size(max_size(n, LIST_BLOCKS_MIN), LIST_BLOCKS_MAX);
	return (int32_t)n;
}

void block_init(uint32_t nr_nodes)
{
	/* The special slots of enum map_entry come first. */
	uint32_t special = MAP_SPECIAL_END / SLOT_BYTES - 1, first;

	zone_init(nr_nodes);
	percpu_alloc_slots(special);
	/* A list knows no node, so it pays only where there is one. */
	first = nr_nodes == 1 ? percpu_alloc_slots(NR_SLOTS) : 0;
	for (uint32_t o = 0; first && o < NR_SLOTS; o++)
		slots[o] = first + o * SLOT_BYTES;
	quick_init();
}

static void *list_pop(uint32_t order)
{
	return slots[order] ? percpu_pop(slots[order], page_link_bias) : NULL;
}

void *block_alloc(uint32_t order, uint32_t node, bool *is_zero)
{
	void *block = list_pop(order);
	bool zero = false;

	if (!block)
		block = zone_alloc(order, node, &zero);
	if (is_zero)
		*is_zero = zero;
	return block;
}

bool block_is_near(uint32_t order, uint32_t node)
{
	return quick_nr_pages() || superblock_nr_dirty() ||
	       (slots[order] && percpu_head(slots[order])) ||
	       zone_has_block(order, node);
}

static void *window_alloc(uint32_t order, uint32_t node)
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

void *block_alloc_touched(uint32_t order, uint32_t node)
{
	void *block = list_pop(order);

	return block ? block : window_alloc(order, node);
}

/* Gives a list of blocks back to the zone. */
static void blocks_free(void *block, uint32_t order)
{
	while (block) {
		void *next = *page_link(page_link_bias, block);

		zone_free(block, order, 0, true);
		block = next;
	}
}

void block_free(void *block, uint32_t order, uint32_t node)
{
	uint32_t slot = slots[order];
	void *full;

	if (!slot || page_reserve_is_short()) {
		zone_free(block, order, node, true);
		return;
	}
	if (percpu_push(slot, block, page_link_bias))
		return;
	full = percpu_take(slot, list_capacity(order));
	*page_link(page_link_bias, block) = NULL;
	if (!percpu_put(slot, block, list_capacity(order) - 1))
		zone_free(block, order, node, true);
	blocks_free(full, order);
}

bool block_owns_slot(uint32_t slot)
{
	return slots[0] && slot >= slots[0] && slot <= slots[BLOCK_ORDER_MAX];
}

void block_free_collected(uint32_t slot, struct slot *lists)
{
	blocks_free(lists->main.head, (slot - slots[0]) / SLOT_BYTES);
}

cold void block_flush(enum collect_from from)
{
	struct slot lists[FLUSH_CPUS * NR_SLOTS];
	struct collection taken = { .lists = lists,
				    .nr_lists_max = FLUSH_CPUS * NR_SLOTS };

	percpu_collection_init(&taken, from, slots[0], NR_SLOTS);
	while (percpu_collect(&taken)) {
		for (uint32_t i = 0; i < taken.nr_lists; i++)
			block_free_collected(collection_slot(&taken, i),
					     &lists[i]);
	}
	quick_flush();
}
