/* SPDX-License-Identifier: MIT */
/* Has as many caches as it is told, uses all of them alike, and waits. */
#include <slub/slub.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	long nr = argc > 1 ? atol(argv[1]) : 1;
	char name[SLUB_CACHE_NAME_MAX + 1];
	struct slub_cache *cache;

	for (long i = 0; i < nr; i++) {
		snprintf(name, sizeof(name), "tenant-%ld", i);
		cache = slub_cache_create(name, 500, 0, 0, NULL);
		if (!cache || !slub_cache_alloc(cache))
			return 1;
		slub_cache_free(cache, slub_cache_alloc(cache));
	}
	puts("ready");
	fflush(stdout);
	while (getchar() != EOF)
		;
	return 0;
}
