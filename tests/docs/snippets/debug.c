/* SPDX-License-Identifier: MIT */
#include <slub/debug.h>

#include "snippet.h"

int main(void)
{
	struct slub_cache *cache = slub_cache_create("order", 64, 0, 0, NULL);

	expect(cache);
	/* Watch it: consistency, red zones, poison, last user. */
	expect(slub_cache_debug(cache, SLUB_CACHE_CONSISTENCY_CHECKS | SLUB_CACHE_RED_ZONE |
				       SLUB_CACHE_POISON | SLUB_CACHE_STORE_USER) == 0);
	char *order = slub_cache_alloc(cache);

	expect(order);
	order[64] = 1;				/* one byte too far */
	expect(slub_cache_validate(cache) > 0);	/* found, reported, repaired */
	expect(slub_cache_errors(cache) > 0);
	slub_cache_free(cache, order);
	expect(slub_cache_destroy(cache) == 0);
	return 0;
}
