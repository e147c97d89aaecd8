/* SPDX-License-Identifier: MIT */
/* NUMA nodes. */
#define _GNU_SOURCE
#include <linux/mempolicy.h>
#include <sched.h>

#include "core/os/os.h"

uint32_t os_nr_nodes = 1;
static bool binds;	/* const after start */

/* One past the last node that memory may come from; 0: the kernel will not say. */
static uint32_t nodes_allowed(void)
{
	unsigned long mask[1024 / 64] = { 0 };
	uint32_t end = 0;

	if (os_is_filtered ||
	    sys_call6(SYS_get_mempolicy, 0, (long)mask, sizeof(mask) * 8, 0,
		      MPOL_F_MEMS_ALLOWED, 0))
		return 0;
	for (uint32_t i = 0; i < ARRAY_SIZE(mask); i++) {
		if (mask[i])
			end = (i + 1) * 64 - (uint32_t)__builtin_clzl(mask[i]);
	}
	return end;
}

/*
 * A policy of the memory comes before that of the thread.  So nothing is bound in a
 * process that was started by "numactl --membind=1": it wants node 1, wherever it runs.
 */
static bool thread_has_policy(void)
{
	int mode = MPOL_DEFAULT;

	if (sys_call6(SYS_get_mempolicy, (long)&mode, 0, 0, 0, 0, 0))
		return false;
	mode &= ~MPOL_MODE_FLAGS;
	return mode != MPOL_DEFAULT && mode != MPOL_LOCAL;
}

uint32_t os_nodes_read(void)
{
	uint32_t end = nodes_allowed();

	if (!end)
		end = os_list_end("/sys/devices/system/node/online");
	if (!end)
		return os_nr_nodes;
	os_nr_nodes = end > OS_NODES_MAX ? OS_NODES_MAX : end;
	/* On a machine with more nodes several share a number here: nothing is bound. */
	binds = end > 1 && end <= OS_NODES_MAX && !os_is_filtered && !thread_has_policy();
	return os_nr_nodes;
}

uint32_t os_node_ask(void)
{
	/* Each refill asks. */
	return os_cpu_node() % os_nr_nodes;
}

bool os_node_bind(void *start, size_t bytes, uint32_t node)
{
	unsigned long mask = 1ul << node;

	return binds && !sys_call6(SYS_mbind, (long)start, (long)bytes,
				   MPOL_PREFERRED, (long)&mask,
				   OS_NODES_MAX + 1, 0);
}
