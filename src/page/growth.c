/* SPDX-License-Identifier: MIT */
/*
 * The growth hook: the layers above are asked to free something before the
 * system is asked for more, and when there is no more.
 *
 * The hook may be expensive and free nothing, so there are at most
 * SLUB_RECLAIM_RATE calls a second.  One exception: a request that would fail
 * is worth another call as long as calls yield something, for a cache that lives
 * at its limit frees a little for each thing it takes in.
 */
#include "page/page.h"

#define SECOND_NS 1000000000ull

/* const but for page_set_growth_hook() */
static bool (*_Atomic growth_hook)(size_t bytes);

/* Estimates: a lost update costs a call too many or too few. */
static _Atomic uint64_t asked_at_ns;
static _Atomic bool asked_in_vain;

void page_set_growth_hook(bool (*hook)(size_t bytes))
{
	/* release: pairs with the acquire in page_growth_ask() */
	__atomic_store_n(&growth_hook, hook, __ATOMIC_RELEASE);
	__atomic_store_n(&asked_at_ns, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&asked_in_vain, false, __ATOMIC_RELAXED);
}

static bool is_due(enum growth_cause cause)
{
	size_t rate = option_value(OPTION_reclaim_rate);
	uint64_t now = os_clock_ns();
	uint64_t last = __atomic_load_n(&asked_at_ns, __ATOMIC_RELAXED);

	if (!rate)
		return false;
	if (cause == GROWTH_FAILED &&
	    !__atomic_load_n(&asked_in_vain, __ATOMIC_RELAXED)) {
		__atomic_store_n(&asked_at_ns, now, __ATOMIC_RELAXED);
		return true;
	}
	/* Of several threads one gets the turn. */
	return now - last >= SECOND_NS / rate &&
	       __atomic_compare_exchange_n(&asked_at_ns, &last, now, false,
					   __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

bool page_growth_ask(size_t bytes, enum growth_cause cause)
{
	bool (*hook)(size_t);
	bool freed;

	/* acquire: what the hook works on is complete */
	hook = __atomic_load_n(&growth_hook, __ATOMIC_ACQUIRE);
	if (likely(!hook))
		return false;
	if (slub_thread.locks_held || slub_thread.flags & THREAD_IN_RECLAIM)
		return false;
	if (!is_due(cause))
		return false;
	slub_thread.flags |= THREAD_IN_RECLAIM;
	freed = hook(bytes);
	slub_thread.flags &= ~(uint32_t)THREAD_IN_RECLAIM;
	__atomic_store_n(&asked_in_vain, !freed, __ATOMIC_RELAXED);
	return freed;
}
