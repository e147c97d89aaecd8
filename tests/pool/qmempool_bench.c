/* SPDX-License-Identifier: MIT */
/*
 * qmempool's benchmark: alloc and free in turn, and the N-pattern of 256, for the
 * stages that a queued pool is made of.  One line each; nanoseconds per element,
 * the median of interleaved rounds, and how much faster than a cache without
 * sheaves.
 *
 *   qmempool_bench [ROUNDS]
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <slub/percpu.h>
#include <slub/qmempool.h>

#define N 256
#define REPEATS 21

static struct slub_cache *cache_default, *cache_32, *cache_2, *cache_pool;
static struct slub_qmempool *pool;
static void *elements[N];

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

#define DEFINE_STAGE(name, alloc, release)				\
static double name##_pattern(long rounds)				\
{									\
	double start = now_ns();					\
									\
	for (long r = 0; r < rounds; r++) {				\
		for (int i = 0; i < N; i++)				\
			elements[i] = alloc;				\
		for (int i = 0; i < N; i++)				\
			release;					\
	}								\
	return (now_ns() - start) / (double)rounds / N;			\
}									\
static double name##_reuse(long rounds)					\
{									\
	double start = now_ns();					\
	const int i = 0;						\
									\
	for (long r = 0; r < rounds * N; r++) {				\
		elements[i] = alloc;					\
		__asm__ __volatile__("" ::: "memory");			\
		release;						\
	}								\
	return (now_ns() - start) / (double)rounds / N;			\
}

DEFINE_STAGE(with_default, slub_cache_alloc(cache_default),
	     slub_cache_free(cache_default, elements[i]))
DEFINE_STAGE(with_32, slub_cache_alloc(cache_32), slub_cache_free(cache_32, elements[i]))
DEFINE_STAGE(with_2, slub_cache_alloc(cache_2), slub_cache_free(cache_2, elements[i]))
DEFINE_STAGE(with_pool, slub_qmempool_alloc(pool, 0), slub_qmempool_free(pool, elements[i]))

static const struct {
	const char *name;
	double (*pattern)(long rounds);
	double (*reuse)(long rounds);
} stages[] = {
	{ "cache without sheaves (2)", with_2_pattern, with_2_reuse },
	{ "cache, sheaf length 32", with_32_pattern, with_32_reuse },
	{ "cache, its own sheaf length", with_default_pattern, with_default_reuse },
	{ "qmempool 32, 256", with_pool_pattern, with_pool_reuse },
};

#define STAGES (sizeof(stages) / sizeof(stages[0]))

static struct slub_cache *cache(const char *name, unsigned int sheaf_length)
{
	struct slub_cache_args args = {
		.name = name, .size = 256, .flags = SLUB_CACHE_HWCACHE_ALIGN | SLUB_CACHE_NO_MERGE,
		.sheaf_length = sheaf_length,
	};
	struct slub_cache *made = slub_cache_create_args(&args);

	if (!made) {
		perror("slub_cache_create");
		exit(1);
	}
	return made;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *values)
{
	qsort(values, REPEATS, sizeof(*values), compare);
	return values[REPEATS / 2];
}

int main(int argc, char **argv)
{
	static double pattern[STAGES][REPEATS], reuse[STAGES][REPEATS];
	long rounds = argc > 1 ? atol(argv[1]) : 4000;
	double base;

	if (rounds < 1) {
		fprintf(stderr, "usage: qmempool_bench [ROUNDS, 1 or more]\n");
		return 2;
	}
	cache_2 = cache("sheaf-2", 2);
	cache_32 = cache("sheaf-32", 32);
	cache_default = cache("sheaf-default", 0);
	cache_pool = cache("sheaf-pool", 0);
	pool = slub_qmempool_create(32, 256, 16, cache_pool, 0);
	if (!pool) {
		perror("slub_qmempool_create");
		return 1;
	}
	for (int r = 0; r < REPEATS; r++) {
		for (size_t s = 0; s < STAGES; s++) {
			pattern[s][r] = stages[s].pattern(rounds);
			reuse[s][r] = stages[s].reuse(rounds);
		}
	}
	base = median(pattern[0]);
	printf("%-28s %12s %9s %14s\n", "", "N-pattern ns", "times", "in turn ns");
	for (size_t s = 0; s < STAGES; s++) {
		double ns = s ? median(pattern[s]) : base;

		printf("%-28s %12.2f %9.2f %14.2f\n", stages[s].name, ns, base / ns,
		       median(reuse[s]));
	}
	return 0;
}
