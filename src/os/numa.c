/* SPDX-License-Identifier: MIT */
/* NUMA nodes. */
#define _GNU_SOURCE
#include <linux/mempolicy.h>

#include "os/os.h"

static uint32_t nr_nodes = 1;

uint32_t os_nodes_read(void)
{
	char buf[128];
	const char *s = buf;
	uint32_t end = 1;

	if (os_file_read("/sys/devices/system/node/online", buf,
			 sizeof(buf)) <= 0)
		return nr_nodes;
	while (*s >= '0' && *s <= '9') {
		end = (uint32_t)os_parse_number(&s) + 1;
		if (*s == '-' || *s == ',')
			s++;
	}
	nr_nodes = end > OS_NODES_MAX ? OS_NODES_MAX : end;
	return nr_nodes;
}

uint32_t os_node_current(void)
{
	unsigned int cpu, node = 0;

	if (nr_nodes == 1)
		return 0;
	sys_call4(SYS_getcpu, (long)&cpu, (long)&node, 0, 0);
	return node % nr_nodes;
}

void os_node_bind(void *start, size_t bytes, uint32_t node)
{
	unsigned long mask = 1ul << node;

	if (nr_nodes == 1)
		return;
	sys_call6(SYS_mbind, (long)start, (long)bytes, MPOL_PREFERRED,
		  (long)&mask, OS_NODES_MAX + 1, 0);
}
