/* SPDX-License-Identifier: MIT */
/* The same with typed caches, where the allocator has them. */
#include "crime.h"

#include <slub/cache.h>

/* A cache for one crime; that of a twin is empty in the end. */
class cache {
public:
	explicit cache(size_t size, const char *name = "crime", void (*ctor)(void *) = NULL)
		: self(slub_cache_create(name, size, 0, 0, ctor))
	{
		if (!self)
			abort();
	}
	~cache()
	{
		if (innocent && slub_cache_destroy(self))
			abort();
	}
	operator slub_cache *()
	{
		return self;
	}

private:
	slub_cache *self;
};

static char *object_of(slub_cache *cache)
{
	return hide(slub_cache_alloc(cache));
}

static void write_at(char *p, size_t n)
{
	begin_wrong();
	memset(p, 'o', n);
	end_wrong();
}

static void overflow(const struct row *row, size_t size)
{
	class cache cache(size);
	char *p = object_of(cache);

	if (!innocent)
		write_at(p + size, row->n);
	slub_cache_free(cache, p);
}

static void underflow(const struct row *row, size_t size)
{
	class cache cache(size);
	char *p = object_of(cache);

	if (!innocent)
		write_at(p - row->at, 1);
	slub_cache_free(cache, p);
}

static void again(const struct row *, size_t size)
{
	class cache cache(size);
	char *p = object_of(cache), *q = object_of(cache);

	slub_cache_free(cache, p);
	slub_cache_free(cache, q);
	if (!innocent)
		slub_cache_free(cache, p);
}

static void again_in_bulk(const struct row *, size_t size)
{
	class cache cache(size);
	void *objects[4];

	if (slub_cache_alloc_bulk(cache, 0, 3, objects) != 3)
		abort();
	objects[3] = innocent ? object_of(cache) : objects[0];
	slub_cache_free_bulk(cache, 4, objects);
}

static void interior(const struct row *row, size_t size)
{
	class cache cache(size);

	slub_cache_free(cache, object_of(cache) + (innocent ? 0 : row->at));
}

static void wrong_cache(const struct row *, size_t size)
{
	class cache cache(size);
	class cache other(size, "other");

	slub_cache_free(innocent ? cache : other, object_of(cache));
}

static void malloced(const struct row *, size_t size)
{
	class cache cache(size);
	char *p = get(size);

	if (innocent)
		free(p);
	else
		slub_cache_free(cache, p);
}

static void foreign(const struct row *, size_t size)
{
	class cache cache(size);
	char buf[64] __attribute__((aligned(64)));

	memset(buf, 0, sizeof(buf));
	slub_cache_free(cache, innocent ? NULL : hide(buf));
}

static void write_freed(const struct row *row, size_t size)
{
	class cache cache(size);
	char *p = object_of(cache);

	slub_cache_free(cache, p);
	if (!innocent)
		write_at(p + row->at, 1);
	slub_cache_free(cache, object_of(cache));
}

static void not_empty(const struct row *, size_t size)
{
	class cache cache(size);
	char *p = object_of(cache);

	if (innocent)
		slub_cache_free(cache, p);
	else
		slub_cache_destroy(cache);
}

/* The link of a watched object lies behind its right zone. */
static void link_behind_zone(const struct row *row, size_t size)
{
	class cache cache(size);
	char *p = object_of(cache), *q = object_of(cache);

	slub_cache_free(cache, p);
	slub_cache_free(cache, q);
	if (!innocent)
		write_at(q + size + 8, row->n);
	p = object_of(cache);
	q = object_of(cache);
	slub_cache_free(cache, p);
	slub_cache_free(cache, q);
}

static void construct(void *object)
{
	memset(object, 'c', 64);
}

static void overflow_constructed(const struct row *row, size_t size)
{
	class cache cache(size, "made", construct);
	char *p = object_of(cache);

	if (!p || p[0] != 'c')
		abort();
	if (!innocent)
		write_at(p + size, row->n);
	slub_cache_free(cache, p);
}

#define T "typed caches"
#define RIGHT "Right Redzone overwritten"

static const struct row typed[] = {
	{ T, "typed-overflow-by-1", overflow, small_sizes + 2, 0, 1, MALLOC, RIGHT },
	{ T, "typed-overflow-by-8", overflow, of_64, 0, 8, MALLOC, RIGHT },
	{ T, "typed-overflow-odd-size", overflow, of_50, 0, 1, MALLOC, RIGHT },
	{ T, "typed-underflow", underflow, of_64, 1, 0, MALLOC, "Left Redzone overwritten" },
	{ T, "typed-double-free", again, small_sizes, 0, 0, MALLOC, "Object already free" },
	{ T, "typed-bulk-double-free", again_in_bulk, of_64, 0, 0, MALLOC, "Object already free" },
	{ T, "typed-interior-8", interior, of_64, 8, 0, MALLOC, "Invalid object pointer" },
	{ T, "typed-interior-1", interior, of_64, 1, 0, MALLOC, "Invalid object pointer" },
	{ T, "typed-wrong-cache", wrong_cache, of_64, 0, 0, MALLOC, "Wrong slab cache" },
	{ T, "typed-malloced", malloced, of_64, 0, 0, MALLOC, "Wrong slab cache" },
	{ T, "typed-foreign", foreign, of_64, 0, 0, MALLOC, "outside of slab" },
	{ T, "typed-write-freed", write_freed, small_sizes + 1, 20, 0, MALLOC,
	  "[Pp]oison overwritten" },
	{ T, "typed-not-empty", not_empty, of_64, 0, 0, MALLOC, "Objects remaining" },
	{ T, "typed-link-behind-zone", link_behind_zone, of_64, 0, 8, MALLOC,
	  "Freepointer corrupt|Freechain corrupt" },
	{ T, "typed-constructed-overflow", overflow_constructed, of_64, 0, 1, MALLOC, RIGHT },
	{}
};

static const struct rows typed_here(typed);
