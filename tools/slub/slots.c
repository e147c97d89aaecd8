/* SPDX-License-Identifier: MIT */
#include "slots.h"
#include "slub.h"

#include <errno.h>
#include <stdlib.h>

bool slots_are_sane(const struct slub_abi *abi)
{
	return abi->nr_slots <= SLOT_NUMBERS_MAX && abi->nr_far_slots <= SLOT_NUMBERS_MAX &&
	       abi->far_entry <= SLOT_NUMBERS_MAX - abi->nr_far_slots;
}

uint64_t *slots_read_owners(const struct process *process, const struct slub_abi *abi,
			    int *error)
{
	uint64_t *owners = must_have(calloc(slots_nr(abi), sizeof(*owners)));

	*error = process_read(process, abi->slot_owners, owners,
			      abi->nr_slots * sizeof(*owners));
	if (!*error && abi->nr_far_slots)
		*error = process_read(process, abi->far_owners, owners + abi->nr_slots,
				      abi->nr_far_slots * sizeof(*owners));
	if (!*error)
		return owners;
	free(owners);
	return NULL;
}

void snapshot_index(struct snapshot *snapshot)
{
	uint32_t nr = slots_nr(&snapshot->abi);

	if (!snapshot->places)
		snapshot->places = must_have(calloc(nr, sizeof(*snapshot->places)));
	for (size_t i = 0; i < snapshot->nr_caches; i++) {
		uint32_t number = slot_number(&snapshot->abi, snapshot->caches[i].slot);

		if (number < nr)
			snapshot->places[number] = (uint32_t)i;
	}
}

const struct cache_view *cache_by_slot(const struct snapshot *snapshot, uint32_t slot)
{
	uint32_t number = snapshot ? slot_number(&snapshot->abi, slot) : 0;

	if (!snapshot)
		return NULL;
	if (snapshot->places && number < slots_nr(&snapshot->abi)) {
		uint32_t at = snapshot->places[number];

		if (at < snapshot->nr_caches && snapshot->caches[at].slot == slot)
			return &snapshot->caches[at];
	}
	for (size_t i = 0; i < snapshot->nr_caches; i++) {
		if (snapshot->caches[i].slot == slot)
			return &snapshot->caches[i];
	}
	return NULL;
}
