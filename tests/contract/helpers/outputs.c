/* SPDX-License-Identifier: MIT */
/*
 * outputs [wait|orphan]: allocates 1,000 blocks that nobody frees; with an argument a child
 * does the same again, and ends before its parent, or after it.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void allocate(void)
{
	static void *volatile kept;

	for (int i = 0; i < 1000; i++)
		kept = malloc(100);
	(void)kept;
}

static void child(pid_t parent, bool first)
{
	allocate();
	while (!first && getppid() == parent)
		usleep(1000);
	exit(0);
}

int main(int argc, char **argv)
{
	bool first = argc > 1 && strcmp(argv[1], "wait") == 0;
	pid_t parent = getpid();
	int status = 0;

	allocate();
	if (argc > 1 && fork() == 0)
		child(parent, first);
	if (first)
		wait(&status);
	return status != 0;
}
