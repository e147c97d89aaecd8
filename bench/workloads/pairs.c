/* SPDX-License-Identifier: MIT */
/*
 * A fixed number of calls for an instruction counter: --pairs rounds of --batch mallocs of --size
 * bytes and as many frees in the same order. For callgrind, run it with two numbers of rounds; the
 * difference of the two counts is that of the calls and the loop around them. The row
 * "instructions" is the processor's own counter, where the kernel lets a process read it.
 */
#include "workload.h"

enum { BATCH_MAX = 4096 };

int main(int argc, char **argv)
{
	static void *object[BATCH_MAX];
	long size, pairs, batch;

	workload_begin("pairs", argc, argv);
	size = workload_long("size", 64, 1, 1 << 24);
	pairs = workload_long("pairs", 1000, 1, 1000000000);
	batch = workload_long("batch", 1, 1, BATCH_MAX);
	bench_options_done();
	workload_start();
	for (long i = 0; i < pairs; i++) {
		for (long j = 0; j < batch; j++) {
			object[j] = malloc((size_t)size);
			bench_escape(object[j]);
		}
		for (long j = 0; j < batch; j++)
			free(object[j]);
	}
	workload_stop((double)(pairs * batch));
	return workload_finish();
}
