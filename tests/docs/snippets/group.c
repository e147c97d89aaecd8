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
	void *one = malloc(5 << 20);
	void *two = malloc(5 << 20);			/* more than it may have */

	expect(slub_group_leave(tenant) == 0);

	expect(one && !two);
	expect(slub_group_stats_read(tenant, &stats) == 0);
	expect(stats.usage >= 5 << 20 && stats.failures > 0);
	free(one);		/* by whomever: the charge belongs to the block */
	expect(slub_group_delete(tenant) == 0);
	return 0;
}
