/* SPDX-License-Identifier: MIT */
/* Has the C library's malloc, and some memory of libslub, the file that is named. */
#include <dlfcn.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void *malloc_fn(size_t bytes);
typedef void free_fn(void *block);
typedef size_t size_fn(const void *block);

int main(int argc, char **argv)
{
	void *library = dlopen(argc > 1 ? argv[1] : "", RTLD_NOW | RTLD_LOCAL);
	malloc_fn *take = library ? (malloc_fn *)dlsym(library, "slub_malloc") : NULL;
	free_fn *give = library ? (free_fn *)dlsym(library, "slub_free") : NULL;
	size_fn *size = library ? (size_fn *)dlsym(library, "slub_usable_size") : NULL;
	void *theirs = malloc(100), *ours;

	if (!take || !give || !size) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	ours = take(100);
	if (!theirs || !ours)
		return 2;
	memset(ours, 1, 100);
	/* 112 is libslub's class for it; and each knows its own alone. */
	if (size(ours) != 112 || malloc_usable_size(theirs) == 112 || size(theirs))
		return 3;
	give(ours);
	give(NULL);
	free(theirs);
	return 0;
}
