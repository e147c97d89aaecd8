/* SPDX-License-Identifier: MIT */
/*
 * The kernel's slab_test in user space: 10,000 allocations, then 10,000 frees in the same order,
 * of each power of two from 8 to 16,384 bytes; cycles of the time stamp counter per operation.
 *
 * "alloc/SIZE", "free/SIZE" and "both/SIZE" leave the objects alone; "touch-alloc", "touch-free"
 * and "touch-both" write the first word of each. "cold-alloc" and "cold-free" are the first time,
 * which finds no object of that size; the others are medians of --repeats of them behind --warm
 * milliseconds, in which an allocator may see that what is freed is wanted again, and over as much
 * again: an allocator that looks at the clock is not met at one moment.
 *
 * "floor": functions that do nothing, called in the same way, as "both".
 */
#include "bench.h"
#include "nothing.h"

enum { OBJECTS = 10000, SIZE_MAX_TESTED = 16384 };

static void *object[OBJECTS];

struct result {
	struct bench_samples alloc, free, both;
	double cold_alloc, cold_free;
};

static void once(size_t size, bool touch, double *alloc, double *release)
{
	uint64_t start = bench_cycles(), middle;

	if (touch)
		for (int i = 0; i < OBJECTS; i++) {
			object[i] = malloc(size);
			*(volatile uint64_t *)object[i] = size;
		}
	else
		for (int i = 0; i < OBJECTS; i++)
			object[i] = malloc(size);
	bench_escape(object);
	middle = bench_cycles();
	for (int i = 0; i < OBJECTS; i++)
		free(object[i]);
	bench_escape(object);
	*release = (double)(bench_cycles() - middle) / OBJECTS;
	*alloc = (double)(middle - start) / OBJECTS;
}

/* As once() of one size does it. */
static double once_nothing(void)
{
	uint64_t start = bench_cycles();

	for (int i = 0; i < OBJECTS; i++)
		object[i] = nothing_malloc(8);
	bench_escape(object);
	for (int i = 0; i < OBJECTS; i++)
		nothing_free(object[i]);
	bench_escape(object);
	return (double)(bench_cycles() - start) / OBJECTS;
}

static void measure_floor(int repeats)
{
	static struct bench_samples both;

	for (int i = 0; i < repeats; i++)
		bench_sample(&both, once_nothing());
	bench_row("cycles", bench_median(&both), "floor");
}

static double warm;	/* seconds */

/* Repetitions that are not sampled. */
static void pass(size_t size, bool touch, double seconds)
{
	double alloc, release, until = bench_seconds() + seconds;

	while (bench_seconds() < until)
		once(size, touch, &alloc, &release);
}

static void repeat(struct result *result, size_t size, bool touch, int repeats)
{
	double alloc, release;

	memset(result, 0, sizeof(*result));
	once(size, touch, &result->cold_alloc, &result->cold_free);
	pass(size, touch, warm);
	for (int i = 0; i < repeats; i++) {
		pass(size, touch, warm / repeats);
		once(size, touch, &alloc, &release);
		bench_sample(&result->alloc, alloc);
		bench_sample(&result->free, release);
		bench_sample(&result->both, alloc + release);
	}
}

int main(int argc, char **argv)
{
	static struct result result;
	int repeats;

	bench_begin("slab_test", argc, argv);
	repeats = (int)bench_number("repeats", 15);
	warm = bench_number("warm", 30) / 1000;
	bench_options_done_settle();
	memset(object, 0, sizeof(object));
	for (size_t i = 0; i < OBJECTS; i++)
		bench_escape(&object[i]);

	for (size_t size = 8; size <= SIZE_MAX_TESTED; size *= 2) {
		repeat(&result, size, false, repeats);
		bench_row("cycles", bench_median(&result.alloc), "alloc/%zu", size);
		bench_row("cycles", bench_median(&result.free), "free/%zu", size);
		bench_row("cycles", bench_median(&result.both), "both/%zu", size);
		bench_row("cycles", result.cold_alloc, "cold-alloc/%zu", size);
		bench_row("cycles", result.cold_free, "cold-free/%zu", size);
	}
	for (size_t size = 8; size <= SIZE_MAX_TESTED; size *= 2) {
		repeat(&result, size, true, repeats);
		bench_row("cycles", bench_median(&result.alloc), "touch-alloc/%zu", size);
		bench_row("cycles", bench_median(&result.free), "touch-free/%zu", size);
		bench_row("cycles", bench_median(&result.both), "touch-both/%zu", size);
	}
	measure_floor(repeats);
	return bench_end();
}
