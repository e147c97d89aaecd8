/* SPDX-License-Identifier: MIT */
#include <slub/mempool.h>

#include "snippet.h"

int main(void)
{
	struct slub_mempool *requests = slub_mempool_create_malloc(4, 512);
	struct slub_mempool_stats stats;
	void *request, *pair[2];

	expect(requests);
	/* Four can be had at any time; a fifth caller waits for a free. */
	request = slub_mempool_alloc(requests, SLUB_POOL_WAIT);
	expect(request);
	slub_mempool_free(requests, request);

	expect(slub_mempool_alloc_bulk(requests, 0, 2, pair) == 2);
	slub_mempool_free_bulk(requests, 2, pair);

	request = slub_mempool_alloc_reserved(requests);	/* of the four */
	expect(slub_mempool_stats(requests, &stats) == 0 && stats.available == 3);
	slub_mempool_free(requests, request);

	expect(slub_mempool_resize(requests, 16) == 0);
	expect(slub_mempool_destroy(requests) == 0);
	return 0;
}
