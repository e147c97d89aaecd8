/* SPDX-License-Identifier: MIT */
/*
 * slub_cache_alloc+slub_cache_free from the header, inlined, beside malloc+free of the same size
 * in `pair`. Built only where include/slub/cache.h is: typed caches come later.
 *
 * "floor": as many loads and stores as such a pair has, on lines that are in the first-level cache,
 * none of which waits for another.
 */
#include "bench.h"

#include <slub/cache.h>

enum { PATTERN = 256, PAIRS = 400000 };

static double reuse(struct slub_cache *cache, long pairs)
{
	double began = bench_seconds();

	for (long i = 0; i < pairs; i++) {
		void *object = slub_cache_alloc(cache);

		bench_escape(object);
		slub_cache_free(cache, object);
	}
	return (bench_seconds() - began) * 1e9 / (double)pairs;
}

static double npattern(struct slub_cache *cache, long pairs)
{
	static void *object[PATTERN];
	long rounds = pairs / PATTERN;
	double began = bench_seconds();

	for (long round = 0; round < rounds; round++) {
		for (int i = 0; i < PATTERN; i++)
			object[i] = slub_cache_alloc(cache);
		bench_escape(object);
		for (int i = 0; i < PATTERN; i++)
			slub_cache_free(cache, object[i]);
	}
	return (bench_seconds() - began) * 1e9 / (double)(rounds * PATTERN);
}

/* What gcc 12 makes of the loop of reuse(): 24 loads and a prefetch, 7 stores. */
enum { LOADS = 25, STORES = 7 };

static double floor_loop(long pairs)
{
	static volatile uint64_t word[LOADS];
	double began = bench_seconds();

	for (long i = 0; i < pairs; i++) {
#pragma GCC unroll 32
		for (int n = 0; n < LOADS; n++)
			(void)word[n];
#pragma GCC unroll 32
		for (int n = 0; n < STORES; n++)
			word[n] = 0;
	}
	return (bench_seconds() - began) * 1e9 / (double)pairs;
}

static void measure_floor(int repeats)
{
	struct bench_samples samples = { 0 };

	for (int i = 0; i < repeats; i++)
		bench_sample(&samples, floor_loop(PAIRS));
	bench_row_samples("ns", &samples, "floor");
}

static void measure(const char *name, double (*pattern)(struct slub_cache *, long), size_t size,
		    int repeats)
{
	struct slub_cache *cache = slub_cache_create("bench", size, 0, 0, NULL);
	struct bench_samples samples = { 0 };

	if (!cache)
		bench_fatal("no cache of %zu bytes", size);
	pattern(cache, PAIRS / 10);
	for (int i = 0; i < repeats; i++)
		bench_sample(&samples, pattern(cache, PAIRS));
	bench_row_samples("ns", &samples, "%s/%zu", name, size);
	slub_cache_destroy(cache);
}

int main(int argc, char **argv)
{
	static const size_t sizes[] = { 8, 16, 32, 64, 128, 256, 512, 1024 };
	int repeats;

	bench_begin("cache_pair", argc, argv);
	repeats = (int)bench_number("repeats", 15);
	bench_options_done_settle();
	measure_floor(repeats);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		measure("reuse", reuse, sizes[i], repeats);
		measure("npattern", npattern, sizes[i], repeats);
	}
	return bench_end();
}
