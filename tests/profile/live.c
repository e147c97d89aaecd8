/* SPDX-License-Identifier: MIT */
/* Allocates all the time: some blocks stay, and others are freed at once. */
#include <stdlib.h>
#include <unistd.h>

void *keep(void);
void *pass(void);
static void *volatile kept;

__attribute__((__noinline__)) void *keep(void)
{
	void **block = malloc(1000);

	*block = kept;
	return kept = block;
}

__attribute__((__noinline__)) void *pass(void)
{
	void *volatile block = malloc(2000);

	return block;
}

int main(void)
{
	if (write(1, "ready\n", 6) != 6)
		return 1;
	/* An end, for a test that is killed leaves it behind. */
	for (int i = 0; i < 60000; i++) {
		keep();
		free(pass());
		usleep(1000);
	}
	return 0;
}
