/* SPDX-License-Identifier: MIT */
/* Prints what the library decided, one "name value" a line, after a little work. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "features/inspect/abi.h"

extern struct slub_abi slub_abi_state;

#define SHOW(field) printf(#field " %llu\n", (unsigned long long)slub_abi_state.field)

int main(void)
{
	void *blocks[1000];

	for (size_t i = 0; i < 1000; i++)
		blocks[i] = memset(malloc(i + 1), 1, i + 1);
	for (size_t i = 0; i < 1000; i++)
		free(blocks[i]);
	SHOW(ready);
	SHOW(version);
	SHOW(size);
	SHOW(backend);
	SHOW(cpu_number);
	SHOW(page_size);
	SHOW(layout);
	SHOW(smp);
	SHOW(nr_cpus_possible);
	SHOW(nr_cpus_allowed);
	SHOW(nr_nodes);
	SHOW(huge);
	SHOW(range_bytes);
	SHOW(heap_bytes);
	SHOW(retain_bytes);
	return strcmp(slub_abi_state.magic, SLUB_ABI_MAGIC) != 0;
}
