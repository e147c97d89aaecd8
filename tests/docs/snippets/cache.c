/* SPDX-License-Identifier: MIT */
#include <slub/cache.h>

#include "snippet.h"

struct session {
	int fd;
	char name[28];
};

/* As a variable: there is nothing to set up, and nothing to load. */
SLUB_CACHE_DEFINE_STATIC(sessions, struct session, 0, NULL);

static void session_init(void *object)
{
	((struct session *)object)->fd = -1;
}

int main(void)
{
	struct session *s = slub_cache_alloc(&sessions);

	expect(s);
	slub_cache_free(&sessions, s);

	/* At run time, with a constructor: once per object, not per allocation. */
	struct slub_cache *cache = slub_cache_create(
		"session", sizeof(struct session), 0, SLUB_CACHE_HWCACHE_ALIGN, session_init);

	expect(cache);
	s = slub_cache_alloc(cache);
	expect(s && s->fd == -1);
	expect(slub_cache_destroy(cache) == -EBUSY);	/* one object is out */
	slub_cache_free(cache, s);
	expect(slub_cache_destroy(cache) == 0);
	return 0;
}
