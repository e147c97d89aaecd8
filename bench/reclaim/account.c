/* SPDX-License-Identifier: MIT */
/*
 * What it costs to be in a group: malloc and free, and a typed cache with SLUB_CACHE_ACCOUNT, in
 * a group
 * against the same outside and against a cache without it; as a pair, and 64 at a time.  Then the
 * same spread over many groups: entering one, allocating, leaving, and freeing from outside.
 *
 * Usage: account [rounds]
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <slub/cache.h>
#include <slub/group.h>

#define TIMES 1000000
#define BATCH 64
#define MANY 10000
#define ROUNDS_MAX 31

struct thing {
	char bytes[64];
};

SLUB_CACHE_DEFINE_STATIC(plain_things, struct thing, 0, NULL);
SLUB_CACHE_DEFINE_STATIC(charged_things, struct thing, SLUB_CACHE_ACCOUNT, NULL);

static struct slub_group *groups[MANY];
static size_t size;
static size_t batch = 1;
static void *held[BATCH];

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

#define MEASURE(alloc, release)						\
	do {								\
		for (int i = 0; i < TIMES; i += (int)batch) {		\
			for (size_t k = 0; k < batch; k++) {		\
				void *o = (alloc);			\
									\
				__asm__ __volatile__("" : "+r"(o)	\
						     : : "memory");	\
				held[k] = o;				\
			}						\
			for (size_t k = 0; k < batch; k++) {		\
				void *o = held[k];			\
									\
				release;				\
			}						\
		}							\
	} while (0)

static void pairs_malloc(void)
{
	MEASURE(malloc(size), free(o));
}

static void pairs_plain(void)
{
	MEASURE(slub_cache_alloc(&plain_things), slub_cache_free(&plain_things, o));
}

static void pairs_charged(void)
{
	MEASURE(slub_cache_alloc(&charged_things), slub_cache_free(&charged_things, o));
}

/* ---- over many groups ---- */

static size_t nr_groups;

static struct slub_group *any_group(void)
{
	static uint32_t x = 1;

	x = x * 1664525u + 1013904223u;
	return groups[(x >> 8) % nr_groups];
}

/* A request: 16 blocks for one tenant, freed by whoever comes last. */
#define REQUEST 16
#define BACKLOG 1024

static void *backlog[BACKLOG][REQUEST];

static void requests(bool grouped)
{
	for (int i = 0; i < TIMES / REQUEST; i++) {
		void **blocks = backlog[i % BACKLOG];
		struct slub_group *group = any_group();	/* who asks is found out either way */

		__asm__ __volatile__("" : "+r"(group));
		for (int k = 0; k < REQUEST; k++)
			free(blocks[k]);
		if (grouped)
			slub_group_enter(group);
		for (int k = 0; k < REQUEST; k++)
			blocks[k] = malloc(size);
		if (grouped)
			slub_group_leave(group);
	}
}

static void requests_plain(void)
{
	requests(false);
}

static void requests_grouped(void)
{
	requests(true);
}

/* A request that frees what it allocates: so many blocks for one tenant, 8 at a time. */
#define LIVE 8

static int nr_within;

static void within(bool grouped)
{
	for (int i = 0; i < TIMES / nr_within; i++) {
		struct slub_group *group = any_group();
		void *blocks[LIVE] = { 0 };

		__asm__ __volatile__("" : "+r"(group));
		if (grouped)
			slub_group_enter(group);
		for (int k = 0; k < nr_within; k++) {
			free(blocks[k % LIVE]);
			blocks[k % LIVE] = malloc(size);
			__asm__ __volatile__("" : : "r"(blocks) : "memory");
		}
		for (int k = 0; k < LIVE; k++)
			free(blocks[k]);
		if (grouped)
			slub_group_leave(group);
	}
}

static void within_plain(void)
{
	within(false);
}

static void within_grouped(void)
{
	within(true);
}

/* ---- ratios ---- */

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double time_of(void (*body)(void), struct slub_group *group)
{
	double start;

	if (group)
		slub_group_enter(group);
	start = now_ns();
	body();
	start = now_ns() - start;
	if (group)
		slub_group_leave(group);
	return start / TIMES;
}

static void report(const char *what, int rounds, void (*first)(void), struct slub_group *first_in,
		   void (*second)(void), struct slub_group *second_in)
{
	double ratios[ROUNDS_MAX], a[ROUNDS_MAX], b[ROUNDS_MAX];

	time_of(first, first_in);
	time_of(second, second_in);
	for (int i = 0; i < rounds; i++) {
		a[i] = time_of(first, first_in);
		b[i] = time_of(second, second_in);
		ratios[i] = a[i] / b[i];
	}
	qsort(ratios, (size_t)rounds, sizeof(*ratios), compare);
	qsort(a, (size_t)rounds, sizeof(*a), compare);
	qsort(b, (size_t)rounds, sizeof(*b), compare);
	printf("%-52s %.2f (%.2f to %.2f)   %.1f / %.1f ns\n", what, ratios[rounds / 2],
	       ratios[rounds / 4], ratios[rounds - 1 - rounds / 4], a[rounds / 2], b[rounds / 2]);
}

int main(int argc, char **argv)
{
	static const size_t sizes[] = { 16, 64, 512, 8192, 100000 };
	int rounds = argc > 1 ? atoi(argv[1]) : 11;
	char text[80];

	if (rounds < 1 || rounds > ROUNDS_MAX)
		rounds = 11;
	for (int i = 0; i < MANY; i++)
		groups[i] = slub_group_create("tenant", NULL);
	if (!groups[MANY - 1])
		return 1;
	printf("ratio: median (quartiles)\n");
	for (batch = 1; batch <= BATCH; batch *= BATCH) {
		for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
			size = sizes[s];
			snprintf(text, sizeof(text), "malloc(%zu), %zu at a time, in a group / not",
				 size, batch);
			report(text, rounds, pairs_malloc, groups[0], pairs_malloc, NULL);
		}
		snprintf(text, sizeof(text), "cache, %zu at a time, SLUB_CACHE_ACCOUNT / without",
				batch);
		report(text, rounds, pairs_charged, groups[0], pairs_plain, NULL);
		snprintf(text, sizeof(text), "  the same in no group");
		report(text, rounds, pairs_charged, NULL, pairs_plain, NULL);
	}
	size = 64;
	for (nr_groups = 1; nr_groups <= MANY; nr_groups *= MANY) {
		snprintf(text, sizeof(text), "requests of 16 blocks, %zu group%s / none", nr_groups,
			 nr_groups > 1 ? "s" : "");
		report(text, rounds, requests_grouped, NULL, requests_plain, NULL);
		for (nr_within = 64; nr_within <= 1024; nr_within *= 4) {
			snprintf(text, sizeof(text),
				 "  of %d blocks that it frees, %zu group%s / none", nr_within,
				 nr_groups, nr_groups > 1 ? "s" : "");
			report(text, rounds, within_grouped, NULL, within_plain, NULL);
		}
	}
	return 0;
}
