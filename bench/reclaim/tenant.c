/* SPDX-License-Identifier: MIT */
/*
 * What a tenant at its maximum does to its neighbour: the time of the neighbour's requests (32
 * blocks allocated and freed), 99th percentile, while the tenant, on another thread, allocates and
 * frees within its limit, and while it is refused again and again.  In turns.
 *
 * Usage: reclaim_tenant [rounds]
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <slub/group.h>

#define REQUEST 32
#define SLICE_NS 150000000ull
#define SAMPLES_MAX 400000
#define ROUNDS_MAX 31
#define HELD 4096
#define LIMIT ((size_t)1 << 20)

enum mode { IDLE, WITHIN, AT_MAX, END };

static int mode;
static uint64_t refused, granted;
static struct slub_group *tenant, *neighbour;
static uint32_t samples[SAMPLES_MAX];

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Within its limit it frees what it allocates; at its maximum it keeps all it can get. */
static void tenant_turn(void **held, int *nr, bool keeps)
{
	void *block = malloc(1024);

	if (!block)
		refused++;
	else if (keeps && *nr < HELD)
		held[(*nr)++] = block;
	else
		free(block);
	granted += block != NULL;
	if (!keeps) {
		while (*nr)
			free(held[--*nr]);
	} else if (!block && *nr && refused % 4 == 0) {
		free(held[--*nr]);
	}
}

static void *tenant_thread(void *unused)
{
	static void *held[HELD];
	int nr = 0, now;

	(void)unused;
	slub_group_enter(tenant);
	while ((now = __atomic_load_n(&mode, __ATOMIC_RELAXED)) != END) {
		if (now == IDLE)
			continue;
		tenant_turn(held, &nr, now == AT_MAX);
	}
	while (nr)
		free(held[--nr]);
	slub_group_leave(tenant);
	return NULL;
}

static int compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static int compare_double(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double percentile_99(void)
{
	uint64_t end = now_ns() + SLICE_NS, before, after = 0;
	void *blocks[REQUEST];
	size_t nr = 0;

	while (after < end && nr < SAMPLES_MAX) {
		before = now_ns();
		for (int i = 0; i < REQUEST; i++)
			blocks[i] = malloc(64 + (size_t)i * 16);
		for (int i = 0; i < REQUEST; i++)
			free(blocks[i]);
		after = now_ns();
		samples[nr++] = (uint32_t)(after - before);
	}
	qsort(samples, nr, sizeof(samples[0]), compare);
	return samples[nr * 99 / 100];
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 15;
	double within[ROUNDS_MAX], at_max[ROUNDS_MAX], ratio[ROUNDS_MAX];
	pthread_t thread;

	if (rounds < 1 || rounds > ROUNDS_MAX)
		rounds = 15;
	tenant = slub_group_create("tenant", NULL);
	neighbour = slub_group_create("neighbour", NULL);
	if (!tenant || !neighbour || slub_group_limit_set(tenant, SLUB_GROUP_MAX, LIMIT) ||
	    pthread_create(&thread, NULL, tenant_thread, NULL))
		return 1;
	slub_group_enter(neighbour);
	for (int i = -1; i < rounds; i++) {
		double first, second;

		__atomic_store_n(&mode, WITHIN, __ATOMIC_RELAXED);
		first = percentile_99();
		__atomic_store_n(&mode, AT_MAX, __ATOMIC_RELAXED);
		second = percentile_99();
		if (i < 0)
			continue;
		within[i] = first;
		at_max[i] = second;
		ratio[i] = second / first;
	}
	__atomic_store_n(&mode, END, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	slub_group_leave(neighbour);
	qsort(within, (size_t)rounds, sizeof(*within), compare_double);
	qsort(at_max, (size_t)rounds, sizeof(*at_max), compare_double);
	qsort(ratio, (size_t)rounds, sizeof(*ratio), compare_double);
	printf("neighbour's p99, tenant at its maximum / within it: %.2f (%.2f to %.2f)   "
	       "%.0f / %.0f ns; %llu refused, %llu granted\n", ratio[rounds / 2], ratio[rounds / 4],
	       ratio[rounds - 1 - rounds / 4], at_max[rounds / 2], within[rounds / 2],
	       (unsigned long long)refused, (unsigned long long)granted);
	return 0;
}
