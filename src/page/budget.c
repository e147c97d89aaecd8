/* SPDX-License-Identifier: MIT */
/*
 * How much free memory the process holds, and when it goes back to the system: in the
 * call that frees it, as soon as the process holds more than its budget.
 *
 *     budget   base + regret
 *     base     used / 8, at least 1 MiB and at most 16 MiB; SLUB_RETAIN if that is given
 *     held     free pages with memory behind them, and the chains in barns
 *     regret   pages that went back and were soon wanted again
 *
 * Regret is the price of a mistake: the kernel has to clear the page once more.  Half of the
 * regret is forgotten each second, and it never exceeds a sixteenth of the machine's memory.
 * So a program that fills and empties its heap all the time keeps what it needs from the
 * second time on, and a program that has ended a burst holds a mebibyte.  A chain that a
 * barn refused is no regret of its own: where that was a mistake its pages went back, and
 * each byte was counted twice.
 *
 * No thread and no timer does this: the thread that frees looks at the clock, and works
 * out the seconds that have passed.
 */
#include "page/page_internal.h"

#define USED_SHARE 8
#define BASE_MIN ((size_t)1 << 20)
#define MEMORY_SHARE 16
#define NOT_WORTH_SHARE 4
#define HALF_LIFE_NS 1000000000ull

static _Atomic size_t regret_most;	/* const but for page_retain_changed() */
/* Estimates: a lost update gives a page too many or too few. */
static _Atomic size_t regret_bytes;
static _Atomic size_t given_bytes;	/* went back, not wanted again yet; halved too */
static _Atomic uint64_t halved_at_ns;

_Atomic size_t purge_idle_always;
_Atomic ptrdiff_t page_kept_bytes;

void page_purge_init(const struct os_limits *limits)
{
	bool is_bounded = limits->address_bytes != SIZE_MAX ||
			  option_was_given(OPTION_retain);

	size_write(&regret_most,
		   is_bounded ? 0 : limits->memory_bytes / MEMORY_SHARE);
	page_system_init(limits);
	page_limit_init();
}

void purge_limit_changed(void)
{
	size_t bytes = min_size(BASE_MIN, option_value(OPTION_retain));

	if (page_limit_bytes() || page_group_room() != SIZE_MAX)
		bytes = 0;
	size_write(&purge_idle_always, bytes / PAGE_BYTES);
}

size_t page_nr_dirty(void)
{
	return zone_nr_dirty() + superblock_nr_dirty() + quick_nr_pages();
}

static size_t in_barns(void)
{
	ptrdiff_t bytes = __atomic_load_n(&page_kept_bytes, __ATOMIC_RELAXED);

	return bytes > 0 ? (size_t)bytes : 0;
}

/* Forgets half of the regret for each second since the last call that did so. */
static void halve(uint64_t now)
{
	uint64_t at = __atomic_load_n(&halved_at_ns, __ATOMIC_RELAXED);
	uint64_t seconds;

	/* Another thread may have moved it on since this one looked at the clock. */
	if ((int64_t)(now - at) < (int64_t)HALF_LIFE_NS)
		return;
	seconds = (now - at) / HALF_LIFE_NS;
	if (!__atomic_compare_exchange_n(&halved_at_ns, &at,
					 at + seconds * HALF_LIFE_NS, false,
					 __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		return;
	seconds = min_size(seconds, 63);
	size_write(&regret_bytes, size_read(&regret_bytes) >> seconds);
	size_write(&given_bytes, size_read(&given_bytes) >> seconds);
}

static size_t regret(void)
{
	if (likely(!size_read(&regret_bytes)))
		return 0;
	halve(os_clock_ns());
	return size_read(&regret_bytes);
}

/* The budget of a process that regrets nothing. */
static size_t base(void)
{
	size_t retain = option_value(OPTION_retain), used;

	if (option_was_given(OPTION_retain))
		return retain;
	used = page_used_bytes();
	used -= min_size(used, in_barns());
	return min_size(max_size(used / USED_SHARE, BASE_MIN), retain);
}

/* Idle pages must not take the room that a limit leaves. */
static size_t bound(size_t bytes)
{
	size_t room = min_size(page_limit_room(), page_group_room());

	return likely(room == SIZE_MAX) ? bytes :
					  min_size(bytes, room * PAGE_BYTES);
}

size_t page_budget(void)
{
	return bound(base() + regret());
}

/* Chains come first: free pages give way to them.  If that was wrong, regret tells. */
bool page_budget_has_room(size_t bytes)
{
	bytes += in_barns();
	return bytes <= bound(base()) || bytes <= page_budget();
}

/* New memory was taken while other pages lie idle: both must fit below the limit. */
static cold void make_room(void)
{
	size_t room = page_limit_room();

	if (!slub_thread.locks_held && page_nr_dirty() > room)
		page_purge(room * PAGE_BYTES);
}

static void count_given(size_t bytes)
{
	halve(os_clock_ns());
	__atomic_fetch_add(&given_bytes, bytes, __ATOMIC_RELAXED);
}

static cold void count_regret(size_t bytes)
{
	size_t given;

	halve(os_clock_ns());
	given = size_read(&given_bytes);
	bytes = min_size(bytes, given);
	size_write(&given_bytes, given - bytes);
	size_write(&regret_bytes, min_size(size_read(&regret_bytes) + bytes,
					   size_read(&regret_most)));
}

void page_bought(size_t pages)
{
	if (unlikely(size_read(&given_bytes)))
		count_regret(pages * PAGE_BYTES);
	if (unlikely(page_limit_room() != SIZE_MAX))
		make_room();
	if (unlikely(__atomic_load_n(&purge_idle_always, __ATOMIC_RELAXED) == 0))
		page_tight_look(pages);
}

/* Counts what went back since there were @before dirty pages; returns how many that are. */
static size_t given_since(size_t before)
{
	size_t after = page_nr_dirty();

	if (after >= before)
		return 0;
	count_given((before - after) * PAGE_BYTES);
	return before - after;
}

size_t page_purge(size_t bytes)
{
	size_t pages = bytes / PAGE_BYTES;
	size_t before = page_nr_dirty();

	superblock_purge(pages);
	if (page_nr_dirty() > pages && quick_nr_pages()) {
		quick_flush();
		superblock_purge(pages);
	}
	if (page_nr_dirty() > pages)
		zone_purge(pages);
	return given_since(before);
}

size_t page_purge_all(void)
{
	size_t pages = page_purge(0);

	superblock_purge_descriptors();
	return pages;
}

cold size_t page_purge_node(uint32_t node)
{
	size_t before = page_nr_dirty();

	if (nr_zones == 1)
		return page_purge_all();
	/* A superblock that becomes whole by the first two steps goes by the third. */
	quick_flush_node(node);
	zone_purge_node(node);
	superblock_purge_node(node);
	return given_since(before);
}

void page_purge_regret(void)
{
	size_t least = bound(base());

	if (page_nr_dirty() * PAGE_BYTES > least)
		page_purge(least - min_size(least, in_barns()));
}

/* Purges to @spare below the budget, so that the next free does not purge again. */
static cold size_t purge(size_t budget, size_t spare)
{
	size_t pages;

	if (slub_thread.locks_held || slub_thread.flags & THREAD_IN_RECLAIM)
		return 0;
	slub_thread.flags |= THREAD_IN_RECLAIM;
	budget -= min_size(budget, spare);
	pages = page_purge(budget - min_size(budget, in_barns()));
	slub_thread.flags &= ~(uint32_t)THREAD_IN_RECLAIM;
	return pages;
}

size_t page_purge_if_needed(void)
{
	size_t pages = page_nr_dirty() * PAGE_BYTES, held = pages + in_barns();
	size_t least = bound(base()), budget;

	if (likely(held <= least))
		return 0;
	budget = page_budget();
	/* Barns hold nearly all of it: the few pages are not worth a purge. */
	if (held <= budget || pages < least / NOT_WORTH_SHARE)
		return 0;
	return purge(budget, least / 2);
}

/*
 * As if the new value had been given at the start, with one exception: a process that
 * started with 0 does not begin to keep freed blocks whole (large.c).
 */
cold void page_retain_changed(void)
{
	size_write(&regret_most, 0);
	size_write(&regret_bytes, 0);
	purge_limit_changed();
	page_purge_if_needed();
}
