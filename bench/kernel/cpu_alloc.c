/* SPDX-License-Identifier: MIT */
/*
 * cpu_alloc (slub_percpu_alloc) against arrays of pointers: cycles per access, cycles per
 * allocation, storage.
 *
 * An access adds one to this CPU's four-byte counter of a random object out of 1 to 100,000. With
 * the array: the CPU's number, the array, the pointer in it, the counter, added to without
 * protection, which is right only as the thread here is bound to its CPU; slub_percpu_add32()
 * is right anywhere. Storage is that of the kernel's example, one counter of four bytes for 32
 * CPUs: by the example's sizes, and (corrected) by what both sides really took.
 */
#define _GNU_SOURCE
#include "pointer_array.h"

#include <stdio.h>
#include <unistd.h>

#include <slub/percpu.h>

enum { EXAMPLE_CPUS = 32, OBJECTS_MAX = 100000, SLAB_MINIMUM = 32 };

static struct set {
	uint32_t objects;
	unsigned int cpus;
	uint32_t *order;		/* a permutation, walked again and again */
	uintptr_t *offset;
	struct pointer_array **array;
} set;

static uint64_t percpu_access(uint64_t loops, void *arg)
{
	uint32_t at = 0;

	(void)arg;
	for (uint64_t i = 0; i < loops; i++) {
		slub_percpu_add32(set.offset[set.order[at]], 1);
		at = at + 1 == set.objects ? 0 : at + 1;
	}
	return loops;
}

static uint64_t array_access(uint64_t loops, void *arg)
{
	uint32_t at = 0;

	(void)arg;
	for (uint64_t i = 0; i < loops; i++) {
		struct pointer_array *array = set.array[set.order[at]];

		++*(volatile int32_t *)array->object[pointer_array_cpu()];
		at = at + 1 == set.objects ? 0 : at + 1;
	}
	return loops;
}

static void shuffle_order(void)
{
	struct bench_random random = { 0x9e3779b97f4a7c15 };

	for (uint32_t i = 0; i < set.objects; i++) {
		uint32_t other = (uint32_t)bench_between(&random, 0, i);

		set.order[i] = set.order[other];
		set.order[other] = i;
	}
}

static bool create(uint32_t objects)
{
	uint64_t first = bench_cycles();
	double percpu, array;

	set.objects = 0;
	for (uint32_t i = 0; i < objects; i++) {
		set.offset[i] = slub_percpu_alloc(sizeof(int32_t), sizeof(int32_t));
		if (!set.offset[i]) {
			orig_left_out("%u objects: the per-CPU areas hold %u", objects, i);
			return false;
		}
		set.objects = i + 1;
	}
	percpu = (double)(bench_cycles() - first) / objects;
	first = bench_cycles();
	for (uint32_t i = 0; i < objects; i++)
		set.array[i] = pointer_array_create(set.cpus, sizeof(int32_t));
	array = (double)(bench_cycles() - first) / objects;
	orig_line("%u objects on %u CPUs: alloc %.1f cycles, array of pointers %.1f cycles",
		  objects, set.cpus, percpu, array);
	bench_row("cycles", percpu, "alloc/%u/percpu", objects);
	bench_row("cycles", array, "alloc/%u/array", objects);
	return true;
}

static void destroy(void)
{
	for (uint32_t i = 0; i < set.objects; i++) {
		slub_percpu_free(set.offset[i]);
		if (set.array[i])
			pointer_array_destroy(set.array[i], set.cpus);
		set.array[i] = NULL;
	}
}

static void access_cost(uint32_t objects, uint64_t loops)
{
	char type[80], row[80];

	if (create(objects)) {
		shuffle_order();
		snprintf(type, sizeof(type), "cpu_alloc access, %u objects", objects);
		snprintf(row, sizeof(row), "access/%u/percpu", objects);
		orig_time_bench(type, row, percpu_access, loops, NULL, 0);
		snprintf(type, sizeof(type), "pointer array access, %u objects", objects);
		snprintf(row, sizeof(row), "access/%u/array", objects);
		orig_time_bench(type, row, array_access, loops, NULL, 0);
	}
	destroy();
}

static void storage(void)
{
	uintptr_t offset[EXAMPLE_CPUS];
	struct pointer_array *array = pointer_array_create(EXAMPLE_CPUS, 4);
	size_t before = slub_percpu_bytes(), each, arrays;

	/* As many objects as a cache line holds twice: one alone may hide its rounding. */
	for (int i = 0; i < EXAMPLE_CPUS; i++)
		offset[i] = slub_percpu_alloc(4, 4);
	each = (slub_percpu_bytes() - before) / EXAMPLE_CPUS;
	arrays = pointer_array_bytes(array, EXAMPLE_CPUS);
	orig_line("a counter of 4 bytes for %d CPUs:", EXAMPLE_CPUS);
	orig_line("%d * 8\t\t%d\tArray indexed by processor", EXAMPLE_CPUS, EXAMPLE_CPUS * 8);
	orig_line("%d * %d\t\t%d\t%d objects. The minimum allocation size of SLAB is %d.",
		  EXAMPLE_CPUS, SLAB_MINIMUM, EXAMPLE_CPUS * SLAB_MINIMUM, EXAMPLE_CPUS,
		  SLAB_MINIMUM);
	orig_line("Total\t\t%d bytes; cpu alloc needs %d * 4\t%d bytes",
		  EXAMPLE_CPUS * (8 + SLAB_MINIMUM), EXAMPLE_CPUS, EXAMPLE_CPUS * 4);
	orig_line("    corrected: array of pointers %zu bytes, cpu_alloc %zu bytes", arrays,
		  each * EXAMPLE_CPUS);
	bench_row("bytes", (double)(each * EXAMPLE_CPUS), "storage/32 CPUs/percpu");
	bench_row("bytes", (double)arrays, "storage/32 CPUs/array");
	for (int i = 0; i < EXAMPLE_CPUS; i++)
		slub_percpu_free(offset[i]);
	pointer_array_destroy(array, EXAMPLE_CPUS);
}

int main(int argc, char **argv)
{
	uint64_t loops;

	orig_begin("cpu_alloc", argc, argv);
	loops = (uint64_t)bench_number("loops", 10000000);
	bench_options_done();
	orig_bind(0);
	set.cpus = (unsigned int)sysconf(_SC_NPROCESSORS_CONF);
	set.order = bench_map(OBJECTS_MAX * sizeof(*set.order));
	set.offset = bench_map(OBJECTS_MAX * sizeof(*set.offset));
	set.array = bench_map(OBJECTS_MAX * sizeof(*set.array));
	for (uint32_t objects = 1; objects <= OBJECTS_MAX; objects *= 10)
		if (objects != 10)
			access_cost(objects, loops);
	storage();
	return orig_end();
}
