/* SPDX-License-Identifier: MIT */
/*
 * How many pages are in use, and how many may be (SLUB_LIMIT).
 *
 * A page counts from when a zone, or the superblocks, hand it out until it
 * comes back there; that is where the limit is looked at, far behind every
 * fast path.  What is refused there fails once more above, after all lists
 * were emptied, and then the request fails with it.
 *
 * Idle memory is not in use, but it is resident: where there is a limit, used
 * and idle memory together keep to it.  See page_budget() for frees, and
 * page_bought() for memory that was taken anew while other pages lay idle.
 *
 * Before a request is refused, the layers above are asked to free something.  That, and what
 * the cgroup allows, is not the core's: features/growth.
 */
#include "core/page/page_internal.h"

#define TRIES_MAX 2

/* The kernel refuses no mapping of less: nobody asks it, nor pays for the call. */
#define ASKED_SHARE 2

static struct page_count used_pages;
static _Atomic size_t asked_bytes = SIZE_MAX;	/* const after start */
_Atomic size_t limit_pages = SIZE_MAX;
_Atomic size_t group_pages = SIZE_MAX;

void page_system_init(const struct os_limits *limits)
{
	size_write(&asked_bytes, limits->memory_bytes / ASKED_SHARE);
}

/*
 * The heap is mapped without a charge, so that memory which is freed and kept is none.  So a
 * request that no memory could ever meet would be met with addresses.
 */
bool page_system_refuses(size_t bytes)
{
	return unlikely(bytes >= size_read(&asked_bytes)) &&
	       os_is_too_much(bytes);
}

/* What large.c keeps is counted, but it is idle memory. */
static size_t used_really(void)
{
	size_t used = size_read(&used_pages.pages), idle = quick_nr_pages();

	return used > idle ? used - idle : 0;
}

/* A compare-exchange, so that one request cannot make a smaller one fail. */
static bool try_charge(size_t pages)
{
	size_t used = size_read(&used_pages.pages);

	do {
		size_t limit = size_read(&limit_pages);

		if (unlikely(pages > limit || used > limit - pages))
			return false;
	} while (!__atomic_compare_exchange_n(&used_pages.pages, &used, used + pages,
					      true, __ATOMIC_RELAXED,
					      __ATOMIC_RELAXED));
	return true;
}

/*
 * Twice at the most: what was freed may serve the request without a page, and
 * only the layers above can tell.
 */
static cold bool charge_after_growth_hook(size_t pages)
{
	if (SLUB_CONFIG_HARDENED)
		fence_flush();
	quick_flush();
	page_limit_reread();
	if (try_charge(pages))
		return true;
	for (int i = 0; i < TRIES_MAX; i++) {
		if (pages > size_read(&limit_pages) ||
		    !page_growth_ask(pages * PAGE_BYTES, GROWTH_FAILED))
			return false;
		if (try_charge(pages))
			return true;
	}
	return false;
}

bool page_charge(size_t pages)
{
	return likely(try_charge(pages)) || charge_after_growth_hook(pages);
}

void page_charge_always(size_t pages)
{
	__atomic_fetch_add(&used_pages.pages, pages, __ATOMIC_RELAXED);
}

void page_uncharge(size_t pages)
{
	/* For the assertion, where there are any: NOLINTNEXTLINE(*DeadStores) */
	size_t was = __atomic_fetch_sub(&used_pages.pages, pages, __ATOMIC_RELAXED);

	slub_assert(was >= pages);
}

size_t page_limit_room(void)
{
	size_t limit = size_read(&limit_pages), used = used_really();

	if (likely(limit == SIZE_MAX))
		return SIZE_MAX;
	return used < limit ? limit - used : 0;
}

size_t page_used_bytes(void)
{
	return used_really() * PAGE_BYTES;
}

size_t page_limit_bytes(void)
{
	size_t limit = size_read(&limit_pages);

	return limit == SIZE_MAX ? 0 : limit * PAGE_BYTES;
}

usual const _Atomic size_t *page_limit_place(void)
{
	return &limit_pages;
}

void page_limit_set(size_t bytes)
{
	size_t pages = bytes ? max_size(bytes / PAGE_BYTES, 1) : SIZE_MAX;

	/* release: pairs with the acquire in group_apply() (features/growth/group_limit.c) */
	__atomic_store_n(&limit_pages, pages, __ATOMIC_RELEASE);
	purge_limit_changed();
	page_purge_if_needed();
}

usual void page_limit_init(void)
{
	size_t bytes = option_value(OPTION_limit);
	bool is_auto = bytes == OPTION_VALUE_AUTO;
	size_t found = page_limit_follow(is_auto);

	if (is_auto && !found)
		log_message("option limit: no memory limit of a cgroup found; using none");
	page_limit_set(is_auto ? found : bytes);
}

/* Huge pages, and windows, up to this part of the limit. */
#define HUGE_SHARE 8

bool page_memory_is_ample(void)
{
	return size_read(&limit_pages) == SIZE_MAX &&
	       superblock_nr_used() * SUPERBLOCK_PAGES <=
		       size_read(&group_pages) / HUGE_SHARE;
}

size_t page_nr_resident(void)
{
	return used_really() + page_nr_dirty();
}

size_t page_group_room(void)
{
	size_t limit = size_read(&group_pages), resident;

	if (likely(limit == SIZE_MAX))
		return SIZE_MAX;
	resident = page_nr_resident();
	return resident < limit ? limit - resident : 0;
}
