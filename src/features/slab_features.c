/* SPDX-License-Identifier: MIT */
/* Where slab's core calls several features at once, in their order. */
#include "features/guard/guard.h"
#include "features/watch/watch.h"
#include "features/rcu/rcu.h"
#include "features/movable/movable.h"

void slab_shrink_begins(bool is_all)
{
	if (is_all)
		deferred_drain();
	else
		slab_grace_look(1);
	guard_poll();
}

/* A walk may stand on a dead cache, with the lock of its node, which a new one gets. */
usual void slab_features_fork_prepare(void)
{
	grace_fork(FORK_BEGINS);
	deferred_fork(FORK_BEGINS);
}

usual void slab_features_fork_finish(bool in_child)
{
	if (in_child) {
		defrag_after_fork();
		debug_after_fork();
	}
	deferred_fork(fork_end(in_child));
	grace_fork(fork_end(in_child));
}
