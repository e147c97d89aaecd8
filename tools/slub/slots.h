/* SPDX-License-Identifier: MIT */
/* The slots of a process: their numbers, and which cache each belongs to. */
#ifndef SLUB_TOOL_SLOTS_H
#define SLUB_TOOL_SLOTS_H

#include "snapshot.h"

#define SLOT_NUMBERS_MAX (1u << 16)	/* there are no more entries */

/* Slots have numbers from 0 on: the near ones, then the far ones. */
static inline uint32_t slots_nr(const struct slub_abi *abi)
{
	return abi->nr_slots + abi->nr_far_slots;
}

/* The number of the slot that @entry of the page map stands for; slots_nr() or more: none. */
static inline uint32_t slot_number(const struct slub_abi *abi, uint32_t entry)
{
	if (abi->nr_far_slots && entry >= abi->far_entry)
		return abi->nr_slots + entry - abi->far_entry;
	return entry / abi->slot_bytes;
}

static inline uint32_t slot_entry(const struct slub_abi *abi, uint32_t number)
{
	return number < abi->nr_slots ? number * abi->slot_bytes :
	       abi->far_entry + number - abi->nr_slots;
}

bool slots_are_sane(const struct slub_abi *abi);
/* Addresses of caches, slots_nr() of them, to be freed; NULL: *@error. */
uint64_t *slots_read_owners(const struct process *process, const struct slub_abi *abi,
			    int *error);

#endif
