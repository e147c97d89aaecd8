/* SPDX-License-Identifier: MIT */
/*
 * Growth with the size: from 8 bytes to 1 MiB in powers of two, --bytes in all are allocated as
 * objects of one size (at most 2,048, at least 8), first byte written, then freed in the same
 * order, again and again. Row "cost/SIZE": ns per allocation and free, the median of the rounds.
 */
#include "workload.h"

enum { OBJECTS_MAX = 2048, OBJECTS_MIN = 8, SIZE_HIGH = 1 << 20 };

static void *object[OBJECTS_MAX];

static double once(size_t size, int count)
{
	double began = bench_seconds();

	for (int i = 0; i < count; i++) {
		object[i] = bench_malloc(size);
		*(volatile char *)object[i] = 1;
	}
	for (int i = 0; i < count; i++)
		free(object[i]);
	return (bench_seconds() - began) * 1e9 / count;
}

int main(int argc, char **argv)
{
	long bytes;
	double slice;

	bench_begin("sizes", argc, argv);
	bytes = workload_long("bytes", 8 << 20, 1, 1 << 30);
	slice = bench_number("slice", 0.02);
	bench_options_done();
	for (size_t size = 8; size <= SIZE_HIGH; size *= 2) {
		struct bench_samples samples = { 0 };
		long count = bytes / (long)size;
		double until;

		if (count > OBJECTS_MAX)
			count = OBJECTS_MAX;
		if (count < OBJECTS_MIN)
			count = OBJECTS_MIN;
		once(size, (int)count);
		until = bench_seconds() + slice;
		do
			bench_sample(&samples, once(size, (int)count));
		while (bench_seconds() < until);
		bench_row("ns", bench_median(&samples), "cost/%zu", size);
	}
	return bench_end();
}
