/* SPDX-License-Identifier: MIT */
#include <slub/group.h>

#include "snippet.h"

int main(void)
{
	struct slub_group *tenant = slub_group_create("tenant-7", NULL);
	struct slub_group_stats stats;

	expect(tenant);
	expect(slub_group_limit_set(tenant, SLUB_GROUP_MAX, 8 << 20) == 0);

	expect(slub_group_enter(tenant) == 0);		/* this thread works for it */
	/* What the program got by itself, by mmap() say. */
	uint32_t one = slub_group_charge(NULL, 5 << 20);
	uint32_t two = slub_group_charge(NULL, 5 << 20);	/* more than it may have */

	expect(slub_group_leave(tenant) == 0);

	expect(one && !two && errno == ENOMEM);
	expect(slub_group_stats_read(tenant, &stats) == 0);
	expect(stats.usage == 5 << 20 && stats.failures > 0);
	slub_group_uncharge(one, 5 << 20);	/* by whomever: the token says whose */
	expect(slub_group_delete(tenant) == 0);
	return 0;
}
