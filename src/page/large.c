/* SPDX-License-Identifier: MIT */
/*
 * Large blocks: any number of pages.
 *
 * Up to half a superblock they come from the zones, cut to their class (the
 * tail goes back as smaller blocks), or from those that were kept; above, they are
 * runs of whole superblocks: only the pages in use have memory behind them.
 *
 * The descriptor of the first page holds the number of pages; only that page
 * has a map entry, so an address inside a large block is not taken for one.
 *
 * A freed block of up to half a superblock is *kept* for a while: a request of the
 * same class takes it without splitting and merging blocks in a zone.  There are eight
 * classes per doubling, powers of two among them.  There is a list per node and class,
 * all under one lock; the links lie in the descriptors, so no memory of a block is touched.
 *
 * What is kept is idle memory like any other (page_nr_dirty()).  A purge, and
 * a request that would take clean memory instead, merge all of it first, so that
 * nothing is pinned by having been freed in another size.  To the counts of
 * used and of large pages it belongs still, so that a block comes and goes
 * without touching them: a thread that reads them subtracts quick_nr_pages().
 *
 * Locks: quick_lock.
 */
#include <errno.h>
#include <string.h>

#include "page/page_internal.h"

/* Pages in the largest block that is cut from a zone. */
#define ZONE_PAGES_MAX ((size_t)1 << BLOCK_ORDER_MAX)

/* In large blocks, and in those that are kept. */
static struct page_count large_pages;

void (*slab_notify)(struct slub_cache *cache);

/* ---- blocks that are kept ---- */

#define SHIFT_MIN 3		/* more than 2^3 pages */
#define STEPS 8
#define KEPT_CLASSES ((BLOCK_ORDER_MAX - SHIFT_MIN) * STEPS)

struct lock quick_lock = LOCK_INIT;
_Atomic size_t quick_pages;	/* written under quick_lock */

/* under quick_lock; the heads are read without it */
static void *kept_heads[OS_NODES_MAX][KEPT_CLASSES];
static bool keeps;		/* const after start */

/* For 2^SHIFT_MIN < pages <= 2^BLOCK_ORDER_MAX. */
static uint32_t kept_class(size_t pages)
{
	uint32_t shift = ilog2(pages - 1);

	return (shift - SHIFT_MIN) * STEPS +
	       (uint32_t)((pages - 1) >> (shift - SHIFT_MIN) & (STEPS - 1));
}

static size_t kept_class_pages(uint32_t class)
{
	return (size_t)(class % STEPS + STEPS + 1) << class / STEPS;
}

static bool is_kept_size(size_t pages)
{
	return pages > 1 << SHIFT_MIN &&
	       pages <= (size_t)1 << BLOCK_ORDER_MAX;
}

/* The pages of the class for @pages; @pages themselves if there is none. */
static size_t quick_round(size_t pages)
{
	return is_kept_size(pages) ? kept_class_pages(kept_class(pages)) : pages;
}

void quick_init(void)
{
	keeps = option_value(OPTION_retain) > 0;
}

static void kept_head_set(void **head, void *block)
{
	__atomic_store_n(head, block, __ATOMIC_RELAXED);
}

static void **kept_link(void *block)
{
	return page_link(page_link_bias, block);
}

static always_inline void *kept_take(void **head, size_t pages)
{
	void *block;

	lock_acquire(&quick_lock);
	block = *head;
	if (block) {
		kept_head_set(head, *kept_link(block));
		size_add(&quick_pages, -pages);
	}
	lock_release(&quick_lock);
	return block;
}

void *large_alloc_kept(size_t bytes)
{
	uint32_t node = os_node_current(), fenced = 0;
	uint32_t class;
	size_t pages = (bytes + PAGE_BYTES - 1) >> PAGE_SHIFT;
	void *block, **head;

	if (!is_kept_size(pages))
		return NULL;
	class = kept_class(pages);
	pages = kept_class_pages(class);
	head = &kept_heads[node][class];
	/* A look without the lock: mostly there is one, or there is not. */
	if (!__atomic_load_n(head, __ATOMIC_RELAXED))
		return NULL;
	block = kept_take(head, pages);
	if (unlikely(!block))
		return NULL;
	if (SLUB_CONFIG_HARDENED)
		fenced = page_flags_read(page_of(block)) & PAGE_FENCED;
	large_mark(block, pages, node, false);
	if (fenced)
		page_flags_write(page_of(block),
				 page_flags_read(page_of(block)) | fenced);
	slab_tell(NULL);
	return block;
}

bool quick_free(void *block, size_t pages, uint32_t node)
{
	uint32_t class;
	void **head;

	if (unlikely(!keeps || !is_kept_size(pages) || page_reserve_is_short()))
		return false;
	class = kept_class(pages);
	if (unlikely(kept_class_pages(class) != pages))
		return false;
	head = &kept_heads[node][class];
	lock_acquire(&quick_lock);
	*kept_link(block) = *head;
	kept_head_set(head, block);
	size_add(&quick_pages, pages);
	lock_release(&quick_lock);
	return true;
}

/* ---- counts and sizes ---- */

size_t large_nr_pages(void)
{
	size_t kept = quick_nr_pages() + fence_nr_pages();
	size_t used = __atomic_load_n(&large_pages.pages, __ATOMIC_RELAXED);

	return used > kept ? used - kept : 0;
}

static bool is_run(size_t pages)
{
	return pages > ZONE_PAGES_MAX;
}

static size_t run_superblocks(size_t pages)
{
	return (pages + SUPERBLOCK_PAGES - 1) / SUPERBLOCK_PAGES;
}

/*
 * What a run of @pages counts for: where huge pages are asked for, memory comes
 * 2 MiB at a time, also behind the end.
 */
static size_t run_charge(size_t pages)
{
	size_t n = run_superblocks(pages);

	switch ((enum option_huge)option_value(OPTION_huge)) {
	case HUGE_ALWAYS:
		return n * SUPERBLOCK_PAGES;
	case HUGE_BLOCK:
		return n > 1 ? n * SUPERBLOCK_PAGES : pages;
	case HUGE_AUTO:
	case HUGE_NEVER:
		break;
	}
	return pages;
}

/* Frees @pages pages from @start on: the largest aligned blocks, in turn. */
static void free_pages(char *start, size_t pages, uint32_t node, bool is_dirty)
{
	while (pages) {
		uint32_t order = ilog2(pages);
		uintptr_t number = (uintptr_t)start >> PAGE_SHIFT;

		if ((uint32_t)__builtin_ctzl(number) < order)
			order = (uint32_t)__builtin_ctzl(number);
		zone_free(start, order, node, is_dirty);
		start += PAGE_BYTES << order;
		pages -= (size_t)1 << order;
	}
}

static void count_add(size_t pages)
{
	__atomic_fetch_add(&large_pages.pages, pages, __ATOMIC_RELAXED);
}

/* Gives a block that no longer counts as a large one to its zone. */
static void large_release(void *block, size_t pages, uint32_t node)
{
	count_add(-pages);
	free_pages(block, pages, node, true);
}

/* One by one: of a list in hand a child that is forked meanwhile would lose all. */
static void kept_flush(uint32_t node, uint32_t class)
{
	size_t pages = kept_class_pages(class);
	/* Others may be freeing all the time. */
	size_t most = quick_nr_pages() / pages;
	void *block, **head = &kept_heads[node][class];

	while (__atomic_load_n(head, __ATOMIC_RELAXED) && most--) {
		block = kept_take(head, pages);
		if (!block)
			return;
		inject(INJECT_quick);
		if (SLUB_CONFIG_HARDENED && !fence_open(block, pages))
			continue;
		/* It was counted when it came. */
		large_release(block, pages, node);
	}
}

void quick_flush_node(uint32_t node)
{
	for (uint32_t c = 0; c < KEPT_CLASSES; c++)
		kept_flush(node, c);
}

void quick_flush_all(void)
{
	if (slub_thread.locks_held)
		return;
	for (uint32_t n = 0; n < nr_zones; n++)
		quick_flush_node(n);
}

/* Of *@node or, when there is none and no more to be had, of another: *@node then. */
static void *zone_piece(size_t pages, size_t align, uint32_t *node,
			bool *is_zero)
{
	uint32_t order = order_of(max_size(pages, align / PAGE_BYTES));
	uint32_t own = *node;
	void *block = zone_alloc_front(order, pages, own, is_zero);

	for (uint32_t n = 1; unlikely(!block) && n < nr_zones; n++) {
		*node = (own + n) % nr_zones;
		if (zone_has_block(order, *node))
			block = zone_alloc_front(order, pages, *node, is_zero);
	}
	if (block)
		count_add(pages);
	return block;
}

/* One superblock, all of it wanted: a huge page leaves nothing unused. */
static bool is_huge_block(void)
{
	return option_value(OPTION_huge) == HUGE_BLOCK;
}

/* A run for @pages pages; @charged of them are counted already. */
static void *run_piece(size_t pages, size_t align, size_t charged,
		       uint32_t node, bool *is_zero)
{
	size_t charge = run_charge(pages) - charged;
	char *ptr;

	if (!page_charge(charge))
		return NULL;
	ptr = superblock_alloc(run_superblocks(pages),
			       max_size(align / SUPERBLOCK_BYTES, 1), node,
			       false, is_zero);
	if (!ptr) {
		page_uncharge(charge);
		return NULL;
	}
	count_add(pages);
	if (*is_zero && pages == SUPERBLOCK_PAGES && is_huge_block())
		os_huge(ptr, SUPERBLOCK_BYTES, true);
	return ptr;
}

/* What a block for @bytes has: classes leave an eighth of room at the most. */
static size_t pages_for(size_t bytes)
{
	return quick_round(max_size((bytes + PAGE_BYTES - 1) / PAGE_BYTES, 1));
}

bool large_is_possible(size_t bytes, size_t align)
{
	size_t limit = page_limit_bytes(), most = max_size(bytes, align);

	/* What is less than the heap need not ask the system. */
	return (most <= pagemap_committed() || most <= pagemap_most()) &&
	       (!limit || bytes <= limit) && !page_system_refuses(bytes);
}

void *large_take(size_t bytes, size_t align, bool *is_zero)
{
	uint32_t node = os_node_current();
	size_t pages = pages_for(bytes);
	bool run;
	char *ptr;

	if (!large_is_possible(bytes, align))
		return NULL;
	ptr = align <= PAGE_BYTES ? large_alloc_kept(bytes) : NULL;
	if (ptr) {
		*is_zero = false;
		return ptr;
	}
	run = is_run(max_size(pages, align / PAGE_BYTES));
	if (run)
		ptr = run_piece(pages, align, 0, node, is_zero);
	else
		ptr = zone_piece(pages, align, &node, is_zero);
	if (ptr) {
		large_mark(ptr, pages, node, run);
		slab_tell(NULL);
	}
	return ptr;
}

void *large_alloc(size_t bytes, size_t align, bool *is_zero)
{
	if (!SLUB_CONFIG_HARDENED)
		return large_take(bytes, align, is_zero);
	return large_is_possible(bytes, align) ?
		       fence_alloc(bytes, align, is_zero) : NULL;
}

static void run_free(char *ptr, size_t pages)
{
	count_add(-pages);
	superblock_free(ptr, run_superblocks(pages), true);
	page_uncharge(run_charge(pages));
}

static void unmark(void *ptr)
{
	large_entry_set(ptr, MAP_NONE);
	page_flags_write(page_of(ptr), 0);
}

void large_give(void *ptr, size_t pages, uint32_t flags)
{
	if (flags & PAGE_RUN)
		run_free(ptr, pages);
	else if (!quick_free(ptr, pages, flags >> 16 & 0xff))
		large_release(ptr, pages, flags >> 16 & 0xff);
}

void large_free(void *ptr)
{
	struct page *page = page_of(ptr);
	size_t pages = page->count;
	uint32_t flags = page_flags_read(page), owner = *page_owner(page);

	unmark(ptr);
	if (SLUB_CONFIG_HARDENED)
		fence_free(ptr, pages, flags);
	else
		large_give(ptr, pages, flags);
	if (owner)
		group_uncharge(owner, pages * PAGE_BYTES);
	purge_look();
	slab_tell(NULL);
}

void large_set_owner(void *ptr, uint32_t owner)
{
	__atomic_store_n(page_owner(page_of(ptr)), owner, __ATOMIC_RELAXED);
}

static void set_count(struct page *page, size_t pages)
{
	count_add(pages - page->count);
	__atomic_store_n(&page->count, (uint32_t)pages, __ATOMIC_RELAXED);
}

/* The run gets shorter: its last superblocks go, and a tail worth a call. */
static void run_shrink(char *ptr, size_t old, size_t pages)
{
	size_t keep = run_superblocks(pages);
	size_t have = run_superblocks(old);
	size_t end = min_size(old, keep * SUPERBLOCK_PAGES);

	if (have > keep)
		superblock_free(ptr + keep * SUPERBLOCK_BYTES, have - keep,
				true);
	if (end - pages >= SUPERBLOCK_PAGES / 8) {
		size_t from = round_up(pages * PAGE_BYTES, os_page_size());

		os_purge(ptr + from, end * PAGE_BYTES - from);
	}
}

/*
 * So small a block has no business in a superblock of its own: the heap's range is four
 * times the memory, and would be full before that is.
 */
#define RUN_PAGES_MIN (SUPERBLOCK_PAGES / 4)

/* From a run to a block that is cut from a zone, by a copy; NULL: no memory. */
static void *run_leave(char *ptr, size_t old, size_t pages)
{
	uint32_t node = page_node(page_of(ptr));
	bool is_zero;
	void *to = large_alloc_kept(pages * PAGE_BYTES);

	if (!to) {
		to = zone_piece(pages, PAGE_BYTES, &node, &is_zero);
		if (!to)
			return NULL;
		large_mark(to, pages, node, false);
	}
	memcpy(to, ptr, pages * PAGE_BYTES);
	unmark(ptr);
	run_free(ptr, old);
	return to;
}

/*
 * A move left a hole that could not be filled, and will again: with RLIMIT_AS below what is
 * mapped some kernels unmap the target, then refuse, and refuse the filling.
 */
static _Atomic bool moves_leave_holes;

/* A move failed: are the @bytes at @to still there, or again (PAGE-4)? */
static bool is_there(void *to, size_t bytes)
{
	int err = os_map_at(to, bytes);

	return !err || err == -EEXIST;
}

/* Moves the pages, not the bytes, to a longer run. */
static void *run_move(char *ptr, size_t old, size_t pages)
{
	/* All of the source: the pages left behind count as clean. */
	size_t bytes = run_superblocks(old) * SUPERBLOCK_BYTES;
	bool is_zero;
	/* Where its pages are, wherever this thread is. */
	uint32_t node = page_node(page_of(ptr));
	size_t charged = run_charge(old);
	char *to = NULL;

	if (!__atomic_load_n(&moves_leave_holes, __ATOMIC_RELAXED))
		to = run_piece(pages, PAGE_BYTES, charged, node, &is_zero);
	if (!to)
		return NULL;
	if (os_move(ptr, to, bytes)) {
		count_add(-pages);
		page_uncharge(run_charge(pages) - charged);
		if (is_there(to, bytes))
			superblock_free(to, run_superblocks(pages), true);
		else
			__atomic_store_n(&moves_leave_holes, true,
					 __ATOMIC_RELAXED);
		return NULL;
	}
	large_mark(to, pages, node, true);
	unmark(ptr);
	count_add(-old);
	superblock_free(ptr, run_superblocks(old), false);
	return to;
}

/* Where it is, or else elsewhere. */
static void *run_grow(char *ptr, size_t old, size_t pages)
{
	size_t more = run_superblocks(pages) - run_superblocks(old);
	size_t charge = run_charge(pages) - run_charge(old);

	if (!page_charge(charge))
		return NULL;
	if (more && !superblock_extend(ptr, run_superblocks(old), more)) {
		page_uncharge(charge);
		return run_move(ptr, old, pages);
	}
	set_count(page_of(ptr), pages);
	return ptr;
}

/* A block out of a zone: its tail goes, or what is free behind it comes. */
static void *piece_resize(char *ptr, size_t old, size_t pages)
{
	struct page *page = page_of(ptr);
	uint32_t node = page_node(page);

	if (pages < old)
		free_pages(ptr + pages * PAGE_BYTES, old - pages, node, true);
	else if (is_run(pages) ||
		 !zone_extend(ptr + old * PAGE_BYTES, pages - old, node))
		return NULL;
	set_count(page, pages);
	return ptr;
}

static void *resize(void *ptr, size_t old, size_t pages)
{
	struct page *page = page_of(ptr);
	void *to = NULL;

	if (!(page_flags_read(page) & PAGE_RUN))
		return piece_resize(ptr, old, pages);
	if (pages < old && pages < RUN_PAGES_MIN)
		to = run_leave(ptr, old, pages);
	if (to)
		return to;
	if (pages < old) {
		run_shrink(ptr, old, pages);
		set_count(page, pages);
		page_uncharge(run_charge(old) - run_charge(pages));
		return ptr;
	}
	return run_grow(ptr, old, pages);
}

static void *resize_charged(void *ptr, size_t old, size_t pages, uint32_t owner)
{
	void *to;

	if (pages > old && group_charge(owner, (pages - old) * PAGE_BYTES))
		return NULL;
	to = resize(ptr, old, pages);
	if (to)
		large_set_owner(to, owner);
	if (to && pages < old)
		group_uncharge(owner, (old - pages) * PAGE_BYTES);
	else if (!to && pages > old)
		group_uncharge(owner, (pages - old) * PAGE_BYTES);
	return to;
}

void *large_resize(void *ptr, size_t bytes)
{
	size_t old, pages;
	uint32_t owner;
	void *to;

	if (bytes > heap_reserved_bytes)
		return NULL;
	if (SLUB_CONFIG_HARDENED)
		return fence_resize(ptr, bytes);
	old = page_of(ptr)->count;
	owner = *page_owner(page_of(ptr));
	pages = pages_for(bytes);
	if (pages == old)
		return ptr;
	/* As mremap() would: what is added counts. */
	if (pages > old && page_system_refuses((pages - old) * PAGE_BYTES))
		return NULL;
	to = likely(!owner) ? resize(ptr, old, pages) :
			      resize_charged(ptr, old, pages, owner);
	/* What was cut off is free, as after large_free(). */
	if (pages < old)
		purge_look();
	return to;
}

size_t large_bytes_for(size_t bytes)
{
	if (SLUB_CONFIG_HARDENED && bytes <= heap_reserved_bytes)
		return max_size(round_up(bytes, PAGE_BYTES), PAGE_BYTES);
	return bytes > heap_reserved_bytes ? bytes :
					     pages_for(bytes) * PAGE_BYTES;
}

size_t large_bytes(const void *ptr)
{
	/* Also asked for blocks that may be freed meanwhile: slab/shadow/group_objects.c. */
	return (size_t)__atomic_load_n(&page_of(ptr)->count, __ATOMIC_RELAXED) *
	       PAGE_BYTES;
}
