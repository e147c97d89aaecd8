/* SPDX-License-Identifier: MIT */
/* Frees a block twice; what it prints behind that is not to be seen. */
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
	char *block = malloc(24);

	puts("begun");
	fflush(stdout);
	free(block);
	free(block);
	puts("gone on");
	return 0;
}
