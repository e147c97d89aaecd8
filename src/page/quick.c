/* SPDX-License-Identifier: MIT */
/*
 * Freed large blocks that stay whole for a while: a request of the same class
 * takes one without splitting and merging blocks in a zone.
 *
 * The classes: eight per doubling, powers of two among them, up to half a
 * superblock.  There is a list per node and class, all under one lock; the
 * links lie in the descriptors, so no memory of a block is touched.
 *
 * What lies here is idle memory like any other (page_nr_dirty()).  A purge, and
 * a request that would take clean memory instead, merge all of it first, so that
 * nothing is pinned by having been freed in another size.  To the counts of
 * used and of large pages it belongs still, so that a block comes and goes
 * without touching them: a thread that reads them subtracts quick_nr_pages().
 *
 * Locks: quick_lock.
 */
#include "page/page_internal.h"

#define SHIFT_MIN 3		/* more than 2^3 pages */
#define STEPS 8
#define CLASSES ((BLOCK_ORDER_MAX - SHIFT_MIN) * STEPS)

struct lock quick_lock = LOCK_INIT;
_Atomic size_t quick_pages;	/* written under quick_lock */

/* under quick_lock; the heads are read without it */
static void *heads[OS_NODES_MAX][CLASSES];
static bool enabled;		/* const after start */

/* For 2^SHIFT_MIN < pages <= 2^BLOCK_ORDER_MAX. */
static uint32_t class_of(size_t pages)
{
	uint32_t shift = ilog2(pages - 1);

	return (shift - SHIFT_MIN) * STEPS +
	       (uint32_t)((pages - 1) >> (shift - SHIFT_MIN) & (STEPS - 1));
}

static size_t class_pages(uint32_t class)
{
	return (size_t)(class % STEPS + STEPS + 1) << class / STEPS;
}

static bool has_class(size_t pages)
{
	return pages > 1 << SHIFT_MIN &&
	       pages <= (size_t)1 << BLOCK_ORDER_MAX;
}

size_t quick_round(size_t pages)
{
	return has_class(pages) ? class_pages(class_of(pages)) : pages;
}

void quick_init(void)
{
	enabled = option_value(OPTION_retain) > 0;
}

/* Under the lock; read without it. */
static void count_add(size_t pages)
{
	__atomic_store_n(&quick_pages, quick_nr_pages() + pages,
			 __ATOMIC_RELAXED);
}

static void head_set(void **head, void *block)
{
	__atomic_store_n(head, block, __ATOMIC_RELAXED);
}

static void **link_of_block(void *block)
{
	return page_link(page_link_bias, block);
}

void *large_alloc_kept(size_t bytes)
{
	uint32_t node = os_node_current();
	uint32_t class;
	size_t pages = (bytes + PAGE_BYTES - 1) >> PAGE_SHIFT;
	void *block, **head;

	if (!has_class(pages))
		return NULL;
	class = class_of(pages);
	pages = class_pages(class);
	head = &heads[node][class];
	/* A look without the lock: mostly there is one, or there is not. */
	if (!__atomic_load_n(head, __ATOMIC_RELAXED))
		return NULL;
	lock_acquire(&quick_lock);
	block = *head;
	if (likely(block)) {
		head_set(head, *link_of_block(block));
		count_add(-pages);
	}
	lock_release(&quick_lock);
	if (unlikely(!block))
		return NULL;
	large_mark(block, pages, node, false);
	slab_tell(NULL);
	return block;
}

bool quick_free(void *block, size_t pages, uint32_t node)
{
	uint32_t class;
	void **head;

	if (unlikely(!enabled || !has_class(pages) || page_reserve_is_short()))
		return false;
	class = class_of(pages);
	if (unlikely(class_pages(class) != pages))
		return false;
	head = &heads[node][class];
	lock_acquire(&quick_lock);
	*link_of_block(block) = *head;
	head_set(head, block);
	count_add(pages);
	lock_release(&quick_lock);
	return true;
}

static void *take_one(void **head, size_t pages)
{
	void *block;

	lock_acquire(&quick_lock);
	block = *head;
	if (block) {
		head_set(head, *link_of_block(block));
		count_add(-pages);
	}
	lock_release(&quick_lock);
	return block;
}

/* One by one: of a list in hand a child that is forked meanwhile would lose all. */
static void flush_class(uint32_t node, uint32_t class)
{
	size_t pages = class_pages(class);
	/* Others may be freeing all the time. */
	size_t most = quick_nr_pages() / pages;
	void *block, **head = &heads[node][class];

	while (__atomic_load_n(head, __ATOMIC_RELAXED) && most--) {
		block = take_one(head, pages);
		if (!block)
			return;
		inject(INJECT_quick);
		/* It was counted when it came. */
		large_release(block, pages, node);
	}
}

void quick_flush(void)
{
	if (!quick_nr_pages() || slub_thread.locks_held)
		return;
	for (uint32_t n = 0; n < nr_zones; n++) {
		for (uint32_t c = 0; c < CLASSES; c++)
			flush_class(n, c);
	}
}
