/* SPDX-License-Identifier: MIT */
/*
 * slab_test on every CPU at once. A test has one or two phases; a CPU's share of a phase is its
 * cycles and its operations, and no CPU starts the second phase before all have ended the first.
 */
#include "slab_test.h"

#include <stdio.h>

struct share {
	double cycles;
	uint64_t operations;
};

struct test {
	const char *classic;		/* the line's name */
	const char *row;
	const char *label[2];		/* what the phases are called in rows */
	struct share (*phase[2])(struct orig_worker *, size_t size);
	size_t size;
	struct share share[2][ORIG_CPUS_MAX];
	struct bench_samples samples[2];	/* per round: cycles per operation */
};

/* --- phases --- */

static struct share alloc_own(struct orig_worker *worker, size_t size)
{
	void **object = slab_test_table(worker->number);
	uint64_t first = bench_cycles();

	for (int i = 0; i < OBJECTS; i++) {
		object[i] = malloc(size);
		*(volatile char *)object[i] = (char)i;
	}
	return (struct share){ (double)(bench_cycles() - first), OBJECTS };
}

static struct share free_own(struct orig_worker *worker, size_t size)
{
	void **object = slab_test_table(worker->number);
	uint64_t first = bench_cycles();

	(void)size;
	for (int i = 0; i < OBJECTS; i++)
		free(object[i]);
	return (struct share){ (double)(bench_cycles() - first), OBJECTS };
}

static struct share alloc_free(struct orig_worker *worker, size_t size)
{
	uint64_t first = bench_cycles();

	(void)worker;
	for (int i = 0; i < OBJECTS; i++) {
		void *object = malloc(size);

		*(volatile char *)object = (char)i;
		free(object);
	}
	return (struct share){ (double)(bench_cycles() - first), OBJECTS };
}

static struct share alloc_unless_first(struct orig_worker *worker, size_t size)
{
	uint64_t first = bench_cycles();

	if (worker->number)
		return alloc_own(worker, size);
	return (struct share){ (double)(bench_cycles() - first), 0 };
}

static struct share free_all_if_first(struct orig_worker *worker, size_t size)
{
	struct share share = { 0, 0 };
	uint64_t first = bench_cycles();

	(void)size;
	for (unsigned int cpu = 1; worker->number == 0 && cpu < worker->count; cpu++) {
		void **object = slab_test_table(cpu);

		for (int i = 0; i < OBJECTS; i++)
			free(object[i]);
		share.operations += OBJECTS;
	}
	share.cycles = (double)(bench_cycles() - first);
	return share;
}

/* One pointer per CPU, each on a line of its own. */
static struct {
	void *_Atomic object __attribute__((aligned(128)));
} post[ORIG_CPUS_MAX];

static struct share hand_out(struct orig_worker *worker, size_t size)
{
	uint64_t first = bench_cycles();
	unsigned int spins = 0;

	for (int i = 0; i < OBJECTS; i++)
		for (unsigned int cpu = 1; cpu < worker->count; cpu++) {
			void *object = malloc(size);

			while (post[cpu].object)
				orig_relax(&spins);
			post[cpu].object = object;
		}
	return (struct share){ (double)(bench_cycles() - first),
			       (uint64_t)OBJECTS * (worker->count - 1) };
}

static struct share take_in(struct orig_worker *worker, size_t size)
{
	uint64_t first = bench_cycles();
	unsigned int spins = 0;
	void *object;

	if (worker->number == 0)
		return hand_out(worker, size);
	for (int i = 0; i < OBJECTS; i++) {
		while (!(object = post[worker->number].object))
			orig_relax(&spins);
		post[worker->number].object = NULL;
		free(object);
	}
	return (struct share){ (double)(bench_cycles() - first), OBJECTS };
}

/* --- one test --- */

static void work(struct orig_worker *worker)
{
	struct test *test = worker->arg;

	for (int phase = 0; phase < 2 && test->phase[phase]; phase++) {
		orig_together(worker);
		test->share[phase][worker->number] = test->phase[phase](worker, test->size);
	}
}

static unsigned long classic_average(const struct test *test, int phase)
{
	double sum = 0;

	for (unsigned int cpu = 0; cpu < orig_cpus; cpu++)
		sum += test->share[phase][cpu].cycles;
	return (unsigned long)(sum / orig_cpus) / OBJECTS;
}

/* Cycles that a CPU which did something spent per operation. */
static double corrected(const struct test *test, int phase)
{
	double cycles = 0, operations = 0;

	for (unsigned int cpu = 0; cpu < orig_cpus; cpu++) {
		const struct share *share = &test->share[phase][cpu];

		if (share->operations) {
			cycles += share->cycles;
			operations += (double)share->operations;
		}
	}
	return cycles / operations;
}

static void print_classic(const struct test *test)
{
	bool two = test->phase[1] != NULL;

	printf("%s(%zu):", test->classic, test->size);
	for (unsigned int cpu = 0; cpu < orig_cpus; cpu++) {
		printf(" %u=%lu", cpu, (unsigned long)test->share[0][cpu].cycles / OBJECTS);
		if (two)
			printf("/%lu", (unsigned long)test->share[1][cpu].cycles / OBJECTS);
	}
	printf(" Average=%lu", classic_average(test, 0));
	if (two)
		printf("/%lu", classic_average(test, 1));
	putchar('\n');
}

static void print_corrected(struct test *test)
{
	printf("    corrected:");
	for (int phase = 0; phase < 2 && test->phase[phase]; phase++) {
		double median = bench_median(&test->samples[phase]);

		printf("%s %s %.1f cycles", phase ? "," : "", test->label[phase], median);
		bench_row("cycles", median, "%s%s%s/%zu", test->row, test->phase[1] ? "/" : "",
			  test->phase[1] ? test->label[phase] : "", test->size);
	}
	putchar('\n');
}

static void run(struct test test)
{
	static struct orig_worker worker[ORIG_CPUS_MAX];

	for (unsigned int round = 0; round <= orig_rounds; round++) {
		orig_team(orig_cpus, work, &test, worker);
		if (!round)
			print_classic(&test);
		for (int phase = 0; round && phase < 2 && test.phase[phase]; phase++)
			bench_sample(&test.samples[phase], corrected(&test, phase));
	}
	print_corrected(&test);
}

static void each_size(const char *header, struct test test)
{
	if (header)
		orig_line("%s", header);
	for (test.size = 8; test.size <= CONCURRENT_MAX; test.size *= 2)
		run(test);
}

void slab_test_concurrent(void)
{
	each_size("Concurrent allocs\n=================", (struct test){
		.classic = "Kmalloc N*alloc N*free", .row = "N*alloc N*free",
		.label = { "alloc", "free" }, .phase = { alloc_own, free_own } });
	each_size(NULL, (struct test){
		.classic = "Kmalloc N*(alloc free)", .row = "N*(alloc free)",
		.label = { "pair" }, .phase = { alloc_free } });
	each_size("Remote free test\n================", (struct test){
		.classic = "N*remote free", .row = "N*remote free",
		.label = { "alloc", "free" },
		.phase = { alloc_unless_first, free_all_if_first } });
	each_size("1 alloc N free test\n===================", (struct test){
		.classic = "1 alloc N free", .row = "1 alloc N free",
		.label = { "object handed over" }, .phase = { take_in } });
}
