/* SPDX-License-Identifier: MIT */
/*
 * A heap with two troubles with the kernel: 20 freed blocks of 64 KiB have a page that is locked,
 * and one block was moved as it grew.  Then it waits for the end of its input.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MIB (1ul << 20)
#define BLOCK (64ul << 10)
#define NR 40

int main(void)
{
	static char *blocks[NR];
	char *grown = malloc(8 * MIB), *behind = malloc(8 * MIB), c;

	for (int i = 0; i < NR; i++)
		blocks[i] = memset(malloc(BLOCK), 1, BLOCK);
	grown = realloc(memset(grown, 1, 8 * MIB), 64 * MIB);
	if (!grown)
		return 1;
	/* Those between them stay, so that none of them merges. */
	for (int i = 0; i < NR; i += 2) {
		if (mlock(blocks[i] + BLOCK / 2, 32))
			return 1;
		free(blocks[i]);
	}
	if (write(1, "ready\n", 6) != 6)
		return 1;
	while (read(0, &c, 1) > 0)
		;
	for (int i = 1; i < NR; i += 2)
		free(blocks[i]);
	free(grown);
	free(behind);
	return 0;
}
