/* SPDX-License-Identifier: MIT */
/* Where in the published state the numbers are that hostile_test.py damages. */
#include <stddef.h>
#include <stdio.h>

#include "features/inspect/abi.h"

#define PRINT(field) printf(#field " %zu\n", offsetof(struct slub_abi, field))

int main(void)
{
	PRINT(version);
	PRINT(ready);
	PRINT(slot_owners);
	PRINT(nr_slots);
	PRINT(cache_bytes);
	PRINT(cache_nodes);
	printf("list_slot %zu\n", offsetof(struct slub_abi, cache_fields) +
	       SLUB_ABI_CACHE_LIST_SLOT * sizeof(struct slub_abi_field));
	return 0;
}
