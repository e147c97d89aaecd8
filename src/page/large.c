/* SPDX-License-Identifier: MIT */
/*
 * Large blocks: any number of pages.
 *
 * Up to half a superblock they come from the zones, cut to the pages asked
 * for (the tail goes back as smaller blocks); above, they are runs of whole
 * superblocks, of which only the pages in use have memory behind them.
 *
 * The descriptor of the first page holds the number of pages; only that page
 * has a map entry, so an address inside a large block is not taken for one.
 */
#include "page/page.h"

/* Pages in the largest block that is cut from a zone. */
#define ZONE_PAGES_MAX ((size_t)1 << BLOCK_ORDER_MAX)

static _Atomic size_t nr_pages_used;

void (*slab_notify)(struct slub_cache *cache);

size_t large_nr_pages(void)
{
	return __atomic_load_n(&nr_pages_used, __ATOMIC_RELAXED);
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
	case HUGE_AUTO:
		return n > 1 ? n * SUPERBLOCK_PAGES : pages;
	case HUGE_NEVER:
		break;
	}
	return pages;
}

/*
 * Frees @pages pages from page number @from of a block: the largest aligned
 * blocks that fit, in turn.
 */
static void free_pages(char *block, size_t from, size_t pages, uint32_t node,
		       bool is_dirty)
{
	while (pages) {
		uint32_t order = ilog2(pages);

		if (from && (uint32_t)__builtin_ctzl(from) < order)
			order = (uint32_t)__builtin_ctzl(from);
		if (is_dirty)
			block_free(block + from * PAGE_BYTES, order, node);
		else
			zone_free(block + from * PAGE_BYTES, order, node,
				  false);
		from += (size_t)1 << order;
		pages -= (size_t)1 << order;
	}
}

static void mark_large(void *ptr, size_t pages, uint32_t node, bool run)
{
	struct page *page = page_of(ptr);

	page_flags_write(page, page_flags_make(TYPE_LARGE, 0, node) |
				       (run ? PAGE_RUN : 0));
	page->count = (uint32_t)pages;
	pagemap_set(ptr, 1, MAP_LARGE);
	__atomic_fetch_add(&nr_pages_used, pages, __ATOMIC_RELAXED);
}

static void *zone_piece(size_t pages, size_t align, uint32_t node,
			bool *is_zero)
{
	uint32_t order = order_of(max_size(pages, align / PAGE_BYTES));
	size_t whole = (size_t)1 << order;
	char *block = block_alloc(order, node, is_zero);

	if (block && whole > pages)
		free_pages(block, pages, whole - pages, node, !*is_zero);
	return block;
}

/* A run for @pages pages, of which @charged are counted already. */
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
	if (!ptr)
		page_uncharge(charge);
	return ptr;
}

void *large_alloc(size_t bytes, size_t align, bool *is_zero)
{
	uint32_t node = os_node_current();
	size_t pages;
	bool run;
	char *ptr;

	if (bytes > heap_reserved_bytes || align > heap_reserved_bytes)
		return NULL;
	pages = max_size(round_up(bytes, PAGE_BYTES) / PAGE_BYTES, 1);
	run = is_run(max_size(pages, align / PAGE_BYTES));
	if (run)
		ptr = run_piece(pages, align, 0, node, is_zero);
	else
		ptr = zone_piece(pages, align, node, is_zero);
	if (ptr) {
		mark_large(ptr, pages, node, run);
		slab_tell(NULL);
	}
	return ptr;
}

static void run_free(char *ptr, size_t pages)
{
	superblock_free(ptr, run_superblocks(pages), true);
	page_uncharge(run_charge(pages));
}

void large_free(void *ptr)
{
	struct page *page = page_of(ptr);
	size_t pages = page->count;
	uint32_t flags = page_flags_read(page);

	pagemap_set(ptr, 1, MAP_NONE);
	page_flags_write(page, 0);
	__atomic_fetch_sub(&nr_pages_used, pages, __ATOMIC_RELAXED);
	if (flags & PAGE_RUN)
		run_free(ptr, pages);
	else
		free_pages(ptr, 0, pages, flags >> 16 & 0xff, true);
	page_purge_if_needed();
	slab_tell(NULL);
}

static void set_count(struct page *page, size_t pages)
{
	__atomic_fetch_add(&nr_pages_used, pages - page->count,
			   __ATOMIC_RELAXED);
	page->count = (uint32_t)pages;
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

/* Moves the pages, not the bytes, to a longer run. */
static void *run_move(char *ptr, size_t old, size_t pages)
{
	/* All of the source: what is left behind counts as clean. */
	size_t bytes = run_superblocks(old) * SUPERBLOCK_BYTES;
	bool is_zero;
	uint32_t node = os_node_current();
	size_t charged = run_charge(old);
	char *to = run_piece(pages, PAGE_BYTES, charged, node, &is_zero);

	if (!to)
		return NULL;
	if (os_move(ptr, to, bytes)) {
		page_uncharge(run_charge(pages) - charged);
		/* The kernel may have unmapped the target first (PAGE-4). */
		if (os_fill_hole(to, bytes) == 0)
			superblock_free(to, run_superblocks(pages), true);
		return NULL;
	}
	mark_large(to, pages, node, true);
	pagemap_set(ptr, 1, MAP_NONE);
	page_flags_write(page_of(ptr), 0);
	__atomic_fetch_sub(&nr_pages_used, old, __ATOMIC_RELAXED);
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

void *large_resize(void *ptr, size_t bytes)
{
	struct page *page = page_of(ptr);
	size_t old = page->count;
	size_t pages = round_up(bytes, PAGE_BYTES) / PAGE_BYTES;

	if (pages == old)
		return ptr;
	if (bytes > heap_reserved_bytes)
		return NULL;
	if (!(page_flags_read(page) & PAGE_RUN)) {
		if (pages > old)
			return NULL;
		free_pages(ptr, pages, old - pages, page_node(page), true);
		set_count(page, pages);
		return ptr;
	}
	if (pages < old) {
		run_shrink(ptr, old, pages);
		set_count(page, pages);
		page_uncharge(run_charge(old) - run_charge(pages));
		return ptr;
	}
	return run_grow(ptr, old, pages);
}

size_t large_bytes(const void *ptr)
{
	return (size_t)page_of(ptr)->count * PAGE_BYTES;
}
