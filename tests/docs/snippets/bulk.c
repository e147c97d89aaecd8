/* SPDX-License-Identifier: MIT */
#include <slub/cache.h>

#include "snippet.h"

SLUB_CACHE_DEFINE_STATIC(nodes, char[48], 0, NULL);

int main(void)
{
	void *batch[16];

	/* All or nothing. */
	expect(slub_cache_alloc_bulk(&nodes, SLUB_ALLOC_ZERO, 16, batch) == 16);
	slub_cache_free_bulk(&nodes, 16, batch);

	/* Fail now, not in the middle of the work. */
	struct slub_prefill nodes_needed = { 0 };

	if (slub_cache_prefill(&nodes, &nodes_needed, 3))
		return 1;
	void *node = slub_prefill_alloc(&nodes_needed);		/* cannot fail */

	slub_prefill_return(&nodes_needed);			/* the other two */

	expect(node);
	slub_cache_free(&nodes, node);
	return 0;
}
