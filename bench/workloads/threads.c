/* SPDX-License-Identifier: MIT */
/*
 * Imitates a server with a thread per connection on few CPUs: --threads threads are alive at
 * once, each replaces random ones of 64 objects of its own, of 16 to 1,024 bytes, then waits
 * until all are through, frees its objects and ends.
 *
 * "time" is wall time per operation and holds starting and switching threads; "cpu" is processor
 * time per operation inside the threads' loops alone.
 */
#define _GNU_SOURCE
#include "workload.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

enum { LIVE = 64, THREADS_MAX = 20000 };

static long steps;
static pthread_barrier_t all_through;
static atomic_ullong cpu_ns;

static uint64_t thread_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void body(int index)
{
	struct bench_random random = workload_random(index);
	void *object[LIVE] = { 0 };
	uint64_t start = thread_ns();

	for (long i = 0; i < steps; i++) {
		size_t which = bench_between(&random, 0, LIVE - 1);

		free(object[which]);
		object[which] = workload_object(workload_size(&random, 16, 1024));
	}
	atomic_fetch_add(&cpu_ns, thread_ns() - start);
	pthread_barrier_wait(&all_through);
	for (int i = 0; i < LIVE; i++)
		free(object[i]);
}

int main(int argc, char **argv)
{
	double operations;
	long threads;

	workload_begin("threads", argc, argv);
	threads = workload_long("threads", 10, 1, THREADS_MAX);
	steps = workload_long("ops", 4000000, 1, 1000000000) / threads;
	bench_options_done();
	pthread_barrier_init(&all_through, NULL, (unsigned int)threads);
	operations = (double)steps * (double)threads;
	workload_start();
	workload_threads((int)threads, body);
	workload_stop(operations);
	bench_row("ns", (double)atomic_load(&cpu_ns) / operations, "cpu");
	return workload_finish();
}
