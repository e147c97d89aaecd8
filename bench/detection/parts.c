/* SPDX-License-Identifier: MIT */
/*
 * So many mallocs of one size and their frees, for an instruction counter: bench/detection/parts
 * counts them for two numbers of pairs, and takes the difference.
 *
 *	parts PATTERN BYTES PAIRS
 *
 *	reuse    each block is freed at once
 *	batch    256 at a time, freed in the order in which they came
 *	random   2,000 are alive, and each call replaces one of them
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 256, ALIVE = 2000 };

static void *object[ALIVE];

static void take(size_t i, size_t bytes)
{
	object[i] = malloc(bytes);
	/* The compiler must not see that nobody uses it. */
	__asm__ volatile("" : : "r"(object[i]) : "memory");
}

static void reuse(size_t bytes, long pairs)
{
	while (pairs-- > 0) {
		take(0, bytes);
		free(object[0]);
	}
}

static void batch(size_t bytes, long pairs)
{
	for (; pairs > 0; pairs -= BATCH) {
		for (size_t i = 0; i < BATCH; i++)
			take(i, bytes);
		for (size_t i = 0; i < BATCH; i++)
			free(object[i]);
	}
}

static void replace(size_t bytes, long pairs)
{
	uint64_t x = 1;

	for (size_t i = 0; i < ALIVE; i++)
		take(i, bytes);
	while (pairs-- > 0) {
		size_t i = (x >> 33) % ALIVE;

		x = x * 6364136223846793005u + 1442695040888963407u;
		free(object[i]);
		take(i, bytes);
	}
}

int main(int argc, char **argv)
{
	size_t bytes;
	long pairs;

	if (argc != 4)
		return 2;
	bytes = strtoul(argv[2], NULL, 10);
	pairs = strtol(argv[3], NULL, 10);
	if (!strcmp(argv[1], "reuse"))
		reuse(bytes, pairs);
	else if (!strcmp(argv[1], "batch"))
		batch(bytes, pairs);
	else if (!strcmp(argv[1], "random"))
		replace(bytes, pairs);
	else
		return 2;
	return 0;
}
