/* SPDX-License-Identifier: MIT */
/* How the layer starts, and what it does around fork. */
#include "reclaim/group/group.h"

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
