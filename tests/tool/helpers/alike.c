/* SPDX-License-Identifier: MIT */
/*
 * Caches with names of 47 letters of which the last ones differ, and two that are one with
 * SLUB_MERGE=1, of which objects come and go until the input ends.
 */
#include <poll.h>
#include <slub/slub.h>
#include <unistd.h>

#define LONG_NAME "connections-of-the-server-that-wait-for-" /* 40 letters */
#define NR 2000

static struct slub_cache *make(const char *name, size_t size, unsigned long flags, int nr)
{
	struct slub_cache *cache = slub_cache_create(name, size, 0, flags, NULL);

	for (; cache && nr; nr--) {
		if (!slub_cache_alloc(cache))
			return NULL;
	}
	return cache;
}

int main(void)
{
	struct slub_cache *a = make(LONG_NAME "replies", 200, SLUB_CACHE_NO_MERGE, 3);
	struct slub_cache *b = make(LONG_NAME "timeout", 200, SLUB_CACHE_NO_MERGE, 5);
	struct slub_cache *one = make("shared-one", 72, 0, 0);
	struct slub_cache *other = make("shared-other", 70, 0, 0);
	struct pollfd input = { .fd = 0, .events = POLLIN };
	static void *objects[NR];

	if (!a || !b || !one || !other || write(1, "ready\n", 6) != 6)
		return 1;
	while (poll(&input, 1, 1) <= 0) { /* -1: a signal came */
		for (int i = 0; i < NR; i++)
			objects[i] = slub_cache_alloc(other);
		for (int i = 0; i < NR; i++)
			slub_cache_free(other, objects[i]);
	}
	return 0;
}
