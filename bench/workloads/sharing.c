/* SPDX-License-Identifier: MIT */
/*
 * Imitates threads that each work on small objects of their own, where the allocator may have
 * put two threads' objects into one cache line. --kind=active: the threads allocate their objects
 * at the same time. --kind=passive: one thread allocated them side by side and gave them out;
 * each frees its own and takes another: does it get the neighbour of somebody's? As cache-thrash
 * and cache-scratch of Hoard. One operation: one write into an object.
 */
#include "workload.h"

enum { SIZE = 8, THREADS_MAX = 256 };

static const char *const kinds[] = { "active", "passive" };

static long objects, writes;
static void *given[THREADS_MAX];

static void body(int index)
{
	free(given[index]);
	for (long i = 0; i < objects; i++) {
		volatile char *object = bench_malloc(SIZE);

		for (long j = 0; j < writes; j++)
			object[j % SIZE]++;
		free((void *)object);
	}
}

int main(int argc, char **argv)
{
	long threads;
	int passive;

	workload_begin("sharing", argc, argv);
	passive = workload_choice("kind", kinds, 2);
	threads = workload_long("threads", 2, 1, THREADS_MAX);
	objects = workload_long("objects", 100000, 1, 100000000);
	writes = workload_long("writes", 1000, 1, 1000000);
	bench_options_done();
	for (long i = 0; passive && i < threads; i++)
		given[i] = workload_object(SIZE);
	workload_start();
	workload_threads((int)threads, body);
	workload_stop((double)threads * (double)objects * (double)writes);
	return workload_finish();
}
