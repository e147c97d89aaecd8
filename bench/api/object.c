/* SPDX-License-Identifier: MIT */
/*
 * A cache that is a variable, inline, beside malloc and free of the same size; and 16 objects in
 * bulk beside 16 single calls.  In ns per object allocated and freed, and the ratios.
 *
 * "pattern": 256 allocations, then 256 frees.
 */
#include "ratio.h"

#include <slub/cache.h>

enum { SIZE = 64, PATTERN = 256, BULK = 16 };

struct object {
	char bytes[SIZE];
};

SLUB_CACHE_DEFINE_STATIC(bench_objects, struct object, 0, NULL);

static void *held[PATTERN];

static double per_object(double began, long n)
{
	return (bench_seconds() - began) * 1e9 / (double)n;
}

static double cache_reuse(long n)
{
	double began = bench_seconds();

	for (long i = 0; i < n; i++) {
		void *object = slub_cache_alloc(&bench_objects);

		bench_escape(object);
		slub_cache_free(&bench_objects, object);
	}
	return per_object(began, n);
}

static double malloc_reuse(long n)
{
	double began = bench_seconds();

	for (long i = 0; i < n; i++) {
		void *object = malloc(SIZE);

		bench_escape(object);
		free(object);
	}
	return per_object(began, n);
}

static double cache_pattern(long n)
{
	double began = bench_seconds();

	for (long round = 0; round < n / PATTERN; round++) {
		for (int i = 0; i < PATTERN; i++)
			held[i] = slub_cache_alloc(&bench_objects);
		bench_escape(held);
		for (int i = 0; i < PATTERN; i++)
			slub_cache_free(&bench_objects, held[i]);
	}
	return per_object(began, n / PATTERN * PATTERN);
}

static double malloc_pattern(long n)
{
	double began = bench_seconds();

	for (long round = 0; round < n / PATTERN; round++) {
		for (int i = 0; i < PATTERN; i++)
			held[i] = malloc(SIZE);
		bench_escape(held);
		for (int i = 0; i < PATTERN; i++)
			free(held[i]);
	}
	return per_object(began, n / PATTERN * PATTERN);
}

static double bulk(long n)
{
	double began = bench_seconds();

	for (long round = 0; round < n / BULK; round++) {
		if (slub_cache_alloc_bulk(&bench_objects, 0, BULK, held) != BULK)
			bench_fatal("no memory");
		bench_escape(held);
		slub_cache_free_bulk(&bench_objects, BULK, held);
	}
	return per_object(began, n / BULK * BULK);
}

static double singles(long n)
{
	double began = bench_seconds();

	for (long round = 0; round < n / BULK; round++) {
		for (int i = 0; i < BULK; i++)
			held[i] = slub_cache_alloc(&bench_objects);
		bench_escape(held);
		for (int i = 0; i < BULK; i++)
			slub_cache_free(&bench_objects, held[i]);
	}
	return per_object(began, n / BULK * BULK);
}

int main(int argc, char **argv)
{
	long n;
	int repeats;

	bench_begin("api_object", argc, argv);
	repeats = (int)bench_number("repeats", 21);
	n = (long)bench_number("objects", 1000000);
	bench_options_done();
	bench_bind(0);
	ratio_rows("reuse/64", "cache", cache_reuse, "malloc", malloc_reuse, n, repeats);
	ratio_rows("pattern/64", "cache", cache_pattern, "malloc", malloc_pattern, n, repeats);
	ratio_rows("bulk16/64", "bulk", bulk, "single", singles, n, repeats);
	return bench_end();
}
