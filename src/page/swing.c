/* SPDX-License-Identifier: MIT */
/*
 * Does the heap go up and down, or only down?  While it swings, as much is taken as
 * is given back, though the heap gets smaller meanwhile: what lies idle will be taken
 * again.  A program that is done with a burst takes nothing.
 *
 * Both are counted from one look to the next, and the past counts for less and less:
 * what is taken counts up to a window, and as soon as more than one is freed, both are
 * halved.  So a fall in which nothing is taken is seen after two windows at the most, and
 * at once if it comes in one piece.
 *
 * All are estimates: a lost update makes a look come out one block earlier or later.
 */
#include "page/page_internal.h"

/*
 * So much less may be taken than freed: `blocks` of bench/workloads, 4,000 of them,
 * gives back 1,764 MiB without this, 1,062 with 2, and 210 with 4; with windows of an
 * eighth of the peak and not a quarter 1,350 and 558.
 */
#define TAKEN_SHARE 4

static _Atomic size_t freed_pages;	/* ever */
/* What the last look saw. */
static _Atomic size_t last_freed;
static _Atomic size_t last_used;
/* Pages, in the recent past */
static _Atomic size_t recent_freed;
static _Atomic size_t recent_taken;

void swing_freed(size_t pages)
{
	size_write(&freed_pages, size_read(&freed_pages) + pages);
}

static size_t above(size_t a, size_t b)
{
	return a > b ? a - b : 0;
}

/* Piece by piece, so that a fall counts as much as one that is looked at often. */
static bool account(size_t freed, size_t taken, size_t window)
{
	size_t recent = size_read(&recent_freed);

	while (freed) {
		size_t piece = min_size(freed, window / 2 + 1);

		freed -= piece;
		recent += piece;
		if (recent > window) {
			recent /= 2;
			taken /= 2;
		}
	}
	size_write(&recent_freed, recent);
	size_write(&recent_taken, taken);
	return taken > 0 && taken * TAKEN_SHARE >= recent;
}

bool swing_look(size_t used, size_t window)
{
	size_t now = size_read(&freed_pages), before = size_read(&last_used);
	size_t freed = above(now, size_read(&last_freed));
	size_t taken = above(used + freed, before);

	size_write(&last_freed, now);
	size_write(&last_used, used);
	taken = min_size(size_read(&recent_taken) + taken, window);
	return account(min_size(freed, 4 * window), taken, window);
}
