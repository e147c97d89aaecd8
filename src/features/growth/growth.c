/* SPDX-License-Identifier: MIT */
/*
 * Requests for memory to the layers above: before a request is refused, or the heap grows, or
 * where a limit is near, they are asked to free something, by hooks that they set.
 *
 * A hook may be expensive and free nothing, so there are at most SLUB_RECLAIM_RATE
 * calls a second.  One exception: a request that would fail is worth another call as
 * long as calls yield something, for a cache that lives at its limit frees a little for
 * each thing it takes in.  Near a limit another is also worth it when much became
 * resident since.
 */
#include "core/os/start_only.h"
#include "features/growth/growth.h"
#include "core/page/page_internal.h"

/* ---- where a limit is near ---- */

/* The part of a limit that is left when it is near. */
#define NEAR_SHARE 4
/* Between two times that the layers above are asked: a part of the room. */
#define ROOM_SHARE 4
#define STEP_MIN (((size_t)1 << 20) / PAGE_BYTES)
/*
 * After one in vain the next comes with time, or when as much again became
 * resident: a server that was kept waiting makes up for it, and 200 ms were
 * enough to take all that was left (killed after 246 to 263 s, at loads of 3 to 25).
 */
#define RESIDENT_SHARE 64

/*
 * Resident after the last time, or the least since, in pages.  What callers bought would be
 * less: free objects of a page and more lose their memory where they lie, and have it again
 * without a word.  A cache of such that lives at its limit took two pages for each that was
 * asked for, and was killed.
 */
static _Atomic size_t tight_from;

/* Of the lower of the two limits, what is not resident; both in pages. */
static size_t tight_room(size_t *limit)
{
	size_t resident = page_nr_resident();

	*limit = min_size(size_read(&group_pages), size_read(&limit_pages));
	return resident < *limit ? *limit - resident : 0;
}

/* Resident when a call was in vain, in pages. */
static _Atomic size_t vain_pages;

static bool has_grown(void)
{
	size_t limit, room = tight_room(&limit);
	size_t then = __atomic_load_n(&vain_pages, __ATOMIC_RELAXED);
	size_t step = max_size(room / ROOM_SHARE, then / RESIDENT_SHARE);

	return page_nr_resident() > then + step;
}

static bool is_near(size_t room, size_t limit)
{
	return limit != SIZE_MAX && room < limit / NEAR_SHARE;
}

bool page_limit_is_near(void)
{
	size_t limit, room = tight_room(&limit);

	return is_near(room, limit);
}

/* What became resident since the last time. */
static size_t tight_grown(void)
{
	size_t resident = page_nr_resident();
	size_t from = __atomic_load_n(&tight_from, __ATOMIC_RELAXED);

	if (resident >= from)
		return resident - from;
	__atomic_store_n(&tight_from, resident, __ATOMIC_RELAXED);
	return 0;
}

static void tight_restart(void)
{
	__atomic_store_n(&tight_from, page_nr_resident(), __ATOMIC_RELAXED);
}

void page_tight_look(void)
{
	size_t limit, room = tight_room(&limit), grown;

	if (!is_near(room, limit)) {
		tight_restart();
		return;
	}
	grown = tight_grown();
	if (grown < max_size(room / ROOM_SHARE, STEP_MIN))
		return;
	tight_restart();	/* others need not ask meanwhile */
	page_limit_reread();
	if (page_growth_ask(grown * PAGE_BYTES, GROWTH_TIGHT))
		tight_restart();
}

/* ---- the hooks ---- */

#define SECOND_NS 1000000000ull

static growth_hook_fn *_Atomic growth_hook start_only;
static growth_hook_fn *_Atomic tight_hook start_only;

/* Estimates: a lost update costs a call too many or too few. */
static _Atomic uint64_t asked_at_ns;
static _Atomic bool asked_in_vain;
/* The same near a limit, and close to it, where more is asked for. */
static _Atomic bool tight_in_vain[2];

void page_set_growth_hook(growth_hook_fn *hook)
{
	/* release: pairs with the acquire in page_growth_ask() */
	__atomic_store_n(&growth_hook, hook, __ATOMIC_RELEASE);
	__atomic_store_n(&asked_at_ns, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&asked_in_vain, false, __ATOMIC_RELAXED);
}

void page_set_tight_hook(growth_hook_fn *hook)
{
	/* release: pairs with the acquire in page_growth_ask() */
	__atomic_store_n(&tight_hook, hook, __ATOMIC_RELEASE);
}

static _Atomic bool *in_vain_of(enum growth_cause cause)
{
	if (cause != GROWTH_TIGHT)
		return &asked_in_vain;
	return &tight_in_vain[page_group_is_close()];
}

static bool is_due(enum growth_cause cause, const _Atomic bool *in_vain)
{
	size_t rate = option_value(OPTION_reclaim_rate);
	uint64_t now = os_clock_ns();
	/* In the future after a long call in vain. */
	uint64_t last = __atomic_load_n(&asked_at_ns, __ATOMIC_RELAXED);

	if (!rate)
		return false;
	if (cause != GROWTH_MORE &&
	    (!__atomic_load_n(in_vain, __ATOMIC_RELAXED) ||
	     (cause == GROWTH_TIGHT && has_grown()))) {
		__atomic_store_n(&asked_at_ns, now, __ATOMIC_RELAXED);
		return true;
	}
	/* Of several threads one gets the turn. */
	return (int64_t)(now - last) >= (int64_t)(SECOND_NS / rate) &&
	       __atomic_compare_exchange_n(&asked_at_ns, &last, now, false,
					   __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/*
 * What took long and was of no use waits four times as long; on a loaded machine
 * it may have stood still most of the time.
 */
#define VAIN_SHARE 4
#define VAIN_NS_MAX 50000000ull

static void wait_after(uint64_t start)
{
	uint64_t now = os_clock_ns(), ns = now - start;

	ns = ns < VAIN_NS_MAX ? ns : VAIN_NS_MAX;
	__atomic_store_n(&asked_at_ns, now + ns * VAIN_SHARE, __ATOMIC_RELAXED);
}

/* Few programs have a hook. */
static cold bool hook_ask(growth_hook_fn *hook, size_t bytes, enum growth_cause cause)
{
	_Atomic bool *in_vain;
	uint64_t start;
	bool freed;

	if (slub_thread.locks_held || slub_thread.flags & THREAD_IN_RECLAIM)
		return false;
	in_vain = in_vain_of(cause);
	if (!is_due(cause, in_vain))
		return false;
	slub_thread.flags |= THREAD_IN_RECLAIM;
	start = os_clock_ns();
	freed = hook(bytes, cause);
	if (!freed && cause == GROWTH_TIGHT) {
		wait_after(start);
		__atomic_store_n(&vain_pages, page_nr_resident(), __ATOMIC_RELAXED);
	}
	slub_thread.flags &= ~(uint32_t)THREAD_IN_RECLAIM;
	__atomic_store_n(in_vain, !freed, __ATOMIC_RELAXED);
	return freed;
}

bool page_growth_ask(size_t bytes, enum growth_cause cause)
{
	/* acquire: what the hook works on is complete */
	growth_hook_fn *hook = __atomic_load_n(cause == GROWTH_TIGHT ? &tight_hook :
					       &growth_hook, __ATOMIC_ACQUIRE);

	return unlikely(hook) && hook_ask(hook, bytes, cause);
}
