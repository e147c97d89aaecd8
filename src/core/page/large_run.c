/* SPDX-License-Identifier: MIT */
/*
 * Runs: large blocks of whole superblocks, from more than half of one on.  Only the pages
 * in use have memory behind them.
 *
 * A run grows where it is, if the superblocks behind it are free; else its pages go to a longer
 * one, by mremap() or by a copy.
 */
#include <errno.h>
#include <string.h>

#include "core/page/page_internal.h"

static size_t run_superblocks(size_t pages)
{
	return (pages + SUPERBLOCK_PAGES - 1) / SUPERBLOCK_PAGES;
}

size_t run_charge(size_t pages)
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

/* One superblock, all of it wanted: a huge page leaves nothing unused. */
static bool is_huge_block(void)
{
	return option_value(OPTION_huge) == HUGE_BLOCK;
}

void *run_piece(size_t pages, size_t align, size_t charged,
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
	large_count_add(pages);
	if (*is_zero && pages == SUPERBLOCK_PAGES && is_huge_block())
		os_huge(ptr, SUPERBLOCK_BYTES, true);
	return ptr;
}

/*
 * ---- runs that were moved ----
 *
 * Pages that were moved stay a mapping of their own to the kernel, with one more behind
 * them, for it merges only what began side by side.  A process has some 65,000, which its
 * threads and files need too.  So a run that was moved is mapped anew when it is free, and
 * a run is moved only if few are, or if it is a good part of all that is in use, so that there
 * cannot be many like it.  Else it is copied.
 */
#define MOVES_ALWAYS 8
#define MOVE_SHARE 64

static _Atomic size_t nr_moved;		/* runs now */

static bool was_moved(const void *ptr)
{
	return page_flags_read(page_of(ptr)) & PAGE_MOVED;
}

static bool may_move(const void *ptr, size_t pages)
{
	return was_moved(ptr) || size_read(&nr_moved) < MOVES_ALWAYS ||
	       pages * PAGE_BYTES >= page_used_bytes() / MOVE_SHARE;
}

size_t run_nr_moved(void)
{
	return size_read(&nr_moved);
}

const _Atomic size_t *run_moved_place(void)
{
	return &nr_moved;
}

void run_free(char *ptr, size_t pages, uint32_t flags)
{
	large_count_add(-pages);
	page_uncharge(run_charge(pages));
	if (flags & PAGE_MOVED)
		__atomic_fetch_sub(&nr_moved, 1, __ATOMIC_RELAXED);
	if (flags & PAGE_ANEW)
		renew_note(pages);
	page_run_free(ptr, run_superblocks(pages), flags);
}

void run_shrink(char *ptr, size_t old, size_t pages, uint32_t flags)
{
	size_t keep = run_superblocks(pages);
	size_t have = run_superblocks(old);
	size_t end = min_size(old, keep * SUPERBLOCK_PAGES);

	if (have > keep)
		page_run_free(ptr + keep * SUPERBLOCK_BYTES, have - keep, flags);
	if (end - pages >= SUPERBLOCK_PAGES / 8) {
		size_t from = round_up(pages * PAGE_BYTES, os_page_size());

		os_purge(ptr + from, end * PAGE_BYTES - from);
	}
}

/*
 * A move left a hole that could not be filled, and will again: with RLIMIT_AS below what is
 * mapped some kernels unmap the target, then refuse, and refuse the filling.
 */
static _Atomic bool moves_leave_holes;

/* The new place of @ptr, whose @old pages it has by now. */
static void *run_replace(char *ptr, size_t old, char *to, size_t pages, uint32_t node,
			 bool by_move)
{
	uint32_t flags = page_flags_read(page_of(ptr));
	bool is_moved = flags & PAGE_MOVED;

	large_mark(to, pages, node, true);
	if (by_move)
		page_flags_write(page_of(to), page_flags_read(page_of(to)) | PAGE_MOVED);
	large_unmark(ptr);
	large_count_add(-old);
	if (by_move && !is_moved) {
		__atomic_fetch_add(&nr_moved, 1, __ATOMIC_RELAXED);
		/* The pages that were left behind count as clean. */
		superblock_free(ptr, run_superblocks(old), false);
		return to;
	}
	if (!by_move && is_moved)
		__atomic_fetch_sub(&nr_moved, 1, __ATOMIC_RELAXED);
	page_run_free(ptr, run_superblocks(old), flags);
	return to;
}

static bool page_is_zero(const char *page)
{
	const uint64_t *words = (const uint64_t *)page;

	for (size_t i = 0; i < PAGE_BYTES / sizeof(*words); i++) {
		if (words[i])
			return false;
	}
	return true;
}

/* What nobody touched stays so: the kernel has no memory behind a page that was only read. */
static void run_copy(char *to, bool to_is_zero, const char *from, size_t pages)
{
	for (size_t at = 0; at < pages * PAGE_BYTES; at += PAGE_BYTES) {
		if (!page_is_zero(from + at) || !(to_is_zero || page_is_zero(to + at)))
			memcpy(to + at, from + at, PAGE_BYTES);
	}
}

/*
 * A move that failed may have moved some of the pages: from Linux 6.17 on the kernel goes from
 * one mapping to the next, and ends where it may have no more of them.  What was moved reads as
 * zero at @from, which stays mapped, and the target, which read as zero before, has it.
 */
static void pages_return(char *from, const char *to, size_t bytes)
{
	for (size_t at = 0; at < bytes; at += PAGE_BYTES) {
		if (!page_is_zero(to + at) && page_is_zero(from + at))
			memcpy(from + at, to + at, PAGE_BYTES);
	}
}

/* False: there is a hole at @to that cannot be filled (PAGE-4), or it may be one. */
static bool superblock_return(char *from, char *to)
{
	size_t unit = os_page_size();
	int err = os_map_at(to, SUPERBLOCK_BYTES);
	bool is_whole = true;

	/* All of it was unmapped, and nothing came. */
	if (!err)
		return true;
	if (err == -EEXIST && !os_protect(to, SUPERBLOCK_BYTES, true)) {
		pages_return(from, to, SUPERBLOCK_BYTES);
		return true;
	}
	for (size_t at = 0; at < SUPERBLOCK_BYTES; at += unit) {
		err = os_map_at(to + at, unit);
		if (err == -EEXIST)
			pages_return(from + at, to + at, unit);
		is_whole = is_whole && (!err || err == -EEXIST);
	}
	return is_whole;
}

/* All is at @from again, as if nothing had been tried; the @n superblocks at @to are free. */
static cold void run_return(char *from, char *to, size_t bytes, size_t n)
{
	size_t moved = bytes / SUPERBLOCK_BYTES;

	for (size_t i = 0; i < moved; i++) {
		char *place = to + i * SUPERBLOCK_BYTES;

		if (superblock_return(from + i * SUPERBLOCK_BYTES, place))
			superblock_free(place, 1, true);
		else
			__atomic_store_n(&moves_leave_holes, true, __ATOMIC_RELAXED);
	}
	if (n > moved)
		superblock_free(to + bytes, n - moved, true);
}

/* Moves pages, not bytes, to a run that was just taken; false: they stay, and it is given back. */
static bool run_move(char *ptr, char *to, size_t bytes, size_t n)
{
	if (!os_move(ptr, to, bytes))
		return true;
	run_return(ptr, to, bytes, n);
	return false;
}

/* May a move be tried, to a run that was just taken?  Its pages read as zero then. */
static bool is_ready(char *to, bool is_zero, size_t bytes)
{
	return !__atomic_load_n(&moves_leave_holes, __ATOMIC_RELAXED) &&
	       (is_zero || !os_purge(to, bytes));
}

/* To a longer run. */
static void *run_go(char *ptr, size_t old, size_t pages)
{
	/* All of the source, for the superblocks that stay behind count as clean. */
	size_t bytes = run_superblocks(old) * SUPERBLOCK_BYTES;
	/* Where its pages are, wherever this thread is. */
	uint32_t node = page_node(page_of(ptr));
	size_t charged = run_charge(old);
	bool by_move = may_move(ptr, pages), is_zero;
	char *to = run_piece(pages, PAGE_BYTES, charged, node, &is_zero);

	if (!to)
		return NULL;
	by_move = by_move && is_ready(to, is_zero, bytes);
	if (by_move && !run_move(ptr, to, bytes, run_superblocks(pages))) {
		large_count_add(-pages);
		page_uncharge(run_charge(pages) - charged);
		return NULL;
	}
	if (!by_move)
		run_copy(to, is_zero, ptr, old);
	return run_replace(ptr, old, to, pages, node, by_move);
}

void *run_grow(char *ptr, size_t old, size_t pages)
{
	size_t more = run_superblocks(pages) - run_superblocks(old);
	size_t charge = run_charge(pages) - run_charge(old);

	if (!page_charge(charge))
		return NULL;
	if (more && !superblock_extend(ptr, run_superblocks(old), more)) {
		page_uncharge(charge);
		return run_go(ptr, old, pages);
	}
	large_count_set(page_of(ptr), pages);
	return ptr;
}
