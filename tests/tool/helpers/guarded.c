/* SPDX-License-Identifier: MIT */
/*
 * Prints the address of an object and the address that it will touch wrongly, and "ready"; does so
 * when its input has a line, ends at the end of it.
 *
 * usage: guarded use|overrun|twice|asked|abort|large|astray|wild|kept|again
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *volatile object, *volatile at;
static size_t bytes = 96;

static __attribute__((noinline)) void allocate_it(void)
{
	object = malloc(bytes);
	__asm__ volatile("");
}

static __attribute__((noinline)) void free_it(void)
{
	free(object);
	__asm__ volatile("");
}

static __attribute__((noinline)) void use_it(void)
{
	*at = 1;
	__asm__ volatile("");
}

/* Where no code is. */
static void (*volatile nowhere)(void) = (void (*)(void))0x40;

static __attribute__((noinline)) void go_astray(void)
{
	nowhere();
	__asm__ volatile("");
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";

	if (!strcmp(mode, "large"))
		bytes = 200000;
	do
		allocate_it();	/* until it is at the end of a page */
	while (!strcmp(mode, "overrun") && ((size_t)object + bytes) % 4096);
	at = object + (strcmp(mode, "overrun") ? 8 : bytes);
	if (strcmp(mode, "overrun") && strcmp(mode, "kept"))
		free_it();
	if (!strcmp(mode, "twice"))
		free_it();
	if (!strcmp(mode, "asked"))
		malloc_usable_size(object);
	fprintf(stderr, "%p %p\n", (void *)object, (void *)at);
	puts("ready");
	fflush(stdout);
	if (getchar() == EOF)
		return 0;
	if (!strcmp(mode, "abort"))
		abort();
	if (!strcmp(mode, "again"))
		free_it();
	if (!strcmp(mode, "astray"))
		go_astray();
	/* What stands in freed memory is an address of nothing. */
	if (!strcmp(mode, "wild"))
		at = (char *)(size_t)0x6b6b6b6b6b6b6b6b;
	use_it();
	return 0;
}
