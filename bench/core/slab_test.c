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

/*
 * The loops, of malloc and free and of functions that do nothing. Inlined with names that are
 * known, so that each is called through the PLT as a program calls it.
 */
static inline __attribute__((__always_inline__)) void
once_of(void *(*allocate)(size_t), void (*free_one)(void *), size_t size, bool touch, double *alloc,
	double *release)
{
	uint64_t start = bench_cycles(), middle;

	if (touch)
		for (int i = 0; i < OBJECTS; i++) {
			object[i] = allocate(size);
			*(volatile uint64_t *)object[i] = size;
		}
	else
		for (int i = 0; i < OBJECTS; i++)
			object[i] = allocate(size);
	bench_escape(object);
	middle = bench_cycles();
	for (int i = 0; i < OBJECTS; i++)
		free_one(object[i]);
	bench_escape(object);
	*release = (double)(bench_cycles() - middle) / OBJECTS;
	*alloc = (double)(middle - start) / OBJECTS;
}

static void once(size_t size, bool touch, double *alloc, double *release)
{
	once_of(malloc, free, size, touch, alloc, release);
}

static void measure_floor(int repeats)
{
	static struct bench_samples both;
	double alloc, release;

	for (int i = 0; i < repeats; i++) {
		once_of(nothing_malloc, nothing_free, 8, false, &alloc, &release);
		bench_sample(&both, alloc + release);
	}
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
