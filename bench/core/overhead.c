/* SPDX-License-Identifier: MIT */
/*
 * A heap of 1 GiB (--mib) in objects of 64 bytes (--size), all written: what is resident beyond
 * the payload, in per cent of it. With objects that fill their size class, that is descriptors,
 * maps, lists and free pages.
 */
#include "bench.h"

int main(int argc, char **argv)
{
	struct bench_memory before, after;
	double payload, began, seconds;
	size_t size, count;

	bench_begin("overhead", argc, argv);
	size = (size_t)bench_number("size", 64);
	count = (size_t)(bench_number("mib", 1024) * BENCH_MIB) / size;
	bench_options_done();
	if (size < 8)
		bench_fatal("--size is 8 or more");

	payload = (double)(count * size);
	before = bench_memory(0);
	began = bench_seconds();
	for (size_t i = 0; i < count; i++)
		memset(bench_malloc(size), 1, size);
	seconds = bench_seconds() - began;
	after = bench_memory(0);

	bench_row("%", ((after.rss - before.rss) / payload - 1) * 100, "overhead/%zu", size);
	bench_row("MiB", after.rss / BENCH_MIB, "rss/%zu", size);
	bench_row("MiB", after.anonymous / BENCH_MIB, "anonymous/%zu", size);
	bench_row("ns", seconds * 1e9 / (double)count, "alloc/%zu", size);
	return bench_end();
}
