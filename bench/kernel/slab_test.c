/* SPDX-License-Identifier: MIT */
/*
 * The kernel's slab_test on malloc and free: 10,000 objects of each power of two.
 *
 *   1. Kmalloc          allocate all and write a byte of each; write a byte of each and free it
 *   2. alloc/free       pairs at once, untouched
 *   N*alloc N*free      the same as 1, on every CPU at once
 *   N*(alloc free)      the same as 2, on every CPU at once, a byte written
 *   N*remote free       every CPU but the first allocates, the first frees all of it
 *   1 alloc N free      the first CPU allocates and hands each object to one of the others
 *
 * The classic line divides each CPU's cycles by 10,000, whole numbers only, whatever that CPU did,
 * and averages over all CPUs, the idle ones too; a first round, on memory never touched, is in it.
 * The corrected line counts what was done by whom and is the median of the rounds after the first.
 * The original handed out too few objects in its last test; here each one is freed.
 */
#include "slab_test.h"

void *slab_test_table(unsigned int cpu)
{
	static void *table[ORIG_CPUS_MAX];

	if (!table[cpu])
		table[cpu] = bench_map(OBJECTS * sizeof(void *));
	return table[cpu];
}

static double allocate(void **object, size_t size)
{
	uint64_t first = bench_cycles();

	for (int i = 0; i < OBJECTS; i++) {
		object[i] = malloc(size);
		*(volatile char *)object[i] = (char)i;
	}
	return (double)(bench_cycles() - first);
}

static double release(void **object)
{
	uint64_t first = bench_cycles();

	for (int i = 0; i < OBJECTS; i++) {
		*(volatile char *)object[i] = (char)i;
		free(object[i]);
	}
	return (double)(bench_cycles() - first);
}

static double pairs(size_t size)
{
	uint64_t first = bench_cycles();

	for (int i = 0; i < OBJECTS; i++) {
		void *object = malloc(size);

		bench_escape(object);
		free(object);
	}
	return (double)(bench_cycles() - first);
}

static void kmalloc(size_t size)
{
	struct bench_samples allocs = { 0 }, frees = { 0 };
	void **object = slab_test_table(0);
	unsigned long alloc = 0, free_ = 0;

	for (unsigned int round = 0; round <= orig_rounds; round++) {
		double a = allocate(object, size), f = release(object);

		if (round) {
			bench_sample(&allocs, a / OBJECTS);
			bench_sample(&frees, f / OBJECTS);
		} else {
			alloc = (unsigned long)a / OBJECTS;
			free_ = (unsigned long)f / OBJECTS;
		}
	}
	orig_line("%d times kmalloc(%zu) -> %lu cycles kfree -> %lu cycles", OBJECTS, size, alloc,
		  free_);
	orig_line("    corrected: kmalloc %.1f cycles, kfree %.1f cycles", bench_median(&allocs),
		  bench_median(&frees));
	bench_row("cycles", bench_median(&allocs), "kmalloc/%zu", size);
	bench_row("cycles", bench_median(&frees), "kfree/%zu", size);
	bench_row("cycles", (double)alloc, "classic/kmalloc/%zu", size);
	bench_row("cycles", (double)free_, "classic/kfree/%zu", size);
}

static void alloc_free(size_t size)
{
	struct bench_samples samples = { 0 };
	unsigned long classic = 0;

	for (unsigned int round = 0; round <= orig_rounds; round++) {
		double cycles = pairs(size);

		if (round)
			bench_sample(&samples, cycles / OBJECTS);
		else
			classic = (unsigned long)cycles / OBJECTS;
	}
	orig_line("%d times kmalloc(%zu)/kfree -> %lu cycles", OBJECTS, size, classic);
	orig_line("    corrected: %.1f cycles a pair", bench_median(&samples));
	bench_row("cycles", bench_median(&samples), "pair/%zu", size);
	bench_row("cycles", (double)classic, "classic/pair/%zu", size);
}

static void single_thread(void)
{
	orig_line("test init\nSingle thread testing\n=====================");
	orig_line("1. Kmalloc: Repeatedly allocate then free test");
	for (size_t size = 8; size <= SINGLE_MAX; size *= 2)
		kmalloc(size);
	orig_line("2. Kmalloc: alloc/free test");
	for (size_t size = 8; size <= SINGLE_MAX; size *= 2)
		alloc_free(size);
}

int main(int argc, char **argv)
{
	orig_begin("slab_test", argc, argv);
	bench_options_done();
	orig_bind(0);
	single_thread();
	if (orig_cpus > 1)
		slab_test_concurrent();
	else
		orig_left_out("the concurrent tests: one CPU");
	return orig_end();
}
