/* SPDX-License-Identifier: MIT */
/*
 * Adding one to a counter: per-CPU (slub_percpu_add), thread-local, and one shared by all with an
 * atomic add; on one CPU and on all at once. An operation is one add.
 *
 * The same counter every time, as the kernel's tests do it, measures how fast a core forwards its
 * last store; "of 64" goes round 64 counters, where each add stands alone.
 */
#include "orig.h"

#include <stdio.h>

#include <slub/percpu.h>

enum { MANY = 64 };

static uintptr_t percpu;
static __thread int64_t local[MANY];
static int64_t atomic[MANY] __attribute__((aligned(128)));

static uint64_t percpu_add(uint64_t loops, void *arg)
{
	uintptr_t offset = percpu;

	(void)arg;
	for (uint64_t i = 0; i < loops; i++)
		slub_percpu_add(offset, 1);
	return loops;
}

static uint64_t local_add(uint64_t loops, void *arg)
{
	(void)arg;
	for (uint64_t i = 0; i < loops; i++) {
		local[0]++;
		bench_escape(local);
	}
	return loops;
}

static uint64_t atomic_add(uint64_t loops, void *arg)
{
	(void)arg;
	for (uint64_t i = 0; i < loops; i++)
		__atomic_fetch_add(&atomic[0], 1, __ATOMIC_RELAXED);
	return loops;
}

static uint64_t percpu_add_many(uint64_t loops, void *arg)
{
	uintptr_t offset = percpu;

	(void)arg;
	for (uint64_t i = 0; i < loops; i++)
		slub_percpu_add(offset + i % MANY * sizeof(int64_t), 1);
	return loops;
}

static uint64_t local_add_many(uint64_t loops, void *arg)
{
	(void)arg;
	for (uint64_t i = 0; i < loops; i++) {
		local[i % MANY]++;
		bench_escape(local);
	}
	return loops;
}

static uint64_t atomic_add_many(uint64_t loops, void *arg)
{
	(void)arg;
	for (uint64_t i = 0; i < loops; i++)
		__atomic_fetch_add(&atomic[i % MANY], 1, __ATOMIC_RELAXED);
	return loops;
}

static const struct way {
	const char *type, *row;
	orig_loop loop;
} ways[] = {
	{ "slub_percpu_add", "percpu", percpu_add },
	{ "thread-local add", "thread-local", local_add },
	{ "atomic add", "atomic", atomic_add },
	{ "slub_percpu_add of 64", "percpu of 64", percpu_add_many },
	{ "thread-local add of 64", "thread-local of 64", local_add_many },
	{ "atomic add of 64", "atomic of 64", atomic_add_many },
};

enum { WAYS = sizeof(ways) / sizeof(ways[0]) };

static double in_parallel(const struct way *way, uint64_t loops)
{
	char row[40];

	snprintf(row, sizeof(row), "%s/parallel", way->row);
	return orig_time_parallel(way->type, row, way->loop, loops, NULL);
}

/* Of per-CPU, thread-local and atomic, in this order. */
static void ratio(const char *where, const double ns[3])
{
	orig_line("%s: per-CPU is %.2f x thread-local, atomic is %.2f x per-CPU", where,
		  ns[0] / ns[1], ns[2] / ns[0]);
	bench_row("x", ns[0] / ns[1], "ratio/%s/percpu to thread-local", where);
	bench_row("x", ns[2] / ns[0], "ratio/%s/atomic to percpu", where);
}

int main(int argc, char **argv)
{
	double ns[WAYS];
	uint64_t loops;

	orig_begin("counter", argc, argv);
	loops = (uint64_t)bench_number("loops", 100000000);
	bench_options_done();
	orig_bind(0);
	percpu = slub_percpu_alloc(MANY * sizeof(int64_t), sizeof(int64_t));
	if (!percpu)
		bench_fatal("no per-CPU counter");
	for (int i = 0; i < WAYS; i++)
		ns[i] = orig_time_bench(ways[i].type, ways[i].row, ways[i].loop, loops, NULL, 0);
	ratio("one CPU", ns);
	ratio("one CPU, of 64", ns + 3);
	if (orig_cpus > 1) {
		for (int i = 0; i < WAYS; i++)
			ns[i] = in_parallel(&ways[i], loops / 2);
		ratio("all CPUs", ns);
		ratio("all CPUs, of 64", ns + 3);
	} else {
		orig_left_out("adds from several CPUs: one CPU");
	}
	slub_percpu_free(percpu);
	return orig_end();
}
