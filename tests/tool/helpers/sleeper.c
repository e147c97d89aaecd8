/* SPDX-License-Identifier: MIT */
/* Allocates, says that it is ready, and waits until its standard input ends. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(void)
{
	char *block = memset(malloc(1000), 1, 1000);
	char c = block[999];

	if (write(1, "ready\n", 6) != 6)
		return 1;
	while (read(0, &c, 1) > 0)
		;
	free(block);
	return 0;
}
