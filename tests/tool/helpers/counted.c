/* SPDX-License-Identifier: MIT */
/*
 * Caches with what the kernel counts: one with a constructor, whose objects are allocated, put
 * aside, freed at once and deferred, one of objects of two pages, and one with a name that a
 * watched cache could have.  Then it waits for the end of its input.
 */
#include <slub/slub.h>
#include <string.h>
#include <unistd.h>

#define NR 4000
#define NR_DEFERRED 300

void counted_init(void *object);

void counted_init(void *object)
{
	memset(object, 0x2a, 200);
}

static int fill(struct slub_cache *cache)
{
	static void *objects[NR];
	struct slub_prefill prefill = { 0 };

	for (int i = 0; i < NR; i++) {
		objects[i] = slub_cache_alloc(cache);
		if (!objects[i])
			return -1;
	}
	/* Each slab gets room, then each becomes empty. */
	for (int i = 0; i < NR; i += 2)
		slub_cache_free(cache, objects[i]);
	slub_cache_shrink(cache);
	for (int i = 1; i < NR - NR_DEFERRED; i += 2)
		slub_cache_free(cache, objects[i]);
	for (int i = NR - NR_DEFERRED + 1; i < NR; i += 2)
		slub_free_deferred(objects[i]);
	slub_deferred_barrier();
	slub_cache_shrink(cache);
	for (int i = 0; i < 3; i++) {
		if (slub_cache_prefill(cache, &prefill, i < 2 ? 5 : 5000))
			return -1;
		slub_prefill_return(&prefill);
	}
	return 0;
}

int main(void)
{
	struct slub_cache *cache = slub_cache_create("counted", 200, 0, 0, counted_init);
	struct slub_cache *large = slub_cache_create("counted-large", 8192, 0, 0, NULL);
	struct slub_cache *watched = slub_cache_create("counted:A", 100, 0, 0, NULL);
	char byte;

	if (!cache || !large || !watched || fill(cache) || !slub_cache_alloc(large) ||
	    write(1, "ready\n", 6) != 6)
		return 1;
	while (read(0, &byte, 1) > 0)
		;
	return 0;
}
