/* SPDX-License-Identifier: MIT */
/*
 * Reclaim as a whole: the layers above empty their lists, the shrinkers of the
 * program free what they can do without, and what became free goes back to the
 * system.
 */
#include "core/os/start_only.h"
#include "features/groups/group.h"

/* slub_shrink_all(): as drop_slab(). */
#define PASSES_MAX 10

static const struct reclaimer *reclaimer start_only;	/* NULL: none yet */
uint32_t reclaim_nr_nodes = 1;

usual void reclaim_configure(uint32_t nodes)
{
	reclaim_nr_nodes = (uint32_t)min_size(max_size(nodes, 1), OS_NODES_MAX);
}

usual void reclaimer_set(const struct reclaimer *above)
{
	/* release: pairs with the acquire in reclaimer_get() */
	__atomic_store_n(&reclaimer, above, __ATOMIC_RELEASE);
}

static const struct reclaimer *reclaimer_get(void)
{
	return __atomic_load_n(&reclaimer, __ATOMIC_ACQUIRE);
}

bool reclaim_is_possible(void)
{
	return !slub_thread.locks_held &&
	       !(slub_thread.flags & (THREAD_IN_RECLAIM | THREAD_IN_INIT));
}

bool reclaim_enter(void)
{
	if (!reclaim_is_possible())
		return false;
	slub_thread.flags |= THREAD_IN_RECLAIM;
	return true;
}

void reclaim_leave(void)
{
	slub_thread.flags &= ~(uint32_t)THREAD_IN_RECLAIM;
}

struct reclaim_result reclaim_for(int priority, uint64_t ns)
{
	const struct reclaimer *above = reclaimer_get();
	struct reclaim_result result = { 0, 0, false };

	if (!reclaim_enter())
		return result;
	if (above)
		result.bytes = above->run(priority);
	result.objects = shrinkers_run_until(priority, ns ? os_clock_ns() + ns : 0,
					     &result.is_cut_short);
	if (above && result.objects)
		result.bytes += above->run(priority);
	reclaim_leave();
	return result;
}

/* Objects that shrinkers say they freed; 0 inside a reclaim. */
static size_t reclaim_run(int priority)
{
	return reclaim_for(priority, 0).objects;
}

static size_t reclaim_all(void)
{
	size_t freed = 0, got;

	for (int i = 0; i < PASSES_MAX; i++) {
		got = reclaim_run(0);
		freed += got;
		if (got >> i <= 1)
			break;
	}
	return freed;
}

/* Behind the last walk. */
#define PRIORITY_ASK (-1)

bool reclaim_more(int *priority, size_t bytes)
{
	int now = *priority;

	if (now < PRIORITY_ASK)
		return false;
	--*priority;
	if (now == PRIORITY_ASK)
		return group_root_ask(bytes);
	if (now > 0) {
		reclaim_run(now);
	} else {
		reclaim_drain();
		reclaim_all();
		/* What went back may be what the kernel lacked. */
		if (slub_thread.growth != THREAD_GROWTH_WALLED)
			thread_growth_set(THREAD_GROWTH_ONCE);
	}
	return true;
}

size_t reclaim_drain(void)
{
	const struct reclaimer *above = reclaimer_get();
	size_t nr;

	if (!above || !reclaim_enter())
		return 0;
	nr = above->drain(true);
	reclaim_leave();
	return nr;
}

size_t reclaim_used(void)
{
	const struct reclaimer *above = reclaimer_get();

	return above ? above->used() : 0;
}

void reclaim_idle(void)
{
	const struct reclaimer *above = reclaimer_get();

	if (!above || !reclaim_enter())
		return;
	above->idle();
	reclaim_leave();
}

size_t reclaim_move(uint64_t deadline_ns)
{
	const struct reclaimer *above = reclaimer_get();
	size_t bytes;

	if (!above || !reclaim_enter())
		return 0;
	bytes = above->move(deadline_ns);
	reclaim_leave();
	return bytes;
}

size_t reclaim_group(const struct slub_group *group, int priority)
{
	const struct reclaimer *above = reclaimer_get();
	size_t freed = 0;

	if (!reclaim_enter())
		return 0;
	/* Once: it may make all CPUs execute a fence. */
	if (above && priority == SLUB_SHRINK_PRIORITY_MAX)
		freed = above->drain(false);
	freed += shrinkers_run(priority, group);
	reclaim_leave();
	return freed;
}

SLUB_EXPORT size_t slub_shrink(int priority)
{
	if (priority < 0)
		priority = 0;
	if (priority > SLUB_SHRINK_PRIORITY_MAX)
		priority = SLUB_SHRINK_PRIORITY_MAX;
	return slub_start() ? reclaim_run(priority) : 0;
}

SLUB_EXPORT size_t slub_shrink_all(void)
{
	return slub_start() ? reclaim_all() : 0;
}

/* ---- start, and fork ---- */

uint32_t fence_word SLUB_INTERNAL;	/* full_fence() */

usual int reclaim_init(void)
{
	return srcu_get_counters(&slub_rcu_domain);
}

static void locks_fork(enum fork_step step)
{
	lock_fork(&srcu_lock, step);
	lock_fork(&registry.lock, step);
	group_fork(step);
	map_fork(step);
}

usual void reclaim_fork_prepare(void)
{
	locks_fork(FORK_BEGINS);
}

usual void reclaim_fork_finish(bool in_child)
{
	locks_fork(fork_end(in_child));
	if (!in_child)
		return;
	pressure_fork_child();
	walkers_fork_child();
	srcu_fork_child();
	thread_stock_fork_child();
}
