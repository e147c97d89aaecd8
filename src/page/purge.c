/* SPDX-License-Identifier: MIT */
/*
 * When free memory goes back to the system: in the very call that frees it,
 * as soon as more than the limit lies idle, down to half of that.
 *
 * So a process that frees and then never calls again has nothing left to give
 * back, and there is no thread, no timer and no signal for it.
 *
 * The limit is an eighth of what is in use, 4 MiB at the least and SLUB_RETAIN
 * at the most.  A program that frees and allocates more than that in turns
 * would buy the same pages back each time, at a page fault each (10,000 blocks
 * of 4 KiB, allocated and freed over and over: 5,900 cycles per block against
 * 40).  So the limit doubles, up to a sixteenth of the machine's memory, when
 * 8 MiB that were given back are bought back within a sixteenth of a second
 * (128 MiB a second are some 1.5 % of a CPU in page faults); a second without
 * that halves it again, at the next purge.
 */
#include "page/page.h"

#define LIMIT_MIN ((size_t)4 << 20)
#define LIMIT_SHARE 8
#define RAISED_SHARE 16
#define BOUGHT_PAGES (((size_t)8 << 20) / PAGE_BYTES)
#define BOUGHT_NS 62500000ull
#define DECAY_NS 1000000000ull

/* Estimates: a lost update costs a purge too many or too few. */
static _Atomic size_t raised_bytes;	/* 0: the limit is not raised */
static _Atomic size_t raised_max_bytes;
static _Atomic uint64_t raised_at_ns;
static _Atomic size_t given_pages;	/* back, and not bought since */
static _Atomic size_t bought_pages;	/* in this window */
static _Atomic uint64_t window_at_ns;

void page_purge_init(const struct os_limits *limits)
{
	raised_max_bytes = max_size(limits->memory_bytes / RAISED_SHARE,
				    option_value(OPTION_retain));
	if (limits->address_bytes != SIZE_MAX ||
	    option_value(OPTION_retain) == 0)
		raised_max_bytes = 0;
}

size_t page_nr_dirty(void)
{
	return zone_nr_dirty() + superblock_nr_dirty();
}

size_t page_idle_limit(void)
{
	size_t retain = option_value(OPTION_retain);
	size_t used = superblock_nr_used() * SUPERBLOCK_BYTES -
		      zone_nr_dirty() * PAGE_BYTES;
	size_t limit = max_size(used / LIMIT_SHARE, LIMIT_MIN);

	return max_size(min_size(limit, retain), raised_bytes);
}

static void limit_raise(void)
{
	uint64_t now = os_clock_ns();
	bool fast = now - window_at_ns < BOUGHT_NS;

	bought_pages = 0;
	window_at_ns = now;
	if (!fast)
		return;
	raised_at_ns = now;
	raised_bytes = min_size(2 * page_idle_limit(), raised_max_bytes);
}

void page_bought(size_t pages)
{
	size_t given = given_pages;

	if (likely(!given))
		return;
	pages = min_size(pages, given);
	given_pages = given - pages;
	if (__atomic_add_fetch(&bought_pages, pages, __ATOMIC_RELAXED) >=
	    BOUGHT_PAGES)
		limit_raise();
}

static void limit_decay(void)
{
	if (raised_bytes && os_clock_ns() - raised_at_ns > DECAY_NS)
		raised_bytes = raised_bytes / 2;
}

size_t page_purge(size_t bytes)
{
	size_t pages = bytes / PAGE_BYTES;
	size_t before = page_nr_dirty();
	size_t after;

	superblock_purge(pages);
	if (page_nr_dirty() > pages)
		zone_purge(pages);
	after = page_nr_dirty();
	if (after >= before)
		return 0;
	given_pages += before - after;
	return before - after;
}

size_t page_purge_if_needed(void)
{
	size_t pages;

	if (likely(page_nr_dirty() * PAGE_BYTES <= page_idle_limit()))
		return 0;
	if (slub_thread.locks_held || slub_thread.flags & THREAD_IN_RECLAIM)
		return 0;
	slub_thread.flags |= THREAD_IN_RECLAIM;
	limit_decay();
	pages = page_purge(page_idle_limit() / 2);
	slub_thread.flags &= ~(uint32_t)THREAD_IN_RECLAIM;
	return pages;
}
