/* SPDX-License-Identifier: MIT */
/*
 * A slab's descriptor in the layout of this build: what the descriptors of a heap take, and what a
 * change of the double word {freelist, counters} costs: by the double-word exchange in two of the
 * layouts, under a lock bit in the third. The change is the library's own slab_update().
 *
 *   hot         the same descriptor again and again
 *   cold        one change in each of a million descriptors, in random order
 *   neighbours  every CPU its own descriptor, all of them side by side
 *   shared      every CPU the same descriptor; cycles per change that succeeded
 */
#include "orig.h"

#include "core/slab/slab_internal.h"

static const char *const layout[] = { "aligned64", "inner56", "lock56" };

enum { COLD = 1 << 20 };

static struct page *descriptors;
static uint32_t *order;

/* --- memory --- */

static void heap(uint64_t gib)
{
	uint64_t pages = (gib << 30) / PAGE_BYTES, bytes = pages * sizeof(struct page);

	orig_line("descriptors of a heap of %lu GB: %lu pages of %zu bytes, %zu bytes each:"
		  " %.1f MiB, %.2f %% of it", gib, pages, PAGE_BYTES, sizeof(struct page),
		  (double)bytes / BENCH_MIB, 100.0 * sizeof(struct page) / PAGE_BYTES);
	bench_row("MiB", (double)bytes / BENCH_MIB, "memory/%lu GB", gib);
}

/* --- time --- */

static void change(struct page *slab)
{
	struct double_word old = slab_read(slab), new;

	do {
		new.first = old.first;
		new.second = old.second + 1;
	} while (!slab_update(slab, &old, new));
}

static uint64_t hot(uint64_t loops, void *arg)
{
	for (uint64_t i = 0; i < loops; i++)
		change(arg);
	return loops;
}

static uint64_t cold_order(uint64_t loops, void *arg)
{
	(void)arg;
	for (uint64_t i = 0; i < loops; i++)
		change(&descriptors[order[i % COLD]]);
	return loops;
}

static void prepare(void)
{
	struct bench_random random = { 0x9e3779b97f4a7c15 };
	/* As the library keeps them: the first one at the start of a cache line. */
	const size_t bytes = (COLD + 1) * sizeof(struct page);

	descriptors = bench_map(bytes);
	memset(descriptors, 0, bytes);
	order = bench_map(COLD * sizeof(*order));
	for (uint32_t i = 0; i < COLD; i++) {
		uint32_t other = (uint32_t)bench_between(&random, 0, i);

		order[i] = order[other];
		order[other] = i;
	}
}

struct parallel {
	uint64_t loops;
	bool shared;
};

static void parallel_work(struct orig_worker *worker)
{
	struct parallel *parallel = worker->arg;
	struct page *mine = &descriptors[parallel->shared ? 0 : worker->number];
	struct bench_samples cycles = { 0 };

	for (unsigned int i = 0; i < orig_rounds; i++) {
		struct orig_period period;

		orig_together(worker);
		period = orig_measure(hot, parallel->loops, mine);
		bench_sample(&cycles, (double)period.cycles / (double)period.operations);
	}
	worker->result[0] = bench_median(&cycles);
}

static void parallel(const char *row, uint64_t loops, bool shared)
{
	struct parallel work = { .loops = loops, .shared = shared };
	struct orig_worker worker[ORIG_CPUS_MAX];
	double average = 0;

	orig_team(orig_cpus, parallel_work, &work, worker);
	for (unsigned int i = 0; i < orig_cpus; i++)
		average += worker[i].result[0] / orig_cpus;
	orig_line("update, %s: %.1f cycles, %u CPUs", row, average, orig_cpus);
	bench_row("cycles", average, "update/%s", row);
}

int main(int argc, char **argv)
{
	uint64_t loops;

	orig_begin("descriptor", argc, argv);
	loops = (uint64_t)bench_number("loops", 10000000);
	bench_options_done();
	orig_bind(0);
	prepare();
	orig_line("layout %s, %s", layout[SLUB_CONFIG_LAYOUT],
		  SLUB_CONFIG_LAYOUT == 2 ? "lock bit" : "double-word exchange");
	bench_row("bytes", sizeof(struct page), "memory/descriptor");
	heap(8);
	heap(128);
	orig_time_bench("slab_update hot", "update/hot", hot, loops, &descriptors[1], 0);
	orig_time_bench("slab_update cold", "update/cold", cold_order, COLD, NULL, 0);
	if (orig_cpus > 1) {
		parallel("neighbours", loops / 4, false);
		parallel("shared", loops / 4, true);
	} else {
		orig_left_out("updates from several CPUs: one CPU");
	}
	return orig_end();
}
