/* SPDX-License-Identifier: MIT */
/*
 * Memory groups of a known population, and, with SLUB_MERGE=1, a cache with three names.
 *
 *   root                    what follows, together
 *     tenant-7    40 MiB    3,000 blocks of 112 bytes, one thread; two requests refused
 *       inner               500 blocks of 1,024 bytes, 100 objects of 200 bytes of an accounted
 *                           cache, and a large block of 1 MiB
 *     idle                  nothing; its child has died and left it 10 blocks of 112 bytes
 *
 * and as many blocks again that are in no group.  Then it waits for the end of its input, and
 * allocates and frees a large block for each byte; with "busy" two threads allocate and free in
 * groups that come and go until then.
 *
 * usage: groups wait|busy
 */
#include <slub/slub.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NR_OBJECTS 100

static volatile int stop;
static struct slub_group *tenant, *inner, *idle;

static void fill(struct slub_group *group, size_t bytes, int nr)
{
	void *volatile block;

	slub_group_enter(group);
	for (int i = 0; i < nr; i++)
		block = malloc(bytes);
	(void)block;
	slub_group_leave(group);
}

/* So many at once that some wait in a CPU's list, free. */
static void fill_and_free(struct slub_group *group)
{
	void *blocks[64];

	slub_group_enter(group);
	for (int i = 0; i < 64; i++)
		blocks[i] = malloc(300);
	for (int i = 0; i < 64; i++)
		free(blocks[i]);
	slub_group_leave(group);
}

static void populate(void)
{
	struct slub_cache *cache, *other;
	struct slub_group *dead;
	void *volatile block;

	cache = slub_cache_create("objects", 200, 0, SLUB_CACHE_ACCOUNT | SLUB_CACHE_NO_MERGE,
			NULL);
	tenant = slub_group_create("tenant-7", NULL);
	inner = slub_group_create("inner", tenant);
	idle = slub_group_create("idle", NULL);
	dead = slub_group_create("dead", idle);
	slub_group_limit_set(tenant, SLUB_GROUP_MAX, 40 << 20);
	slub_group_limit_set(tenant, SLUB_GROUP_LOW, 1 << 20);
	fill(tenant, 112, 3000);
	fill(inner, 1024, 500);
	fill(inner, 1 << 20, 1);
	fill(dead, 112, 10);
	fill_and_free(tenant);
	slub_group_destroy(dead);
	slub_group_enter(inner);
	for (int i = 0; i < NR_OBJECTS; i++)
		block = slub_cache_alloc(cache);
	slub_group_leave(inner);
	slub_group_enter(tenant);
	for (int i = 0; i < 2; i++)
		block = malloc(41 << 20);
	slub_group_leave(tenant);
	for (int i = 0; i < 3000; i++)
		block = malloc(112);
	/* With SLUB_MERGE they share one. */
	other = slub_cache_create("first", 120, 0, 0, NULL);
	slub_cache_create("second", 120, 0, 0, NULL);
	slub_cache_create("third", 120, 0, 0, NULL);
	block = slub_cache_alloc(other);
	(void)block;
}

static void *work(void *unused)
{
	while (!stop) {
		struct slub_group *group = slub_group_create("fleeting", tenant);
		void *blocks[100];

		slub_group_enter(group);
		for (int i = 0; i < 100; i++)
			blocks[i] = malloc(16u << i % 12);
		slub_group_leave(group);
		slub_group_destroy(group);
		for (int i = 0; i < 100; i++)
			free(blocks[i]);
	}
	return unused;
}

int main(int argc, char **argv)
{
	int busy = argc == 2 && !strcmp(argv[1], "busy");
	pthread_t threads[2];
	char byte;

	populate();
	for (int i = 0; busy && i < 2; i++)
		pthread_create(&threads[i], NULL, work, NULL);
	/* One thread inside. */
	slub_group_enter(tenant);
	if (write(1, "ready\n", 6) != 6)
		return 1;
	while (read(0, &byte, 1) > 0) {
		slub_group_leave(tenant);
		free(malloc(2 << 20));
		slub_group_enter(tenant);
	}
	stop = 1;
	for (int i = 0; busy && i < 2; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
