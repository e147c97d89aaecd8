/* SPDX-License-Identifier: MIT */
/* Runs of superblocks: they count as used, and go back with a look at the limit. */
#ifndef SLUB_TESTS_UNIT_PAGE_RUN_H
#define SLUB_TESTS_UNIT_PAGE_RUN_H

#include <gtest/gtest.h>

#include <utility>

#include "giving.h"
#include "start.h"

/* Where it begins, and its superblocks. */
using run = std::pair<char *, size_t>;

inline run take(size_t bytes, bool touch = true)
{
	bool is_zero;
	size_t n = bytes / SUPERBLOCK_BYTES;
	char *start = superblock_alloc(n, 1, 0, false, &is_zero);

	EXPECT_NE(start, nullptr);
	page_charge_always(bytes / PAGE_BYTES);
	for (size_t at = 0; touch && at < bytes; at += PAGE_BYTES)
		start[at] = 1;
	return { start, n };
}

inline void give(const run &run)
{
	page_uncharge(run.second * SUPERBLOCK_PAGES);
	superblock_free(run.first, run.second, true);
	/* One call has its bound; the next ones go on. */
	while (page_purge_if_needed())
		;
}

/* Bytes that are free and resident. */
inline size_t idle()
{
	return page_nr_dirty() * PAGE_BYTES;
}

#endif
