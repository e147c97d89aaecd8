/* SPDX-License-Identifier: MIT */
/*
 * Places outside of this layer that name an owner: of a cache or a bucket that is
 * in a group by itself.
 *
 * A place holds the owner (GROUP-3).  A reader is inside group_domain until it holds the
 * owner too.  A thread that changes the place waits for the readers before it releases
 * the old owner.
 */
#include "features/groups/group.h"

#include <errno.h>

bool group_owns(const struct slub_group *group, uint32_t owner)
{
	bool owns;
	int index;

	if (!owner || owner >= pool_end(&owner_pool))
		return false;
	index = slub_srcu_read_lock(&group_domain);
	owns = group_is_below(owner_group(owner_of(owner)), group);
	slub_srcu_read_unlock(&group_domain, index);
	return owns;
}

void group_drop(uint32_t owner)
{
	if (owner)
		owner_drop(owner_of(owner), 1);
}

uint32_t group_place_exchange(uint32_t *place, uint32_t owner)
{
	return __atomic_exchange_n(place, owner, __ATOMIC_ACQ_REL);
}

void group_place_drop(uint32_t owner)
{
	if (!owner)
		return;
	slub_srcu_synchronize(&group_domain);
	group_drop(owner);
}

int group_place_set(uint32_t *place, const struct slub_group *group)
{
	uint32_t owner = group ? group_hold(group) : 0;

	if (group && !owner)
		return -EINVAL;
	group_place_drop(group_place_exchange(place, owner));
	return 0;
}

/* The owner that @place names, held; 0: none. */
static uint32_t hold(const uint32_t *place)
{
	int index = slub_srcu_read_lock(&group_domain);
	uint32_t owner = __atomic_load_n(place, __ATOMIC_ACQUIRE);

	if (owner)
		owner_hold(owner_of(owner), 1);
	slub_srcu_read_unlock(&group_domain, index);
	return owner;
}

void group_place_copy(uint32_t *place, const uint32_t *from)
{
	/* Twice, if it is set by somebody else in between. */
	while (__atomic_load_n(place, __ATOMIC_RELAXED) !=
	       __atomic_load_n(from, __ATOMIC_ACQUIRE))
		group_place_drop(group_place_exchange(place, hold(from)));
}

int group_charge_place(const uint32_t *place, size_t bytes, uint32_t *owner)
{
	int err;

	*owner = likely(!__atomic_load_n(place, __ATOMIC_RELAXED)) ? 0 :
								     hold(place);
	if (!*owner) {
		*owner = group_current();
		return *owner ? group_charge(*owner, bytes) : 0;
	}
	err = group_charge(*owner, bytes);
	group_drop(*owner);
	return err;
}
