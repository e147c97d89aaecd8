/* SPDX-License-Identifier: MIT */
/*
 * Known call sites: 20 objects of 1,000 bytes from one and 9 of 1,020 from another, in places that
 * free_all() freed before.  Those of a third were freed deferred, and nobody has ended that.  A
 * fourth is inlined twice.  Then it waits for the end of its input.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#define NR 30

static void *volatile keep[NR];

__attribute__((noinline)) void *site_a(size_t n)
{
	void *object = malloc(n);

	__asm__ volatile("" : "+r"(object));
	return object;
}

__attribute__((noinline)) void *site_b(size_t n)
{
	void *object = malloc(n);

	__asm__ volatile("" : "+r"(object));
	return object;
}

__attribute__((noinline)) void *site_deferred(size_t n)
{
	void *object = malloc(n);

	__asm__ volatile("" : "+r"(object));
	return object;
}

static inline __attribute__((always_inline)) void *innermost(size_t n)
{
	void *object = malloc(n);

	__asm__ volatile("" : "+r"(object));
	return object;
}

static inline __attribute__((always_inline)) void *between(size_t n)
{
	return innermost(n);
}

__attribute__((noinline)) void *site_inlined(size_t n)
{
	return between(n);
}

/* All places of a slab, so that none is left that was never used. */
__attribute__((noinline)) void free_all(void)
{
	for (int i = 0; i < NR; i++)
		free(keep[i]);
}

int main(void)
{
	void (*free_deferred)(void *) =
		(void (*)(void *))dlsym(RTLD_DEFAULT, "slub_free_deferred");

	for (int round = 0; round < 40; round++) {
		if (round)
			free_all();
		for (int i = 0; i < NR; i++)
			keep[i] = i < 20 ? site_a(1000) : site_b(1020);
	}
	free(keep[NR - 1]);
	for (int i = 0; free_deferred && i < 7; i++)
		free_deferred(site_deferred(1000));
	keep[NR - 1] = site_inlined(1000);
	puts("ready");
	fflush(stdout);
	while (getchar() != EOF)
		;
	return 0;
}
