/* SPDX-License-Identifier: MIT */
/* How the layer starts, and what it does around fork. */
#include "reclaim/group/group.h"

uint32_t fence_word SLUB_INTERNAL;	/* full_fence() */

usual int reclaim_init(void)
{
	return srcu_get_counters(&slub_rcu_domain);
}

usual void reclaim_fork_prepare(void)
{
	lock_acquire_for_fork(&srcu_lock);
	lock_acquire_for_fork(&registry.lock);
	group_fork_prepare();
	map_fork_prepare();
}

usual void reclaim_fork_finish(bool in_child)
{
	map_fork_finish(in_child);
	group_fork_finish(in_child);
	lock_release_after_fork(&registry.lock, in_child);
	lock_release_after_fork(&srcu_lock, in_child);
	if (!in_child)
		return;
	pressure_fork_child();
	walkers_fork_child();
	srcu_fork_child();
	thread_stock_fork_child();
}
