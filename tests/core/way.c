/* SPDX-License-Identifier: MIT */
/*
 * A heap that grows object by object and is emptied again: ways.py watches call_malloc() and
 * call_free() in it.  Prints where the library lies.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#define NR 40000
/* Volatile: a compiler that knows it makes functions of other names. */
static volatile size_t bytes = 1000;

static void *objects[NR];

/* Stores behind the calls keep them from being jumps, whose end nobody would see. */
static volatile int calls;

__attribute__((noinline)) static void *call_malloc(size_t n)
{
	void *object = malloc(n);

	calls++;
	return object;
}

__attribute__((noinline)) static void call_free(void *object)
{
	free(object);
	calls++;
}

int main(void)
{
	Dl_info info;

	if (!dladdr((void *)malloc, &info))
		return 1;
	printf("%p %s\n", info.dli_fbase, info.dli_fname);
	fflush(stdout);
	/* The class is made. */
	free(malloc(bytes));
	for (int i = 0; i < NR; i++) {
		objects[i] = call_malloc(bytes);
		if (!objects[i])
			return 1;
		*(char *)objects[i] = 1;
	}
	for (int i = 0; i < NR; i++)
		call_free(objects[i]);
	return 0;
}
