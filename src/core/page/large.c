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
 * A freed block of up to half a superblock is *kept* for a while, in a list of the CPU: a request
 * of the same class takes it without splitting and merging blocks in a zone (block.c).
 */
#include <errno.h>
#include <string.h>

#include "core/page/page_internal.h"

/* In large blocks, and in those that are kept. */
static struct page_count large_pages;

bool slab_is_told;

/* ---- blocks that are kept ---- */

/* The pages of the class for @pages; @pages themselves if there is none. */
static size_t quick_round(size_t pages)
{
	return is_kept_size(pages) ? kept_class_pages(kept_class(pages)) : pages;
}

void *large_alloc_kept(size_t bytes)
{
	size_t pages = (bytes + PAGE_BYTES - 1) >> PAGE_SHIFT;
	uint32_t node, class, fenced = 0;
	void *block;

	if (!is_kept_size(pages))
		return NULL;
	node = os_node_current();
	class = kept_class(pages);
	block = quick_alloc(class, node);
	if (!block)
		return NULL;
	if (SLUB_CONFIG_HARDENED)
		fenced = page_flags_read(page_of(block)) & PAGE_CLOSED_MASK;
	large_mark(block, kept_class_pages(class), node, false);
	if (fenced)
		page_flags_write(page_of(block),
				 page_flags_read(page_of(block)) | fenced);
	slab_tell(NULL);
	return block;
}

/* ---- counts and sizes ---- */

size_t large_nr_pages(void)
{
	size_t kept = quick_nr_pages() + fence_nr_pages();
	size_t used = __atomic_load_n(&large_pages.pages, __ATOMIC_RELAXED);

	return used > kept ? used - kept : 0;
}

/* Frees @pages pages from @start on: the largest aligned blocks, in turn. */
static void large_free_pages(char *start, size_t pages, uint32_t node, bool is_dirty)
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

void large_count_add(size_t pages)
{
	__atomic_fetch_add(&large_pages.pages, pages, __ATOMIC_RELAXED);
}

void large_release(void *block, size_t pages, uint32_t node)
{
	large_count_add(-pages);
	large_free_pages(block, pages, node, true);
}

void *large_piece(size_t pages, size_t align, uint32_t *node,
			bool *is_zero)
{
	uint32_t order = order_of(max_size(pages, align / PAGE_BYTES));
	uint32_t own = *node;
	void *block;

	/* As for a slab: vectors leave the classes that they grow through, and come to be large. */
	if (!superblock_nr_dirty() && !zone_has_block(order, own))
		slab_empty_left();
	block = zone_alloc_front(pages, align, own, is_zero);
	for (uint32_t n = 1; unlikely(!block) && n < nr_zones; n++) {
		*node = (own + n) % nr_zones;
		if (zone_has_block(order, *node))
			block = zone_alloc_front(pages, align, *node, is_zero);
	}
	if (block)
		large_count_add(pages);
	return block;
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
	return (most <= pagemap_committed() || pagemap_allows(most)) &&
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
		renew_mark(ptr, pages, align);
		return ptr;
	}
	run = is_run(max_size(pages, align / PAGE_BYTES));
	if (run)
		ptr = run_piece(pages, align, 0, node, is_zero);
	else
		ptr = large_piece(pages, align, &node, is_zero);
	if (ptr) {
		large_mark(ptr, pages, node, run);
		renew_mark(ptr, pages, align);
		slab_tell(NULL);
	}
	return ptr;
}

static cold void *large_told(void *ptr, size_t bytes)
{
	size_t have = large_bytes(ptr);

	sanitizer_tell_block(ptr, have, true);
	sanitizer_tell_use(ptr, bytes, have);
	return ptr;
}

void *large_alloc(size_t bytes, size_t align, bool *is_zero)
{
	void *ptr = NULL;

	if (!SLUB_CONFIG_HARDENED)
		ptr = large_take(bytes, align, is_zero);
	else if (large_is_possible(bytes, align))
		ptr = fence_alloc(bytes, align, is_zero);
	return unlikely(sanitizer.is_told) && ptr ? large_told(ptr, bytes) : ptr;
}

cold void *large_alloc_reserve(size_t bytes, size_t align)
{
	void *ptr = SLUB_CONFIG_HARDENED ? fence_alloc_reserve(bytes, align) :
					   reserve_take_large(bytes, align);

	return unlikely(sanitizer.is_told) && ptr ? large_told(ptr, bytes) : ptr;
}

void large_unmark(void *ptr)
{
	large_entry_set(ptr, MAP_NONE);
	page_flags_write(page_of(ptr), 0);
}

/* Pages of a zone's that were mapped anew. */
static void pieces_return(char *start, size_t pages, uint32_t node, enum renewal renewal)
{
	if (likely(renewal != RENEW_LOST))
		large_free_pages(start, pages, node, renewal == RENEW_DIRTY);
	else
		page_uncharge(pages);
}

static cold void piece_renew(char *ptr, size_t pages, uint32_t flags)
{
	uint32_t node = flags >> 16 & 0xff;

	large_count_add(-pages);
	renew_note(pages);
	pieces_return(ptr, pages, node, page_renew(ptr, pages * PAGE_BYTES, node));
}

/* What a block that is marked cuts off is like what is freed. */
static void piece_cut(char *tail, size_t pages, uint32_t flags)
{
	uint32_t node = flags >> 16 & 0xff;

	pieces_return(tail, pages, node, likely(!(flags & PAGE_ANEW)) ? RENEW_DIRTY :
		      page_renew(tail, pages * PAGE_BYTES, node));
}

void large_give(void *ptr, size_t pages, uint32_t flags)
{
	if (flags & PAGE_RUN)
		run_free(ptr, pages, flags);
	else if (unlikely(flags & PAGE_ANEW))
		piece_renew(ptr, pages, flags);
	else if (!quick_free(ptr, pages, flags >> 16 & 0xff))
		large_release(ptr, pages, flags >> 16 & 0xff);
}

void large_free(void *ptr)
{
	struct page *page = page_of(ptr);
	size_t pages = page->count;
	uint32_t flags = page_flags_read(page), owner = *page_owner(page);

	sanitizer_block(ptr, pages * PAGE_BYTES, false);
	large_unmark(ptr);
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

void large_count_set(struct page *page, size_t pages)
{
	large_count_add(pages - page->count);
	__atomic_store_n(&page->count, (uint32_t)pages, __ATOMIC_RELAXED);
}

/* A block out of a zone: its tail goes, or what is free behind it comes. */
static void *piece_resize(char *ptr, size_t old, size_t pages)
{
	struct page *page = page_of(ptr);
	uint32_t node = page_node(page);

	if (pages < old)
		piece_cut(ptr + pages * PAGE_BYTES, old - pages, page_flags_read(page));
	else if (is_run(pages) ||
		 !zone_extend(ptr + old * PAGE_BYTES, pages - old, node))
		return NULL;
	large_count_set(page, pages);
	return ptr;
}

/*
 * A block that shrinks to so little goes to another, by a copy: whole it serves the next
 * request of its size, and its tail would be in pieces that no such request can use.  A program
 * that fills a buffer and keeps what it read (1 MiB, then 34 to 200 KB) copies less than an
 * eighth of what it wrote, and has no page faults for the next one; one that shrinks many blocks
 * side by side gives back whole blocks.  What has superblocks of its own stays where it is.
 */
#define LEAVE_SHARE 4

cold void *large_leave(char *ptr, size_t old, size_t pages, uint32_t flags)
{
	uint32_t node = page_node(page_of(ptr));
	bool is_zero;
	void *to = large_alloc_kept(pages * PAGE_BYTES);

	if (!to) {
		to = large_piece(pages, PAGE_BYTES, &node, &is_zero);
		if (!to)
			return NULL;
		large_mark(to, pages, node, false);
	}
	memcpy(to, ptr, pages * PAGE_BYTES);
	large_unmark(ptr);
	large_give(ptr, old, flags);
	return to;
}

static cold void *large_resize_to(void *ptr, size_t old, size_t pages)
{
	struct page *page = page_of(ptr);
	uint32_t flags = page_flags_read(page);
	void *to = NULL;

	*large_wanted(page) = 0;
	if (flags & PAGE_RUN ? pages < old && pages < RUN_PAGES_MIN : pages <= old / LEAVE_SHARE)
		to = large_leave(ptr, old, pages, flags);
	if (to)
		return to;
	if (!(flags & PAGE_RUN))
		return piece_resize(ptr, old, pages);
	if (pages < old) {
		run_shrink(ptr, old, pages, flags);
		large_count_set(page, pages);
		page_uncharge(run_charge(old) - run_charge(pages));
		return ptr;
	}
	to = run_grow(ptr, old, pages);
	/* What was left on it has moved with it. */
	if (to && flags & PAGE_ANEW)
		page_flags_write(page_of(to), page_flags_read(page_of(to)) | PAGE_ANEW);
	else if (to)
		renew_mark(to, pages, 1);
	return to;
}

static cold void *resize_charged(void *ptr, size_t old, size_t pages, uint32_t owner)
{
	void *to;

	if (pages > old && group_charge(owner, (pages - old) * PAGE_BYTES))
		return NULL;
	to = large_resize_to(ptr, old, pages);
	if (to)
		large_set_owner(to, owner);
	if (to && pages < old)
		group_uncharge(owner, (old - pages) * PAGE_BYTES);
	else if (!to && pages > old)
		group_uncharge(owner, (pages - old) * PAGE_BYTES);
	return to;
}

void large_has_room(void *ptr, size_t bytes)
{
	if (!SLUB_CONFIG_HARDENED)
		*large_wanted(page_of(ptr)) = pages_for(bytes);
}

bool large_stays(void *ptr, size_t bytes)
{
	struct page *page = page_of(ptr);
	uintptr_t *wanted = large_wanted(page);
	size_t pages = pages_for(bytes);

	if (likely(!*wanted))
		return pages == page->count;
	/* It grows on into its room; one that gets shorter has none any more. */
	if (pages > page->count || pages < *wanted)
		return false;
	*wanted = pages;
	return true;
}

cold void *large_resize(void *ptr, size_t bytes)
{
	size_t old, pages;
	uint32_t owner;
	void *to;

	/* A runtime that is told of blocks knows none that move or grow. */
	if (bytes > heap_reserved_bytes || unlikely(sanitizer.is_there))
		return NULL;
	if (SLUB_CONFIG_HARDENED)
		return fence_resize(ptr, bytes);
	old = page_of(ptr)->count;
	owner = *page_owner(page_of(ptr));
	pages = pages_for(bytes);
	if (large_stays(ptr, bytes))
		return ptr;
	/* As mremap() would: what is added counts. */
	if (pages > old && page_system_refuses((pages - old) * PAGE_BYTES))
		return NULL;
	to = likely(!owner) ? large_resize_to(ptr, old, pages) :
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
	/* Also asked for blocks that may be freed meanwhile: features/groups/group_objects.c. */
	return (size_t)__atomic_load_n(&page_of(ptr)->count, __ATOMIC_RELAXED) *
	       PAGE_BYTES;
}
