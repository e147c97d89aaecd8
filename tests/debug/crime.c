/* SPDX-License-Identifier: MIT */
/*
 * The corruption corpus: programs that do one thing wrong each.
 *
 *   crime --list    a line for each: name, and what the report must say
 *   crime NAME      commits it, and ends with status 0 if it lives to the end
 *
 * Built with CRIME_PLAIN it needs no libslub, for other allocators; then there are
 * no crimes with typed caches.
 *
 * A row is a name, a function, its arguments, and the words of the report that
 * letters F, Z, P and U must give.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef CRIME_PLAIN
#include <slub/debug.h>
#endif

struct crime {
	const char *name;
	void (*commit)(const struct crime *);
	size_t size;
	long offset;
	size_t bytes;
	const char *report;
};

/* What the compiler must not see through. */
static void *volatile kept;

static char *get(size_t size)
{
	char *p = malloc(size);

	if (!p)
		abort();
	memset(p, 'x', size);
	kept = p;
	return kept;
}

/* Some traffic in the same class, so that the victim is not alone. */
static void traffic(size_t size, int n)
{
	for (int i = 0; i < n; i++) {
		char *p = get(size);

		free(p);
	}
}

/* ---- writes beyond an object ---- */

static void overrun(const struct crime *c)
{
	char *p = get(c->size);

	memset(p + c->size + c->offset, 'o', c->bytes);
	free(p);
}

/* The same, and the object is never freed: exit has to find it. */
static void overrun_kept(const struct crime *c)
{
	char *p = get(c->size);

	memset(p + c->size, 'o', c->bytes);
}

static void underrun(const struct crime *c)
{
	char *p = get(c->size);

	memset(p - c->offset, 'u', c->bytes);
	free(p);
}

static void string_overrun(const struct crime *c)
{
	char *text = get(c->size + 1);
	char *p = get(c->size);

	text[c->size] = '\0';
	strcpy(p, text);	/* the classic: no room for the NUL */
	free(p);
	free(text);
}

static void realloc_overrun(const struct crime *c)
{
	char *p = realloc(get(c->size), c->size + 10);

	p[c->size + 10] = 'r';
	free(p);
}

static void calloc_overrun(const struct crime *c)
{
	char *p = calloc(1, c->size);

	kept = p;
	((char *)kept)[c->size] = 1;
	free(p);
}

static void aligned_overrun(const struct crime *c)
{
	char *p = aligned_alloc(64, c->size);

	kept = p;
	((char *)kept)[c->size] = 1;
	free(p);
}

/* ---- frees ---- */

static void double_free(const struct crime *c)
{
	char *p = get(c->size);

	free(p);
	traffic(c->size, (int)c->offset);
	free(p);
}

static void double_free_between(const struct crime *c)
{
	char *p = get(c->size), *q = get(c->size);

	free(p);
	free(q);
	free(p);
}

static void *free_it(void *p)
{
	free(p);
	return NULL;
}

static void double_free_thread(const struct crime *c)
{
	char *p = get(c->size);
	pthread_t thread;

	free(p);
	if (pthread_create(&thread, NULL, free_it, p))
		abort();
	pthread_join(thread, NULL);
}

static void realloc_freed(const struct crime *c)
{
	char *p = get(c->size);

	free(p);
	kept = realloc(p, c->size * 2);
}

static void free_interior(const struct crime *c)
{
	free(get(c->size) + c->offset);
}

extern void _ZdlPvm(void *ptr, size_t size);	/* operator delete */
extern void *_Znwm(size_t size);
extern void free_sized(void *ptr, size_t size);
extern void free_aligned_sized(void *ptr, size_t align, size_t size);

#ifdef CRIME_PLAIN
/* The C library has the C23 functions from version 2.43 on. */
__attribute__((weak)) void free_sized(void *ptr, size_t size)
{
	(void)size;
	free(ptr);
}

__attribute__((weak)) void free_aligned_sized(void *ptr, size_t align,
					      size_t size)
{
	(void)align, (void)size;
	free(ptr);
}
#endif

static void sized_delete(const struct crime *c)
{
	kept = _Znwm(c->size);
	_ZdlPvm(kept, c->size + c->offset);
}

static void free_sized_wrong(const struct crime *c)
{
	free_sized(get(c->size), c->size + c->offset);
}

static void free_aligned_sized_wrong(const struct crime *c)
{
	kept = aligned_alloc(64, c->size);
	free_aligned_sized(kept, 64, c->size + c->offset);
}

static void free_stack(const struct crime *c)
{
	char buf[64];

	(void)c;
	kept = buf;
	free(kept);
}

static void free_static(const struct crime *c)
{
	static char buf[64];

	(void)c;
	kept = buf;
	free(kept);
}

static void free_mapped(const struct crime *c)
{
	kept = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	free((char *)kept + c->offset);
}

/* ---- use after free ---- */

static void write_freed(const struct crime *c)
{
	char *p = get(c->size);

	free(p);
	traffic(c->size, (int)c->bytes);
	p[c->offset] = 'w';
}

static void write_freed_then_traffic(const struct crime *c)
{
	char *p = get(c->size);

	free(p);
	p[c->offset] = 'w';
	traffic(c->size, (int)c->bytes);
}

static void read_freed(const struct crime *c)
{
	char *p = get(c->size);

	free(p);
	traffic(c->size, (int)c->bytes);
	if (((volatile char *)p)[c->offset] == 0x6b)
		fprintf(stderr, "POISON was read\n");
}

static void write_freed_beyond(const struct crime *c)
{
	char *p = get(c->size);

	free(p);
	memset(p + c->offset, 'f', c->bytes);
}

/* ---- typed caches ---- */
#ifndef CRIME_PLAIN

static struct slub_cache *cache_of(const struct crime *c, const char *name)
{
	struct slub_cache *cache = slub_cache_create(name, c->size, 0, 0, NULL);

	if (!cache)
		abort();
	return cache;
}

static char *typed(struct slub_cache *cache)
{
	kept = slub_cache_alloc(cache);
	return kept;
}

static void typed_overrun(const struct crime *c)
{
	struct slub_cache *cache = cache_of(c, "crime");
	char *p = typed(cache);

	memset(p + c->size, 'o', c->bytes);
	slub_cache_free(cache, p);
}

static void typed_underrun(const struct crime *c)
{
	struct slub_cache *cache = cache_of(c, "crime");
	char *p = typed(cache);

	p[-c->offset] = 'u';
	slub_cache_free(cache, p);
}

static void typed_double_free(const struct crime *c)
{
	struct slub_cache *cache = cache_of(c, "crime");
	char *p = typed(cache), *q = typed(cache);

	slub_cache_free(cache, p);
	slub_cache_free(cache, q);
	slub_cache_free(cache, p);
}

static void typed_bulk_double_free(const struct crime *c)
{
	struct slub_cache *cache = cache_of(c, "crime");
	void *objects[4];

	if (slub_cache_alloc_bulk(cache, 0, 3, objects) != 3)
		abort();
	objects[3] = objects[0];
	slub_cache_free_bulk(cache, 4, objects);
}

static void typed_interior(const struct crime *c)
{
	struct slub_cache *cache = cache_of(c, "crime");

	slub_cache_free(cache, typed(cache) + c->offset);
}

static void typed_wrong_cache(const struct crime *c)
{
	struct slub_cache *cache = cache_of(c, "crime");
	struct slub_cache *other = cache_of(c, "other");

	slub_cache_free(other, typed(cache));
}

static void typed_malloced(const struct crime *c)
{
	struct slub_cache *cache = cache_of(c, "crime");

	slub_cache_free(cache, get(c->size));
}

static void typed_foreign(const struct crime *c)
{
	struct slub_cache *cache = cache_of(c, "crime");
	char buf[64];

	kept = buf;
	slub_cache_free(cache, kept);
}

static void typed_write_freed(const struct crime *c)
{
	struct slub_cache *cache = cache_of(c, "crime");
	char *p = typed(cache);

	slub_cache_free(cache, p);
	p[c->offset] = 'w';
	typed(cache);
}

static void typed_leak(const struct crime *c)
{
	struct slub_cache *cache = cache_of(c, "crime");

	typed(cache);
	if (slub_cache_destroy(cache) == 0)
		abort();
}

/* The link of a free object lies behind its right zone. */
static void typed_freelist_smash(const struct crime *c)
{
	struct slub_cache *cache = cache_of(c, "crime");
	char *p = typed(cache), *q = typed(cache);

	slub_cache_free(cache, p);
	slub_cache_free(cache, q);
	memset(q + c->size + 8, 0x41, c->bytes);
	typed(cache);
	typed(cache);
}

static void construct(void *object)
{
	memset(object, 'c', 64);
}

static void typed_constructed(const struct crime *c)
{
	struct slub_cache *cache = slub_cache_create("made", c->size, 0, 0,
						     construct);
	char *p = cache ? typed(cache) : NULL;

	if (!p || p[0] != 'c')
		abort();
	p[c->size] = 1;
	slub_cache_free(cache, p);
}

#endif
#include "crimes.h"

static void list(void)
{
	for (size_t i = 0; i < sizeof(crimes) / sizeof(crimes[0]); i++)
		printf("%s\t%s\n", crimes[i].name, crimes[i].report);
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "--list") == 0) {
		list();
		return 0;
	}
	for (size_t i = 0; argc == 2 &&
	     i < sizeof(crimes) / sizeof(crimes[0]); i++) {
		if (strcmp(argv[1], crimes[i].name) == 0) {
			crimes[i].commit(&crimes[i]);
			return 0;
		}
	}
	fprintf(stderr, "usage: crime --list | crime NAME\n");
	return 2;
}
