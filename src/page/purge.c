/* SPDX-License-Identifier: MIT */
/*
 * When free memory goes back to the system: in the very call that frees it,
 * as soon as more than the limit lies idle, down to half of that.
 *
 * So a process that frees and then never calls again has nothing left to give
 * back, and there is no thread, no timer and no signal for it.
 *
 * The limit starts at SLUB_RETAIN.  A program that frees and allocates more
 * than that in turns would buy the same pages back each time, at a page fault
 * each (10,000 blocks of 4 KiB, allocated and freed over and over: 5,900
 * cycles per block against 40).  So memory that is asked for within a second
 * of having been given back doubles the limit, up to a sixteenth of the
 * machine's memory; a second without halves it again, at the next purge.
 */
#include "page/page.h"

#define RETURN_NS 1000000000ull
#define RETAIN_SHARE 16

/* Estimates: a lost update costs a purge too many or too few. */
static _Atomic size_t limit_bytes;	/* 0: not above SLUB_RETAIN */
static _Atomic size_t limit_max_bytes;
static _Atomic uint64_t purged_at_ns;
static _Atomic uint64_t bought_at_ns;
static _Atomic size_t bought_pages;	/* since the last purge */

void page_purge_init(const struct os_limits *limits)
{
	limit_max_bytes = max_size(limits->memory_bytes / RETAIN_SHARE,
				   option_value(OPTION_retain));
	if (limits->address_bytes != SIZE_MAX || option_value(OPTION_retain) ==
	    0)
		limit_max_bytes = option_value(OPTION_retain);
}

size_t page_nr_dirty(void)
{
	return zone_nr_dirty() + superblock_nr_dirty();
}

static size_t current_limit(void)
{
	return max_size(limit_bytes, option_value(OPTION_retain));
}

void page_bought(size_t pages)
{
	uint64_t now;
	size_t bought;

	if (!purged_at_ns)
		return;
	bought = __atomic_add_fetch(&bought_pages, pages, __ATOMIC_RELAXED);
	if (bought * PAGE_BYTES < current_limit() / 2)
		return;
	now = os_clock_ns();
	bought_pages = 0;
	if (now - purged_at_ns > RETURN_NS)
		return;
	bought_at_ns = now;
	limit_bytes = min_size(2 * current_limit(), limit_max_bytes);
}

static void limit_decay(void)
{
	uint64_t now = os_clock_ns();

	if (limit_bytes && now - bought_at_ns > RETURN_NS)
		limit_bytes = limit_bytes / 2;
	purged_at_ns = now;
	bought_pages = 0;
}

void page_purge(size_t bytes)
{
	size_t pages = bytes / PAGE_BYTES;

	superblock_purge(pages);
	if (page_nr_dirty() > pages)
		zone_purge(pages);
}

bool page_purge_if_needed(void)
{
	if (likely(page_nr_dirty() * PAGE_BYTES <= current_limit()))
		return false;
	if (slub_thread.locks_held || slub_thread.flags & THREAD_IN_RECLAIM)
		return false;
	slub_thread.flags |= THREAD_IN_RECLAIM;
	limit_decay();
	page_purge(current_limit() / 2);
	slub_thread.flags &= ~(uint32_t)THREAD_IN_RECLAIM;
	return true;
}
