/* SPDX-License-Identifier: MIT */
/*
 * Growth with the CPUs: libslub is told of --cpus of them (SLUB_CPUS, set by starting itself
 * again), more than the machine has. Rows: "pair" ns of a malloc and free of 64 bytes, "alloc" ns
 * of a per-CPU allocation of 8 bytes and its free, "sum" ns of adding up a counter over all
 * CPUs that have an area (each was given one), "rss" MiB with all these areas.
 */
#define _GNU_SOURCE
#include "workload.h"

#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

enum { PAIRS = 1000000, ALLOCS = 20000, SUMS = 2000, BYTES = 8 };

static void *symbol(const char *name)
{
	void *found = dlsym(RTLD_DEFAULT, name);

	if (!found)
		bench_fatal("this library has no %s", name);
	return found;
}

static void start_again(long cpus, char **argv)
{
	const char *now = getenv("SLUB_CPUS");
	char text[32];

	snprintf(text, sizeof(text), "%ld", cpus);
	if (now && !strcmp(now, text))
		return;
	setenv("SLUB_CPUS", text, 1);
	execv("/proc/self/exe", argv);
	bench_fatal("cannot start again");
}

static double pair_ns(void)
{
	double began = bench_seconds();

	for (int i = 0; i < PAIRS; i++) {
		void *object = bench_malloc(64);

		bench_escape(object);
		free(object);
	}
	return (bench_seconds() - began) * 1e9 / PAIRS;
}

static double alloc_ns(void)
{
	uintptr_t (*alloc)(size_t, size_t) = (uintptr_t (*)(size_t, size_t))
					     symbol("slub_percpu_alloc");
	int (*release)(uintptr_t) = (int (*)(uintptr_t))symbol("slub_percpu_free");
	double began = bench_seconds();

	for (int i = 0; i < ALLOCS; i++) {
		uintptr_t offset = alloc(BYTES, BYTES);

		if (!offset || release(offset))
			bench_fatal("a per-CPU allocation failed");
	}
	return (bench_seconds() - began) * 1e9 / ALLOCS;
}

static double sum_ns(long cpus)
{
	uintptr_t (*alloc)(size_t, size_t) = (uintptr_t (*)(size_t, size_t))
					     symbol("slub_percpu_alloc");
	void *(*copy)(uintptr_t, unsigned int) = (void *(*)(uintptr_t, unsigned int))
						 symbol("slub_percpu_ptr");
	int64_t (*sum)(uintptr_t) = (int64_t (*)(uintptr_t))symbol("slub_percpu_sum");
	uintptr_t counter = alloc(BYTES, BYTES);
	double began;

	for (long i = 0; i < cpus; i++) {
		int64_t *mine = copy(counter, (unsigned int)i);

		if (!mine)
			bench_fatal("CPU %ld of %ld has no area", i, cpus);
		*mine = 1;
	}
	began = bench_seconds();
	for (int i = 0; i < SUMS; i++)
		if (sum(counter) != cpus)
			bench_fatal("the sum over %ld CPUs is wrong", cpus);
	return (bench_seconds() - began) * 1e9 / SUMS;
}

int main(int argc, char **argv)
{
	unsigned int (*known)(void);
	long cpus;

	bench_begin("cpus", argc, argv);
	cpus = workload_long("cpus", 1, 1, 4096);
	bench_options_done();
	start_again(cpus, argv);
	known = (unsigned int (*)(void))symbol("slub_percpu_cpus");
	if ((long)known() < cpus)
		bench_fatal("the library was told of %ld CPUs and knows %u", cpus, known());
	bench_row("ns", pair_ns(), "pair");
	bench_row("ns", alloc_ns(), "alloc");
	bench_row("ns", sum_ns(cpus), "sum");
	bench_row("MiB", bench_memory(0).rss / BENCH_MIB, "rss");
	return bench_end();
}
