/* SPDX-License-Identifier: MIT */
/* A description of a heap that is followed: each number as near to its bounds as it may be. */
#ifndef TOOL_LEAST_H
#define TOOL_LEAST_H

#include "features/inspect/abi.h"

#define RANGE (1ull << 40)

static struct slub_abi least(void)
{
	struct slub_abi abi = {
		.page_bytes = 4096,
		.range_start = RANGE, .range_bytes = RANGE, .heap_start = RANGE,
		.map_stride = 2,
		.descriptor_stride = 32, .descriptor_flags = 28, .descriptor_count = 28,
		.descriptor_holes = 24, .descriptor_state = 16, .descriptor_state_align = 8,
		.slot_bytes = 16, .slot_head = 8, .slot_room = 12, .slot_spare_head = 8,
		.nr_nodes = 1, .cache_bytes = 16, .cache_nodes = 8, .node_bytes = 8,
	};

	for (int i = 0; i < SLUB_ABI_CACHE_FIELDS; i++)
		abi.cache_fields[i] = (struct slub_abi_field){ 8, 8 };
	for (int i = 0; i < SLUB_ABI_NODE_FIELDS; i++)
		abi.node_fields[i] = (struct slub_abi_field){ 4, 4 };
	return abi;
}

#endif
