/* SPDX-License-Identifier: MIT */
/*
 * Imitates programs that ask for zeroed memory throughout: interpreters, network stacks, tables.
 * Of 1,000 live blocks a random one is replaced by calloc, of 32 bytes to 64 KiB and now and then
 * of 1 MiB; each is looked at in all its cache lines and then written. One operation: one calloc.
 */
#include "workload.h"

enum { LIVE = 1000, LINE = 64, BIG_EVERY = 500 };

static void use(unsigned char *block, size_t size)
{
	for (size_t at = 0; at < size; at += LINE) {
		if (block[at])
			bench_fatal("calloc returned memory that is not zero");
		block[at] = 0xff;
	}
}

int main(int argc, char **argv)
{
	struct bench_random random = workload_random(0);
	static void *block[LIVE];
	long steps;

	workload_begin("zeroed", argc, argv);
	steps = workload_long("ops", 400000, 1, 1000000000);
	bench_options_done();
	workload_start();
	for (long i = 0; i < steps; i++) {
		size_t which = bench_between(&random, 0, LIVE - 1);
		size_t size = i % BIG_EVERY ? workload_size(&random, 32, 64 << 10) : 1 << 20;

		free(block[which]);
		block[which] = calloc(1, size);
		if (!block[which])
			bench_fatal("calloc of %zu bytes failed", size);
		use(block[which], size);
	}
	workload_stop((double)steps);
	for (int i = 0; i < LIVE; i++)
		free(block[i]);
	return workload_finish();
}
