/* SPDX-License-Identifier: MIT */
/* How the layer starts, and what it does around fork. */
#include "reclaim/reclaim.h"

int reclaim_init(void)
{
	return srcu_get_counters(&slub_rcu_domain);
}

void reclaim_fork_prepare(void)
{
	lock_acquire_for_fork(&srcu_lock);
}

void reclaim_fork_finish(bool in_child)
{
	lock_release_after_fork(&srcu_lock, in_child);
	if (in_child)
		srcu_fork_child();
}
