/* SPDX-License-Identifier: MIT */
#include "mappings.h"

#define SUPERBLOCK_BYTES ((uint64_t)2 << 20)

/* Of a number that the library names the place of; 0: it does not. */
static uint64_t number_at(const struct process *process, uint64_t address)
{
	uint64_t number;

	if (!address || process_read(process, address, &number, sizeof(number)))
		return 0;
	return number;
}

static uint64_t refused_pages(const struct slub_abi *abi, const struct process *process)
{
	uint64_t pages = 0;

	for (uint32_t n = 0; abi->refused_pages && n < abi->nr_nodes; n++)
		pages += number_at(process, abi->refused_pages +
					    (uint64_t)n * abi->refused_stride);
	return pages;
}

void mappings_count(struct snapshot *snapshot, const struct process *process)
{
	const struct slub_abi *abi = &snapshot->abi;
	uint64_t bytes = refused_pages(abi, process) * abi->page_bytes;

	snapshot->refused_bytes = bytes + number_at(process, abi->refused_superblocks) *
					  SUPERBLOCK_BYTES;
	/* The walk takes them for idle: there is memory behind them. */
	snapshot->idle_bytes -= bytes < snapshot->idle_bytes ? bytes : snapshot->idle_bytes;
	snapshot->moved_runs = number_at(process, abi->moved_runs);
	for (size_t i = 0; i < process->nr_mappings; i++) {
		const struct mapping *mapping = &process->mappings[i];

		snapshot->mappings += mapping->end > abi->heap_start &&
				      mapping->start < abi->heap_start + abi->heap_bytes;
	}
}
