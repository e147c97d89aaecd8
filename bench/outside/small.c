/* SPDX-License-Identifier: MIT */
/*
 * A small program for bench/outside/start: `small BYTES` allocates so many in objects of 16 to
 * 527 bytes, writes to them and ends. 0: one object, as the C library's start does.
 */
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
	long bytes = argc > 1 ? atol(argv[1]) : 0;
	unsigned int seed = 1;

	free(malloc(1));
	while (bytes > 0) {
		size_t n = 16 + (seed >> 16) % 512;
		char *object = malloc(n);

		if (!object)
			return 1;
		memset(object, 1, n);
		seed = seed * 1103515245 + 12345;
		bytes -= (long)n;
	}
	return 0;
}
