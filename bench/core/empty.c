/* SPDX-License-Identifier: MIT */
/* The program that does nothing: what is left is the allocator's own start. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --wait: allocate one object, say so on standard output, live until standard input ends. */
int main(int argc, char **argv)
{
	char byte = 1;

	if (argc < 2 || strcmp(argv[1], "--wait"))
		return 0;
	if (!malloc(64) || write(STDOUT_FILENO, &byte, 1) != 1)
		return 1;
	return read(STDIN_FILENO, &byte, 1) < 0;
}
