/* SPDX-License-Identifier: MIT */
/* Linked with libslub.a: the malloc in it must be the library's, and threads must work. */
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "features/inspect/abi.h"

extern struct slub_abi slub_abi_state;

static void *work(void *unused)
{
	(void)unused;
	for (int i = 0; i < 1000; i++) {
		size_t n = 1 + (size_t)i * 37 % 20000;
		char *block = memset(malloc(n), 3, n);

		block = realloc(block, n * 2);
		free(block);
	}
	return NULL;
}

/* In the heap, or between guard pages, if there is a guard. */
static int in_range(const void *block)
{
	const struct guard_pool *guard = (struct guard_pool *)slub_abi_state.guard;
	uint64_t address = (uint64_t)block;

	return address - slub_abi_state.range_start < slub_abi_state.range_bytes ||
	       address - guard->base < guard->bytes;
}

int main(void)
{
	pthread_t threads[4];
	void *blocks[] = { malloc(100), calloc(1, 100), realloc(NULL, 100),
			   aligned_alloc(64, 100), strdup("text") };

	if (slub_abi_state.ready != 1)
		return 54;
	for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++) {
		if (!in_range(blocks[i]))
			return 55;
		free(blocks[i]);
	}
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, work, NULL);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	printf("static %u\n", slub_abi_state.backend);
	return 0;
}
