/* SPDX-License-Identifier: MIT */
/*
 * malloc+free of one size through the PLT.
 *
 * "reuse/SIZE": the same object over and over. "npattern/SIZE": 256 allocations, then 256 frees,
 * first allocated first freed. Both in ns per malloc+free pair; the value is the best of several
 * short repetitions (a short one is rarely interrupted), the median stands beside it.
 *
 * "floor" and "floor-npattern": functions that do nothing, called in the same ways. What is above
 * is an allocator's; a ratio of two figures that both contain it says less than it seems to.
 */
#include "bench.h"
#include "nothing.h"

enum { PATTERN = 256 };

/*
 * The loops of malloc and free, and of functions that do nothing. Inlined with names that are
 * known, so that each is called through the PLT as a program calls it.
 */
#define LOOP static inline __attribute__((__always_inline__)) double

LOOP reuse_of(void *(*allocate)(size_t), void (*release)(void *), size_t size, long pairs)
{
	double start = bench_seconds();

	for (long i = 0; i < pairs; i++) {
		void *object = allocate(size);

		bench_escape(object);
		release(object);
	}
	return (bench_seconds() - start) * 1e9 / (double)pairs;
}

LOOP npattern_of(void *(*allocate)(size_t), void (*release)(void *), size_t size, long pairs)
{
	static void *object[PATTERN];
	long rounds = pairs / PATTERN;
	double start = bench_seconds();

	for (long round = 0; round < rounds; round++) {
		for (int i = 0; i < PATTERN; i++)
			object[i] = allocate(size);
		bench_escape(object);
		for (int i = 0; i < PATTERN; i++)
			release(object[i]);
	}
	return (bench_seconds() - start) * 1e9 / (double)(rounds * PATTERN);
}

static double reuse(size_t size, long pairs)
{
	return reuse_of(malloc, free, size, pairs);
}

static double reuse_nothing(size_t size, long pairs)
{
	return reuse_of(nothing_malloc, nothing_free, size, pairs);
}

static double npattern(size_t size, long pairs)
{
	return npattern_of(malloc, free, size, pairs);
}

static double npattern_nothing(size_t size, long pairs)
{
	return npattern_of(nothing_malloc, nothing_free, size, pairs);
}

/* As many pairs as take about `seconds`, so that slow sizes do not take the day. */
static long calibrate(double (*pattern)(size_t, long), size_t size, double seconds)
{
	double each = pattern(size, 4 * PATTERN);
	long pairs;

	each = pattern(size, 16 * PATTERN);
	pairs = (long)(seconds * 1e9 / each);
	return pairs < 4 * PATTERN ? 4 * PATTERN : pairs;
}

static void measure(const char *name, double (*pattern)(size_t, long), size_t size, double seconds,
		    int repeats)
{
	long pairs = calibrate(pattern, size, seconds);
	struct bench_samples samples = { 0 };

	for (int i = 0; i < repeats; i++)
		bench_sample(&samples, pattern(size, pairs));
	if (size)
		bench_row_samples("ns", &samples, "%s/%zu", name, size);
	else
		bench_row_samples("ns", &samples, "%s", name);
}

int main(int argc, char **argv)
{
	static const size_t sizes[] = { 8, 16, 32, 64, 128, 256, 512, 1024, 4096, 16384 };
	double seconds;
	int repeats;

	bench_begin("pair", argc, argv);
	seconds = bench_number("milliseconds", 2) / 1e3;	/* one repetition */
	repeats = (int)bench_number("repeats", 15);
	bench_options_done_settle();

	measure("floor", reuse_nothing, 0, seconds, repeats);
	measure("floor-npattern", npattern_nothing, 0, seconds, repeats);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		measure("reuse", reuse, sizes[i], seconds, repeats);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		measure("npattern", npattern, sizes[i], seconds, repeats);
	return bench_end();
}
