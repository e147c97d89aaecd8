/* SPDX-License-Identifier: MIT */
/*
 * Threads that go from group to group, free each other's blocks, read accounts, and make and delete
 * groups that others are in; in the end each account is exact.  For sanitizers.
 *
 * Usage: groups [requests of each thread]
 */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <slub/group.h>

#define THREADS 4
#define GROUPS 40
#define BOXES 64
#define BLOCKS 8

/* The sanitizer's runtime has the plain names; see prefixed.h. */
#ifdef malloc
#define slub_group_create fire_slub_group_create
#define slub_group_destroy fire_slub_group_destroy
#define slub_group_enter fire_slub_group_enter
#define slub_group_leave fire_slub_group_leave
#define slub_group_stats(...) fire_slub_group_stats(__VA_ARGS__)
#define slub_group_limit_set fire_slub_group_limit_set
struct slub_group *fire_slub_group_create(const char *name, struct slub_group *parent);
int fire_slub_group_destroy(struct slub_group *group);
int fire_slub_group_enter(struct slub_group *group);
int fire_slub_group_leave(struct slub_group *group);
int fire_slub_group_stats(struct slub_group *group, struct slub_group_stats *stats);
int fire_slub_group_limit_set(struct slub_group *group, enum slub_group_limit limit, size_t bytes);
#endif

struct box {
	pthread_mutex_t mutex;
	void *blocks[BLOCKS];
};

static struct slub_group *top, *groups[GROUPS];
static struct box boxes[BOXES];
static long requests = 3000;
static int failed;

static void fail(const char *what, long number)
{
	__atomic_store_n(&failed, 1, __ATOMIC_RELAXED);
	fprintf(stderr, "groups: %s (%ld)\n", what, number);
}

static uint32_t next(uint32_t *x)
{
	*x = *x * 1664525u + 1013904223u;
	return *x >> 8;
}

static size_t usage(struct slub_group *group)
{
	struct slub_group_stats stats;

	if (slub_group_stats(group, &stats))
		fail("no account", 0);
	return stats.usage;
}

/* What lies in a box is freed, and becomes this request's. */
static void request(uint32_t *x)
{
	struct box *box = &boxes[next(x) % BOXES];
	struct slub_group *group = groups[next(x) % GROUPS];

	pthread_mutex_lock(&box->mutex);
	if (slub_group_enter(group))
		fail("cannot enter", 0);
	for (int i = 0; i < BLOCKS; i++) {
		free(box->blocks[i]);
		box->blocks[i] = malloc(next(x) % 16 ? 64 : next(x) % 60000);
	}
	if (slub_group_leave(group))
		fail("cannot leave", 0);
	pthread_mutex_unlock(&box->mutex);
}

/* A group that ends while the thread is inside, and another one's block is in it. */
static void short_life(uint32_t *x)
{
	struct slub_group *group = slub_group_create("short", groups[next(x) % GROUPS]);
	void *block;

	if (!group) {
		fail("no group", 0);
		return;
	}
	slub_group_enter(group);
	block = malloc(100);
	if (slub_group_destroy(group))
		fail("cannot delete", 0);
	if (slub_group_enter(group) != -EINVAL)
		fail("entered a deleted one", 0);
	free(block);
	block = malloc(200);
	slub_group_leave(group);
	free(block);
}

static void *body(void *arg)
{
	uint32_t x = (uint32_t)(uintptr_t)arg;

	for (long i = 0; i < requests; i++) {
		request(&x);
		if (i % 64 == 0)
			usage(next(&x) % 2 ? top : groups[next(&x) % GROUPS]);
		if (i % 32 == 0)
			short_life(&x);
		/* So the one above is tight from time to time, and gets its stocks back. */
		if (i % 256 == 0)
			slub_group_limit_set(top, SLUB_GROUP_MAX,
					     next(&x) % 2 ? usage(top) + 2000000 :
							    SLUB_GROUP_NO_LIMIT);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];
	size_t sum = 0;

	if (argc > 1)
		requests = atol(argv[1]);
	top = slub_group_create("top", NULL);
	for (int i = 0; i < GROUPS; i++)
		groups[i] = slub_group_create("group", top);
	for (int i = 0; i < BOXES; i++)
		pthread_mutex_init(&boxes[i].mutex, NULL);
	for (long i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, body, (void *)(i + 1));
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < GROUPS; i++)
		sum += usage(groups[i]);
	if (usage(top) != sum)
		fail("the sum is not what the group above has", (long)sum);
	for (int i = 0; i < BOXES; i++) {
		for (int k = 0; k < BLOCKS; k++)
			free(boxes[i].blocks[k]);
	}
	if (usage(top))
		fail("left over", (long)usage(top));
	for (int i = 0; i < GROUPS; i++) {
		if (slub_group_destroy(groups[i]))
			fail("cannot delete", i);
	}
	if (slub_group_destroy(top))
		fail("cannot delete the top", 0);
	return failed;
}
