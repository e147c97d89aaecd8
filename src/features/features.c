/* SPDX-License-Identifier: MIT */
/*
 * What stands beside the core, as a whole: this file names every feature that has to be
 * started, whose locks a fork takes, or that has something to say at exit.  The core is
 * src/core/slub.c's; the calls are those of core/base/features.h.
 */
#include "features/debug/unwind.h"
#include "features/reclaim/reclaim.h"
#include "features/inspect/inspect.h"
#include "features/profile/profile.h"
#include "features/watch/watch.h"
#include "features/guard/guard.h"
#include "core/malloc/malloc.h"
#include "features/mempool/mempool.h"
#include "features/rcu/rcu.h"
#include "features/idle/idle.h"

void features_start(uint32_t nr_nodes)
{
	if (deferred_init())
		log_message("no room for deferred frees; they wait for readers");
	if (reclaim_init())
		log_message("no per-CPU counters for readers; they use atomic "
			    "instructions");
	slab_reclaimer_init();
	reclaim_configure(nr_nodes);
	if (option_text(OPTION_pressure))
		pressure_configure(option_text(OPTION_pressure));
	debug_start();
	if (SLUB_CONFIG_HARDENED)
		guard_open_for_empty();
	debug_mailbox_configure();
	profile_init();
}

void features_open(const struct os_cpus *cpus, uint32_t nr_nodes)
{
	sizeclass_guard_by_option();
	profile_start_by_option();
	abi_publish(cpus, nr_nodes);
}

void features_constructed(void)
{
	unwind_start();
	pressure_start();
}

void features_end(void)
{
	profile_finish();
	debug_finish();
}

void features_fork_prepare(void)
{
	reclaim_fork_prepare();
	bucket_fork(FORK_BEGINS);
	mempool_fork_prepare();
	profile_fork(FORK_BEGINS);
}

void features_fork_finish(bool in_child)
{
	profile_fork(fork_end(in_child));
	mempool_fork_finish(in_child);
	bucket_fork(fork_end(in_child));
	reclaim_fork_finish(in_child);
	if (in_child) {
		class_switch_fork_child();
		abi_update();
	}
}
