/* SPDX-License-Identifier: MIT */
/*
 * Imitates a program at its steady state: objects come and go at random, as in an interpreter, a
 * cache or a server's session table. Each thread holds --live objects of its own; one operation
 * frees a random one and allocates another in its place.
 *
 * --sizes=fixed: all of 64 bytes. --sizes=random: 8 to 2,048 bytes, small ones more frequent.
 */
#include "workload.h"

static const char *const sizes[] = { "fixed", "random" };

static bool fixed;
static long live, steps;

static void body(int index)
{
	struct bench_random random = workload_random(index);
	size_t bytes = (size_t)live * sizeof(void *);
	void **object = bench_map(bytes);

	for (long i = 0; i < steps; i++) {
		size_t which = bench_between(&random, 0, (size_t)live - 1);

		free(object[which]);
		object[which] = workload_object(fixed ? 64 : workload_size(&random, 8, 2048));
	}
	for (long i = 0; i < live; i++)
		free(object[i]);
	bench_unmap(object, bytes);
}

int main(int argc, char **argv)
{
	long threads;

	workload_begin("churn", argc, argv);
	fixed = !workload_choice("sizes", sizes, 2);
	threads = workload_long("threads", 1, 1, 4096);
	live = workload_long("live", 20000, 1, 10000000);
	steps = workload_long("ops", 6000000, 1, 1000000000) / threads;
	bench_options_done();
	workload_start();
	workload_threads((int)threads, body);
	workload_stop((double)(steps * threads));
	return workload_finish();
}
