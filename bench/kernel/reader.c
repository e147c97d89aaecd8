/* SPDX-License-Identifier: MIT */
/*
 * What a walk pays to be let in: a section of SRCU, a read-write lock that is tried, a reference
 * count; on one CPU and on all at once. An operation is one entrance and exit. (The kernel's
 * walk over its shrinkers spent half of its time in the second.)
 *
 * "synchronize": microseconds until a writer may free what he took away, nobody inside.
 */
#include "orig.h"

#include <pthread.h>
#include <stdio.h>

#include <slub/srcu.h>

static struct slub_srcu domain = SLUB_SRCU_INIT;
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static int64_t references __attribute__((aligned(128)));
static int64_t seen __attribute__((aligned(128)));	/* what is read inside */

static uint64_t srcu(uint64_t loops, void *arg)
{
	(void)arg;
	for (uint64_t i = 0; i < loops; i++) {
		int index = slub_srcu_read_lock(&domain);

		bench_escape(*(volatile int64_t *)&seen);
		slub_srcu_read_unlock(&domain, index);
	}
	return loops;
}

static uint64_t locked(uint64_t loops, void *arg)
{
	(void)arg;
	for (uint64_t i = 0; i < loops; i++) {
		if (pthread_rwlock_tryrdlock(&lock))
			continue;
		bench_escape(*(volatile int64_t *)&seen);
		pthread_rwlock_unlock(&lock);
	}
	return loops;
}

static uint64_t counted(uint64_t loops, void *arg)
{
	(void)arg;
	for (uint64_t i = 0; i < loops; i++) {
		__atomic_fetch_add(&references, 1, __ATOMIC_ACQUIRE);
		bench_escape(*(volatile int64_t *)&seen);
		__atomic_fetch_sub(&references, 1, __ATOMIC_RELEASE);
	}
	return loops;
}

static uint64_t synchronize(uint64_t loops, void *arg)
{
	(void)arg;
	for (uint64_t i = 0; i < loops; i++)
		slub_srcu_synchronize(&domain);
	return loops;
}

static const struct way {
	const char *type, *row;
	orig_loop loop;
} ways[] = {
	{ "srcu read lock", "srcu", srcu },
	{ "read-write lock, tried", "rwlock", locked },
	{ "reference count", "count", counted },
};

enum { WAYS = sizeof(ways) / sizeof(ways[0]) };

int main(int argc, char **argv)
{
	uint64_t loops;

	orig_begin("reader", argc, argv);
	loops = (uint64_t)bench_number("loops", 30000000);
	bench_options_done();
	orig_bind(0);
	slub_srcu_synchronize(&domain);		/* the domain has its counters now */
	for (int i = 0; i < WAYS; i++)
		orig_time_bench(ways[i].type, ways[i].row, ways[i].loop, loops, NULL, 0);
	for (int i = 0; i < WAYS && orig_cpus > 1; i++) {
		char row[40];

		snprintf(row, sizeof(row), "%s/parallel", ways[i].row);
		orig_time_parallel(ways[i].type, row, ways[i].loop, loops / 3, NULL);
	}
	if (orig_cpus == 1)
		orig_left_out("readers on several CPUs: one CPU");
	orig_time_bench("srcu synchronize", "synchronize", synchronize, loops / 10000 + 10, NULL,
			0);
	slub_srcu_destroy(&domain);
	return orig_end();
}
