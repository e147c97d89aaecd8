/* SPDX-License-Identifier: MIT */
#include <slub/qmempool.h>

#include "snippet.h"

int main(void)
{
	struct slub_cache_args args = {
		.name = "packet",
		.size = 256,
		.sheaf_length = 64,	/* what a CPU holds */
	};
	struct slub_cache *cache = slub_cache_create_args(&args);
	struct slub_qmempool *pool;
	void *packet;

	expect(cache);
	/* 64 per CPU, 256 shared, 128 of them there from the start. */
	pool = slub_qmempool_create(64, 256, 128, cache, 0);
	expect(pool);
	packet = slub_qmempool_alloc(pool, 0);
	expect(packet);
	slub_qmempool_free(pool, packet);
	expect(slub_qmempool_destroy(pool) == 0);
	expect(slub_cache_destroy(cache) == 0);
	return 0;
}
