/* SPDX-License-Identifier: MIT */
/* A program of malloc() alone, which knows nothing of the library. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *run(void *unused)
{
	for (size_t i = 0; i < 2000; i++) {
		char *block = calloc(1, i + 1), *aligned = aligned_alloc(64, 64);

		memset(block, 1, i + 1);
		block = realloc(block, 2 * i + 1);
		free(block);
		free(aligned);
	}
	return unused;
}

int main(void)
{
	pthread_t threads[3];

	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, run, NULL);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	puts("done");
	return 0;
}
