/* SPDX-License-Identifier: MIT */
#include <slub/mempool.h>

#include "snippet.h"

static void *frame_new(unsigned int flags, void *data)
{
	(void)flags;
	return malloc(*(const size_t *)data);
}

static void frame_drop(void *frame, void *data)
{
	(void)data;
	free(frame);
}

static void frame_blank(void *frame, void *data)
{
	memset(frame, 0, *(const size_t *)data);
}

static void pool_of_functions(void)
{
	size_t bytes = 4096;
	/* Zeroed when it is handed out, be it new or of the reserve. */
	struct slub_mempool_args args = {
		.min_nr = 2, .alloc_fn = frame_new, .free_fn = frame_drop,
		.init_fn = frame_blank, .data = &bytes,
	};
	struct slub_mempool *frames = slub_mempool_create_args(&args);
	char *frame = slub_mempool_alloc(frames, 0);

	expect(frame && frame[4095] == 0);
	slub_mempool_free(frames, frame);
	expect(slub_mempool_destroy(frames) == 0);
}

int main(void)
{
	pool_of_functions();

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
