/* SPDX-License-Identifier: MIT */
/* How many page faults a fork costs: of the parent until its child has ended, and of the child. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define FORKS 30

static long faults(int who)
{
	struct rusage usage;

	getrusage(who, &usage);
	return usage.ru_minflt;
}

int main(void)
{
	long parent_least = 1000, child_least = 1000;

	free(malloc(100));
	for (int i = 0; i < FORKS; i++) {
		long parent = faults(RUSAGE_SELF), child = faults(RUSAGE_CHILDREN);
		pid_t pid = fork();

		if (pid < 0)
			return 1;
		if (!pid)
			_exit(0);
		waitpid(pid, NULL, 0);
		parent = faults(RUSAGE_SELF) - parent;
		child = faults(RUSAGE_CHILDREN) - child;
		parent_least = parent < parent_least ? parent : parent_least;
		child_least = child < child_least ? child : child_least;
	}
	printf("%ld %ld\n", parent_least, child_least);
	return 0;
}
