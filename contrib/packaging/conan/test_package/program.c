/* SPDX-License-Identifier: MIT */
#include <slub/slub.h>
#include <stdio.h>

int main(void)
{
	struct slub_cache *cache = slub_cache_create("point", 24, 8, 0, NULL);
	void *object = slub_cache_alloc(cache);

	if (!object)
		return 1;
	slub_cache_free(cache, object);
	puts("libslub " SLUB_VERSION_STRING ": linked and used");
	return 0;
}
