/* SPDX-License-Identifier: MIT */
/*
 * slub_cache_alloc+slub_cache_free from the header, inlined, beside malloc+free of the same size
 * in `pair`. Built only where include/slub/cache.h is: typed caches come later.
 */
#include "bench.h"

#include <slub/cache.h>

enum { PATTERN = 256 };

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

static void measure(const char *name, double (*pattern)(struct slub_cache *, long), size_t size,
		    int repeats)
{
	struct slub_cache *cache = slub_cache_create("bench", size, 0, 0, NULL);
	struct bench_samples samples = { 0 };
	const long pairs = 400000;

	if (!cache)
		bench_fatal("no cache of %zu bytes", size);
	pattern(cache, pairs / 10);
	for (int i = 0; i < repeats; i++)
		bench_sample(&samples, pattern(cache, pairs));
	bench_row_samples("ns", &samples, "%s/%zu", name, size);
	slub_cache_destroy(cache);
}

int main(int argc, char **argv)
{
	static const size_t sizes[] = { 8, 16, 32, 64, 128, 256, 512, 1024 };
	int repeats;

	bench_begin("cache_pair", argc, argv);
	repeats = (int)bench_number("repeats", 15);
	bench_options_done();
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		measure("reuse", reuse, sizes[i], repeats);
		measure("npattern", npattern, sizes[i], repeats);
	}
	return bench_end();
}
