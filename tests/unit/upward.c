/* SPDX-License-Identifier: MIT */
/*
 * What a layer calls upwards: the start of the library, which a test of the
 * layer has done by hand, and free() for any pointer.  Weak: a program that
 * links the whole library has the real ones.
 */
#define SLUB_LIBRARY 1
#include <slub/cache.h>

#include <stdbool.h>

extern bool slub_start(void);

__attribute__((__weak__)) bool slub_start(void)
{
	return true;
}

/* Pages of caches that are left: a test of pages has no caches. */
extern void slab_empty_left(void);

__attribute__((__weak__)) void slab_empty_left(void)
{
}

/* A file of statistics, which needs the layers above. */
extern void stats_file_update(struct slub_cache *);

__attribute__((__weak__)) void stats_file_update(struct slub_cache *cache)
{
	(void)cache;
}

/* In a test of slab every object has a cache; lower layers have none. */
extern __attribute__((__weak__)) void slub_cache_free(struct slub_cache *,
							   void *);
extern __attribute__((__weak__)) struct slub_cache *slub_cache_of(const void *);

__attribute__((__weak__)) void slub_free(void *object)
{
	if (object && slub_cache_free)
		slub_cache_free(slub_cache_of(object), object);
}
