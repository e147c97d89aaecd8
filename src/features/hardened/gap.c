/* SPDX-License-Identifier: MIT */
/*
 * Gaps of the hardened build: behind some slabs, drawn by chance, lies a page that nobody may
 * touch.  An overflow that runs on from slab to slab ends the program there.
 *
 * A gap is a free page that happens to lie behind a new slab, taken out of the zone, and a guard
 * page (Linux 6.13): no mapping of its own, which a fork would copy, no memory, and one call to
 * make it and one to end it.  Where the kernel has none, or the page behind the slab is in use,
 * there is no gap.  It ends with its slab, which says so by PAGE_FENCED.
 */
#include "core/base/hash.h"
#include "core/page/page_internal.h"

/* One slab in so many has one. */
#define GAP_SHARE 8

static _Atomic bool is_refused;
/* Two threads may draw the same. */
static uint64_t random_state;

static may_race bool is_drawn(void)
{
	if (unlikely(!random_state))
		random_state = os_random_word(0) ^ os_clock_ns();
	return random_next(&random_state) >> 32 < UINT32_MAX / GAP_SHARE;
}

bool gap_close(void *block, uint32_t order, uint32_t node)
{
	char *end = (char *)block + (PAGE_BYTES << order);

	if (__atomic_load_n(&is_refused, __ATOMIC_RELAXED) || os_page_size() != PAGE_BYTES ||
	    !is_drawn() || !zone_extend(end, 1, node))
		return false;
	if (likely(!os_guard(end, PAGE_BYTES, false)))
		return true;
	__atomic_store_n(&is_refused, true, __ATOMIC_RELAXED);
	zone_free(end, 0, node, true);
	return false;
}

/* What the kernel does not open stays closed, and is lost. */
void gap_open(void *block, uint32_t order, uint32_t node)
{
	char *end = (char *)block + (PAGE_BYTES << order);

	if (!os_guard(end, PAGE_BYTES, true))
		zone_free(end, 0, node, false);
}
