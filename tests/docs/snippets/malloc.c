/* SPDX-License-Identifier: MIT */
#include <slub/slub.h>

#include "snippet.h"

static int print_name(struct slub_cache *cache, void *arg)
{
	fprintf(arg, "%s: objects of %zu bytes\n", slub_cache_name(cache),
		slub_cache_size(cache));
	return 0;
}

static void find(void)
{
	FILE *out = fopen("/dev/null", "w");

	expect(out);
	struct slub_cache *cache = slub_cache_find("malloc-64");	/* NULL: ENOENT */

	expect(cache && slub_cache_size(cache) == 64);
	expect(slub_cache_for_each(print_name, out) == 0);
	fclose(out);
}

static void write_all(void)
{
	long bytes = slub_stats_json(NULL, 0) + 4096;	/* room for what comes meanwhile */
	char *text = malloc((size_t)bytes);

	expect(text && slub_stats_json(text, (size_t)bytes) < bytes);
	expect(strstr(text, "\"objects\": {"));
	free(text);
}

int main(void)
{
	size_t room = slub_good_size(5000);		/* as much costs no more */
	char *buffer = slub_malloc(room);

	expect(buffer && room >= 5000 && slub_usable_size(buffer) >= room);
	buffer = slub_realloc(buffer, 2 * room);
	expect(buffer);
	slub_free(buffer);

	char *line = slub_aligned_alloc(64, 64);
	long *zeros = slub_calloc(100, sizeof(long));

	expect(line && zeros && zeros[99] == 0);
	slub_free(zeros);
	find();
	slub_free(line);
	write_all();
	return 0;
}
