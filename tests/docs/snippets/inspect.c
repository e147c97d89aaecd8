/* SPDX-License-Identifier: MIT */
#include <slub/cache.h>

#include "snippet.h"

static int count(void *object, void *arg)
{
	(void)object;
	++*(int *)arg;
	return 0;
}

int main(void)
{
	struct slub_cache_args args = {
		.name = "record",
		.size = 200,
		.useroffset = 8,	/* what may be copied from and to: */
		.usersize = 64,		/* bytes 8 to 71 */
	};
	struct slub_cache *cache = slub_cache_create_args(&args);
	char *record = cache ? slub_cache_zalloc(cache) : NULL;
	struct slub_cache_stats stats;
	int objects = 0;

	expect(record);
	expect(slub_cache_of(record) == cache);
	expect(!strcmp(slub_cache_name(cache), "record"));
	expect(slub_cache_size(cache) == 200 && slub_cache_stride(cache) >= 200);
	expect(slub_copy_allowed(record + 8, 64));
	expect(!slub_copy_allowed(record, 8));
	expect(slub_cache_for_each_object(cache, count, &objects) == 0);
	expect(objects == 1);
	expect(slub_cache_stats(cache, &stats) == 0 && stats.slabs == 1);
	slub_free(record);			/* or free(): the page says whose it is */
	slub_cache_shrink(cache);		/* empty slabs go back at once */
	expect(slub_cache_destroy(cache) == 0);
	return 0;
}
