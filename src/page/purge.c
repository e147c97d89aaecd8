/* SPDX-License-Identifier: MIT */
/*
 * When free memory goes back to the system: in the very call that frees it,
 * as soon as more than SLUB_RETAIN (16 MiB) lies idle, down to half of that.
 *
 * So a process that frees and then never calls again has nothing left to give
 * back, and there is no thread, no timer and no signal for it.  A clock would
 * be needed only to tell memory that idles from memory that is about to be
 * used again; the constant stands for that: swings smaller than it cost
 * nothing, and larger ones one madvise(2) per several megabytes.
 */
#include "page/page.h"

size_t page_nr_dirty(void)
{
	return zone_nr_dirty() + superblock_nr_dirty();
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
	size_t retain = option_value(OPTION_retain);

	if (likely(page_nr_dirty() * PAGE_BYTES <= retain))
		return false;
	if (slub_thread.locks_held || slub_thread.flags & THREAD_IN_RECLAIM)
		return false;
	slub_thread.flags |= THREAD_IN_RECLAIM;
	page_purge(retain / 2);
	slub_thread.flags &= ~(uint32_t)THREAD_IN_RECLAIM;
	return true;
}
