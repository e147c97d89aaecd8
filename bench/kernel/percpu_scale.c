/* SPDX-License-Identifier: MIT */
/*
 * Per-CPU objects of four bytes as they become many, on as many CPUs as the library is told to
 * expect (SLUB_TEST_CPUS): cycles per allocation, and resident memory once every CPU's copy of
 * every object was written; beside it arrays of pointers on the same malloc.
 *
 * With --used=N the map is sparse: N CPUs run, and only their copies are written; an array has
 * room for a pointer to each CPU's, and blocks for N.
 *
 * What would take more than --mib is reckoned from the sizes instead, and marked by its row's
 * name; so are the arrays' cycles left out there.
 */
#define _GNU_SOURCE
#include "pointer_array.h"

#include <slub/percpu.h>

enum { OBJECTS_MAX = 100000, COUNTER_BYTES = 4, BLOCK_BYTES = 16 };

static struct {
	unsigned int cpus;	/* that there can be */
	unsigned int used;	/* whose copies are written */
	double budget;
	double begin;		/* resident before the first: areas stay, so all is counted */
	uintptr_t *offset;
	struct pointer_array **array;
} set;

static double resident(void)
{
	return bench_memory(0).rss;
}

static void print(const char *what, uint32_t objects, double cycles, double bytes, bool reckoned)
{
	orig_line("%u objects, %u of %u CPUs, %s: %.2f MiB%s", objects, set.used, set.cpus, what,
		  bytes / BENCH_MIB, reckoned ? " (reckoned)" : "");
	if (cycles > 0 && set.used == set.cpus) {
		orig_line("%u objects, %u CPUs, %s: %.0f cycles per alloc", objects, set.cpus,
			  what, cycles);
		bench_row("cycles", cycles, "%u/%s/alloc", objects, what);
	}
	bench_row("MiB", bytes / BENCH_MIB, "%u/%s/memory%s", objects, what,
		  reckoned ? " (reckoned)" : "");
}

static bool percpu_alloc(uint32_t objects)
{
	for (uint32_t i = 0; i < objects; i++) {
		set.offset[i] = slub_percpu_alloc(COUNTER_BYTES, COUNTER_BYTES);
		if (set.offset[i])
			continue;
		orig_left_out("%u per-CPU objects: the areas hold %u", objects, i);
		while (i--)
			slub_percpu_free(set.offset[i]);
		return false;
	}
	return true;
}

static void percpu(uint32_t objects)
{
	double cycles, bytes = (double)objects * COUNTER_BYTES * set.used;
	bool reckoned = bytes > set.budget;
	uint64_t first = bench_cycles();

	if (!percpu_alloc(objects))
		return;
	cycles = (double)(bench_cycles() - first) / objects;
	for (unsigned int cpu = 0; !reckoned && cpu < set.used; cpu++)
		for (uint32_t i = 0; i < objects; i++) {
			int32_t *copy = slub_percpu_ptr(set.offset[i], cpu);

			if (!copy)
				bench_fatal("no area for CPU %u", cpu);
			*(volatile int32_t *)copy = 1;
		}
	print("percpu", objects, cycles, reckoned ? bytes : resident() - set.begin, reckoned);
	for (uint32_t i = 0; i < objects; i++)
		slub_percpu_free(set.offset[i]);
}

static void array(uint32_t objects)
{
	double bytes = (double)objects * (set.cpus * sizeof(void *) + set.used * BLOCK_BYTES);
	double before = resident(), cycles;
	uint64_t first = bench_cycles();

	if (bytes > set.budget) {
		print("array", objects, 0, bytes, true);
		return;
	}
	for (uint32_t i = 0; i < objects; i++)
		set.array[i] = pointer_array_create_sparse(set.cpus, set.used, COUNTER_BYTES);
	cycles = (double)(bench_cycles() - first) / objects;
	print("array", objects, cycles, resident() - before, false);
	for (uint32_t i = 0; i < objects; i++)
		pointer_array_destroy(set.array[i], set.cpus);
}

int main(int argc, char **argv)
{
	double most;

	orig_begin("percpu_scale", argc, argv);
	set.budget = bench_number("mib", 2048) * BENCH_MIB;
	most = bench_number("objects", OBJECTS_MAX);
	set.cpus = slub_percpu_cpus();
	set.used = (unsigned int)bench_number("used", set.cpus);
	bench_options_done();
	if (set.used < 1 || set.used > set.cpus)
		bench_fatal("--used is 1 to %u, the CPUs that are expected", set.cpus);
	if (most < 1 || most > OBJECTS_MAX)
		bench_fatal("--objects is 1 to %d", OBJECTS_MAX);
	orig_bind(0);
	set.offset = bench_map(OBJECTS_MAX * sizeof(*set.offset));
	set.array = bench_map(OBJECTS_MAX * sizeof(*set.array));
	memset(set.offset, 0, OBJECTS_MAX * sizeof(*set.offset));
	memset(set.array, 0, OBJECTS_MAX * sizeof(*set.array));
	set.begin = resident();
	for (uint32_t objects = 1; objects <= (uint32_t)most; objects *= 10)
		percpu(objects);
	for (uint32_t objects = 1; objects <= (uint32_t)most; objects *= 10)
		array(objects);
	return orig_end();
}
