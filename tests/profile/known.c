/* SPDX-License-Identifier: MIT */
/*
 * A program that allocates known amounts in functions with known names, prints
 * what they were, and leaves a heap profile.
 *
 *   known call FILE MEAN BYTES [THREADS]   starts the profile, writes it
 *   known write FILE 0 BYTES [THREADS]     writes one that is on already
 *   known exit - 0 BYTES [THREADS]         leaves that to the exit
 *   known fork - 0 BYTES                   as exit, with a child that does the same
 *   known calls FILE                       calls in an order that makes no sense
 *
 * It prints a line for each function, and thread:
 *   NAME OBJECTS BYTES LIVE_OBJECTS LIVE_BYTES
 * Each function allocates about BYTES.
 */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <slub/cache.h>
#include <slub/profile.h>

struct site {
	const char *name;
	size_t objects, bytes, live_objects, live_bytes;
};

enum { SMALL, MIXED, CHURN, PAGED, ALIGNED, LARGE, ZEROED, GROWN, TYPED, NR_SITES };
static __thread struct site sites[NR_SITES] = {
	{ "site_small", 0, 0, 0, 0 }, { "site_mixed", 0, 0, 0, 0 },
	{ "site_churn", 0, 0, 0, 0 }, { "site_paged", 0, 0, 0, 0 },
	{ "site_aligned", 0, 0, 0, 0 }, { "site_large", 0, 0, 0, 0 },
	{ "site_zeroed", 0, 0, 0, 0 }, { "site_grown", 0, 0, 0, 0 },
	{ "site_typed", 0, 0, 0, 0 },
};

struct thing {
	char bytes[72];
};

/* Sets what a free object must have. */
static void construct(void *object)
{
	memset(object, 7, sizeof(struct thing));
}

SLUB_CACHE_DEFINE_STATIC(things, struct thing, 0, NULL);
SLUB_CACHE_DEFINE_STATIC(made_things, struct thing, 0, construct);

#define SITE __attribute__((noinline))

static void count(int n, size_t bytes, size_t live)
{
	sites[n].objects++;
	sites[n].bytes += bytes;
	sites[n].live_objects += live > 0;
	sites[n].live_bytes += live;
}

static void *kept(void *ptr)
{
	if (!ptr)
		abort();
	/* In use until the end: the profile is written while they live. */
	*(volatile char *)ptr = 1;
	return ptr;
}

SITE void site_small(size_t nr)
{
	for (size_t i = 0; i < nr; i++) {
		kept(malloc(24));
		count(SMALL, 24, 24);
	}
}

SITE void site_mixed(size_t nr)
{
	uint32_t x = 1;

	for (size_t i = 0; i < nr; i++) {
		size_t bytes;
		void *ptr;

		x = x * 1664525 + 1013904223;
		bytes = 1 + (x >> 8) % 3000;
		ptr = kept(malloc(bytes));
		count(MIXED, bytes, i & 1 ? bytes : 0);
		if (!(i & 1))
			free(ptr);
	}
}

SITE void site_churn(size_t nr)
{
	void *held[64] = { NULL };

	for (size_t i = 0; i < nr; i++) {
		free(held[i % 64]);
		held[i % 64] = kept(malloc(200));
		count(CHURN, 200, 0);
	}
	for (size_t i = 0; i < 64; i++)
		free(held[i]);
}

SITE void site_paged(size_t nr)
{
	for (size_t i = 0; i < nr; i++) {
		void *ptr = kept(malloc(9000));

		count(PAGED, 9000, i % 4 ? 0 : 9000);
		if (i % 4)
			free(ptr);
	}
}

SITE void site_aligned(size_t nr)
{
	for (size_t i = 0; i < nr; i++) {
		kept(aligned_alloc(256, 768));
		count(ALIGNED, 768, 768);
	}
}

SITE void site_large(size_t nr)
{
	for (size_t i = 0; i < nr; i++) {
		void *ptr = kept(malloc(100000 + i));

		count(LARGE, 100000 + i, i & 1 ? 0 : 100000 + i);
		if (i & 1)
			free(ptr);
	}
}

SITE void site_zeroed(size_t nr)
{
	for (size_t i = 0; i < nr; i++) {
		char *ptr = kept(calloc(5, 20));

		if (ptr[99])
			abort();
		count(ZEROED, 100, 0);
		free(ptr);
	}
}

SITE void site_grown(size_t nr)
{
	for (size_t i = 0; i < nr; i++) {
		void *ptr = kept(malloc(100));

		count(GROWN, 100, 0);
		ptr = kept(realloc(ptr, 1000));
		count(GROWN, 1000, 1000);
	}
}

/* Half of them by the inline functions, the rest in bulk; a quarter stays. */
SITE void site_typed(size_t nr)
{
	void *bulk[16];

	for (size_t i = 0; i < nr; i += 32) {
		struct slub_cache *cache = i & 32 ? &things : &made_things;

		for (int n = 0; n < 16; n++) {
			struct thing *thing = kept(slub_cache_alloc(cache));

			if (cache == &made_things && thing->bytes[71] != 7)
				abort();
			count(TYPED, 72, n & 1 ? 72 : 0);
			thing->bytes[0] = 7;
			if (!(n & 1))
				slub_cache_free(cache, thing);
		}
		if (slub_cache_alloc_bulk(cache, 0, 16, bulk) != 16)
			abort();
		for (int n = 0; n < 16; n++)
			count(TYPED, 72, 0);
		slub_cache_free_bulk(cache, 16, bulk);
	}
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static size_t bytes_all;

static void print_sites(void)
{
	pthread_mutex_lock(&lock);
	for (int n = 0; n < NR_SITES; n++)
		printf("%s %zu %zu %zu %zu\n", sites[n].name, sites[n].objects,
		       sites[n].bytes, sites[n].live_objects,
		       sites[n].live_bytes);
	fflush(stdout);
	pthread_mutex_unlock(&lock);
}

SITE void *allocate(void *arg)
{
	size_t bytes = bytes_all / (size_t)arg;

	site_small(bytes / 24);
	site_mixed(bytes / 1500);
	site_churn(bytes / 200);
	site_paged(bytes / 9000);
	site_aligned(bytes / 768);
	site_large(bytes / 100000 + 1);
	site_zeroed(bytes / 100);
	site_grown(bytes / 1100);
	site_typed(bytes / 72);
	print_sites();
	return NULL;
}

/* Returns the number of the first call that did not answer as it must. */
static int wrong_calls(const char *path)
{
	if (slub_profile_write(path) != -EINVAL)
		return 1;
	if (slub_profile_stop())
		return 2;
	if (slub_profile_start(SLUB_PROFILE_BYTES_MAX + 1) != -EINVAL)
		return 3;
	if (slub_profile_start(1) || slub_profile_start(1000))
		return 4;
	if (slub_profile_write(NULL) != -EINVAL)
		return 5;
	if (slub_profile_write("/no/such/folder/file") != -ENOENT)
		return 6;
	if (slub_profile_stop() || slub_profile_stop())
		return 7;
	return slub_profile_write(path) ? 8 : 0;
}

int main(int argc, char **argv)
{
	size_t nr = argc > 5 ? strtoul(argv[5], NULL, 10) : 1;
	pthread_t threads[64];

	if (argc == 3 && strcmp(argv[1], "calls") == 0)
		return wrong_calls(argv[2]);
	if (argc < 5 || !nr || nr > 64)
		return 100;
	bytes_all = strtoul(argv[4], NULL, 10);
	if (strcmp(argv[1], "call") == 0 &&
	    slub_profile_start(strtoul(argv[3], NULL, 10)))
		return 101;
	for (size_t i = 1; i < nr; i++) {
		if (pthread_create(&threads[i], NULL, allocate, (void *)nr))
			return 102;
	}
	allocate((void *)nr);
	for (size_t i = 1; i < nr; i++)
		pthread_join(threads[i], NULL);
	if (strcmp(argv[1], "call") == 0 && slub_profile_stop())
		return 103;
	if (strcmp(argv[1], "fork") == 0 && fork() == 0) {
		allocate((void *)1);
		exit(0);
	}
	if (strcmp(argv[1], "call") == 0 || strcmp(argv[1], "write") == 0)
		return slub_profile_write(argv[2]) ? 104 : 0;
	wait(NULL);
	return 0;
}
