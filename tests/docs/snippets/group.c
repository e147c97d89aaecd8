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
	/* volatile: compilers leave out a block that nobody uses. */
	void *volatile block = malloc(5 << 20);
	void *volatile more = malloc(5 << 20);		/* more than it may have */
	int error = errno;
	/* What the program got by itself, by mmap() say. */
	uint32_t token = slub_group_charge(NULL, 1 << 20);

	expect(slub_group_leave(tenant) == 0);

	expect(block && !more && error == ENOMEM && token);
	expect(slub_group_stats(tenant, &stats) == 0);
	expect(stats.usage == 6 << 20 && stats.failures > 0);
	slub_group_uncharge(token, 1 << 20);	/* by any thread: the token names the owner */
	free(block);				/* by any thread, too */
	expect(slub_group_destroy(tenant) == 0);
	return 0;
}
