/* SPDX-License-Identifier: MIT */
/* The limits of a group: set and asked. */
#include "reclaim/group/group.h"

#include <errno.h>

uint32_t groups_with_low;

void charge_set_low(struct slub_group *group, size_t bytes)
{
	size_t before = __atomic_exchange_n(&group->limits[SLUB_GROUP_LOW],
					    bytes, __ATOMIC_RELAXED);

	__atomic_fetch_add(&groups_with_low,
			   (uint32_t)(bytes != 0) - (uint32_t)(before != 0),
			   __ATOMIC_RELAXED);
}

/* False: @group is deleted.  Inside group_domain, so that no other group is meant. */
static bool limit_change(struct slub_group *group, enum slub_group_limit limit,
			 size_t bytes)
{
	int index = slub_srcu_read_lock(&group_domain);
	bool lives = group_is_alive(group);

	if (lives && limit == SLUB_GROUP_LOW) {
		charge_set_low(group, bytes);
		/* As CHARGE-3: this, or group_wind_up(), comes last and sees the other. */
		full_fence();
		if (!group_is_alive(group))
			charge_set_low(group, 0);
	} else if (lives) {
		__atomic_store_n(&group->limits[limit], bytes,
				 __ATOMIC_RELAXED);
		charge_tight_update(group);
	}
	slub_srcu_read_unlock(&group_domain, index);
	return lives;
}

SLUB_EXPORT int slub_group_limit_set(struct slub_group *group,
				     enum slub_group_limit limit, size_t bytes)
{
	int priority = SLUB_SHRINK_PRIORITY_MAX;

	if (!group_is_alive(group) || (unsigned int)limit > SLUB_GROUP_MAX)
		return -EINVAL;
	if (bytes > SLUB_GROUP_NO_LIMIT)
		bytes = SLUB_GROUP_NO_LIMIT;
	for (; limit == SLUB_GROUP_MAX && group_usage_settled(group) > bytes;
	     priority--) {
		if (priority < 0)
			return -EBUSY;
		reclaim_group(group, priority);
	}
	return limit_change(group, limit, bytes) ? 0 : -EINVAL;
}

SLUB_EXPORT size_t slub_group_limit_get(struct slub_group *group,
					enum slub_group_limit limit)
{
	if (!group_is_alive(group) || (unsigned int)limit > SLUB_GROUP_MAX)
		return 0;
	return limit_of(group, limit);
}
