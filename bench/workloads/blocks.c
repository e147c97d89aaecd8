/* SPDX-License-Identifier: MIT */
/*
 * Imitates picture, video and matrix programs: large blocks, twenty live, each step replaces one
 * by another of 256 KiB to 16 MiB and writes each of its pages. One operation: one block.
 */
#include "workload.h"

enum { LIVE = 20, PAGE = 4096, LOW = 256 << 10, HIGH = 16 << 20 };

int main(int argc, char **argv)
{
	struct bench_random random = workload_random(0);
	static char *block[LIVE];
	long steps;

	workload_begin("blocks", argc, argv);
	steps = workload_long("ops", 400, 1, 10000000);
	bench_options_done();
	workload_start();
	for (long i = 0; i < steps; i++) {
		size_t which = bench_between(&random, 0, LIVE - 1);
		size_t size = workload_size(&random, LOW, HIGH);

		free(block[which]);
		block[which] = bench_malloc(size);
		for (size_t at = 0; at < size; at += PAGE)
			block[which][at] = 1;
	}
	workload_stop((double)steps);
	for (int i = 0; i < LIVE; i++)
		free(block[i]);
	return workload_finish();
}
