/* SPDX-License-Identifier: MIT */
/*
 * Large blocks, as malloc-large of the public suites: twenty live, each step replaces one by
 * another of 5 to 25 MiB and writes one byte in each of its pages. Microseconds per step.
 */
#include "bench.h"

enum { LIVE = 20, PAGE = 4096, LOW = 5 << 20, HIGH = 25 << 20 };

int main(int argc, char **argv)
{
	struct bench_random random = { 88172645463325252u };
	static char *block[LIVE];
	double began;
	long steps;

	bench_begin("large", argc, argv);
	steps = (long)bench_number("steps", 200);
	bench_options_done();

	began = bench_seconds();
	for (long i = 0; i < steps; i++) {
		size_t which = bench_between(&random, 0, LIVE - 1);
		size_t size = bench_between(&random, LOW, HIGH);

		free(block[which]);
		block[which] = bench_malloc(size);
		for (size_t at = 0; at < size; at += PAGE)
			block[which][at] = 1;
	}
	bench_row("us", (bench_seconds() - began) * 1e6 / (double)steps, "step");
	bench_row("MiB", bench_peak_rss() / BENCH_MIB, "peak");
	return bench_end();
}
