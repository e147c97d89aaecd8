/* SPDX-License-Identifier: MIT */
/*
 * Where a program's objects come from, chosen when it is compiled: malloc and free of whichever
 * allocator is preloaded, or (ORIG_CACHE) a typed cache of libslub, inline.
 */
#ifndef ORIG_SOURCE_H
#define ORIG_SOURCE_H

#include "orig.h"

#if ORIG_CACHE

#include <slub/cache.h>

#define SOURCE_NAME "slub_cache"

struct source {
	struct slub_cache *cache;
};

static inline struct source source_create(const char *name, size_t size)
{
	struct source source = {
		.cache = slub_cache_create(name, size, 0, SLUB_CACHE_HWCACHE_ALIGN, NULL),
	};

	if (!source.cache)
		bench_fatal("no cache of %zu bytes", size);
	return source;
}

static inline void *source_alloc(const struct source *source)
{
	return slub_cache_alloc(source->cache);
}

static inline void source_free(const struct source *source, void *object)
{
	slub_cache_free(source->cache, object);
}

static inline void source_destroy(struct source *source)
{
	if (slub_cache_destroy(source->cache))
		bench_fatal("a cache still has objects");
}

#else

#define SOURCE_NAME "malloc"

struct source {
	size_t size;
};

static inline struct source source_create(const char *name, size_t size)
{
	(void)name;
	return (struct source){ .size = size };
}

static inline void *source_alloc(const struct source *source)
{
	return malloc(source->size);
}

static inline void source_free(const struct source *source, void *object)
{
	(void)source;
	free(object);
}

static inline void source_destroy(struct source *source)
{
	(void)source;
}

#endif

#endif
