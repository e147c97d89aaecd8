/* SPDX-License-Identifier: MIT */
/*
 * A write to a freed object of a typed cache, or behind one.  Without typed caches these are blocks
 * of malloc, as the same program has them there.
 */
#include "attack.h"

#include <dlfcn.h>

static void *cache;
static void *(*cache_alloc)(void *cache);
static void (*cache_free)(void *cache, void *object);

static void *alloc(size_t size)
{
	(void)size;
	return cache_alloc(cache);
}

static void free_object(void *object)
{
	cache_free(cache, object);
}

static void construct(void *object)
{
	(void)object;
}

static struct neighbours prepared_by(size_t size, void (*ctor)(void *))
{
	void *(*create)(const char *, size_t, size_t, unsigned long, void (*)(void *)) =
		dlsym(RTLD_DEFAULT, "slub_cache_create");
	struct neighbours pair;

	if (create) {
		cache_alloc = dlsym(RTLD_DEFAULT, "slub_cache_alloc");
		cache_free = dlsym(RTLD_DEFAULT, "slub_cache_free");
		cache = create("attacked", size, 0, 0, ctor);
		object_alloc = alloc;
		object_free = free_object;
	}
	for (int i = 0; i < 20; i++)
		block_get(size);
	pair = neighbours_get(size);
	free_some(size, pair.first, pair.second);
	block_put(pair.second);
	return pair;
}

static struct neighbours prepared(size_t size)
{
	return prepared_by(size, NULL);
}

static bool address(size_t size)
{
	word_write(prepared(size).second, (uintptr_t)buffer);
	return gets_wrong(size, 200);
}

static bool live(size_t size)
{
	char *block = prepared(size).second, *victim = block_some(size, NULL);

	word_write(block, plain_link(victim, victim));
	return gets_wrong(size, 200);
}

static bool zero(size_t size)
{
	struct neighbours pair = prepared(size);

	bytes_write(pair.first + size, "", 1);
	return gets_wrong(size, 200);
}

static bool overflow(size_t size)
{
	struct neighbours pair = prepared(size);
	uintptr_t word = (uintptr_t)buffer;

	bytes_write(pair.first + size, &word, sizeof(word));
	return gets_wrong(size, 200);
}

/* Each free is the cache's own, and the program has not got the object in between. */
static bool twice(size_t size)
{
	char *block = prepared(size).second;

	block_put_live(block);
	return gets_wrong(size, 200);
}

/* ... its second word was written to before. */
static bool cleared(size_t size)
{
	char *block = prepared(size).second;

	word_write(block + 8, 0);
	block_put_live(block);
	return gets_wrong(size, 200);
}

/* A free of a pointer into an object that is in use. */
static bool interior(size_t size, size_t offset)
{
	struct neighbours pair = prepared(size);

	block_put_live(pair.first + offset);
	return gets_wrong(size, 200);
}

static bool interior_8(size_t size)
{
	return interior(size, 8);
}

static bool interior_16(size_t size)
{
	return interior(size, 16);
}

static bool middle(size_t size)
{
	return interior(size, size / 2 / 16 * 16);
}

/* What a constructor made stays in a free object, so the link lies behind it. */
static char *constructed_link(size_t size)
{
	char *block = prepared_by(size, construct).second;

	return cache ? block + (size + 7) / 8 * 8 : block;
}

static bool constructed(size_t size)
{
	word_write(constructed_link(size), (uintptr_t)buffer);
	return gets_wrong(size, 200);
}

static bool constructed_zero(size_t size)
{
	bytes_write(constructed_link(size), "", 1);
	return gets_wrong(size, 200);
}

const struct attack attacks[] = {
	{ "address", address, { 8, 24, 64 }, { 16, 200, 1000 }, NULL },
	{ "live", live, { 64 }, { 16, 24, 200, 1000 }, NULL },
	{ "zero", zero, { 8, 64 }, { 16, 24, 32, 200, 512 }, NULL },
	{ "overflow", overflow, { 8, 64 }, { 16, 24, 32, 200, 512 }, NULL },
	{ "twice", twice, { 8, 64 }, { 16, 24, 200, 1000 }, NULL },
	{ "cleared", cleared, { 64 }, { 16, 24, 200, 1000 }, NULL },
	{ "interior-8", interior_8, { 24, 64 }, { 32, 200, 1000 }, NULL },
	{ "interior-16", interior_16, { 24, 64 }, { 32, 48, 200, 1000 }, NULL },
	{ "middle", middle, { 64, 200 }, { 32, 48, 512, 1000 }, NULL },
	{ "constructed", constructed, { 24, 64 }, { 8, 32, 48, 200, 1000 }, NULL },
	{ "constructed-zero", constructed_zero, { 24, 64 }, { 8, 32, 48, 200, 1000 }, NULL },
	{ .name = NULL },
};
