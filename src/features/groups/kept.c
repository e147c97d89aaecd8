/* SPDX-License-Identifier: MIT */
/*
 * Kept charges, of free objects in lists (features/groups/owned.h).  The layer above says how
 * they are given back; here is when: before a request is refused, and before a report.
 */
#include "core/os/start_only.h"
#include "features/groups/group.h"

#include <time.h>

/*
 * Emptying the lists of all CPUs is a membarrier for every list and CPU, so groups at their
 * maximum may have it done so often, and wait for their turn.  Every 200 us, the 99th
 * percentile of a neighbour's requests rose from 0.4 to 10 us; at 1 ms it is 1.08 times
 * what it is without.
 */
#define SETTLE_NS 1000000

static const struct kept_charges *kept start_only;
static uint64_t settle_last;	/* when the last one was begun */
static uint64_t settle_done;	/* when the last one that has ended was */

usual void group_set_kept(const struct kept_charges *charges)
{
	__atomic_store_n(&kept, charges, __ATOMIC_RELEASE);
}

static const struct kept_charges *kept_get(void)
{
	const struct kept_charges *k = __atomic_load_n(&kept, __ATOMIC_ACQUIRE);

	return slub_thread.locks_held ? NULL : k;
}

size_t group_usage_settled(const struct slub_group *group)
{
	const struct kept_charges *k = kept_get();

	if (k && !k->are_none())
		k->settle(true);
	return group_usage(group);
}

void kept_settle_here(void)
{
	const struct kept_charges *k = kept_get();

	if (k)
		k->settle(false);
}

/* Returns when one has been made, by whomever, that was begun after this call. */
static void settle_in_turn(const struct kept_charges *k)
{
	uint64_t begin = os_clock_read_ns(CLOCK_MONOTONIC);

	while (__atomic_load_n(&settle_done, __ATOMIC_ACQUIRE) <= begin) {
		uint64_t last = __atomic_load_n(&settle_last, __ATOMIC_RELAXED);
		uint64_t now = os_clock_read_ns(CLOCK_MONOTONIC);

		if (now - last < SETTLE_NS) {
			sys_sleep_ns(SETTLE_NS - (now - last));
			continue;
		}
		if (!__atomic_compare_exchange_n(&settle_last, &last, now,
						 false, __ATOMIC_RELAXED,
						 __ATOMIC_RELAXED))
			continue;
		k->settle(true);
		/* release: pairs with the acquire above */
		__atomic_store_n(&settle_done, now, __ATOMIC_RELEASE);
		return;
	}
}

bool kept_settle_all(void)
{
	const struct kept_charges *k = kept_get();

	if (!k || k->are_none())
		return false;
	settle_in_turn(k);
	return true;
}
