/* SPDX-License-Identifier: MIT */
/*
 * page_bench: what 2^order pages cost, alloc and free, and what that is for each 4,096 bytes.
 *
 *   reuse           the same block again and again, as page_bench01 does
 *   outstanding     64 blocks, or 64 MiB of them, allocated and then freed (page_bench02)
 *   parallel        `outstanding` on every CPU at once, 16 MiB each (page_bench03)
 *
 * Blocks are not touched. Built twice: on malloc, where an order is a size; and (PAGE_INNER) on the
 * page layer inside libslub, which is what the kernel's test calls.
 */
#include "orig.h"

#if PAGE_INNER

#include "page/page.h"

#define PAGES_NAME "block_alloc"
enum { ORDER_MAX = BLOCK_ORDER_MAX };

static inline void *pages_alloc(unsigned int order)
{
	return block_alloc(order, 0, NULL);
}

static inline void pages_free(void *pages, unsigned int order)
{
	block_free(pages, order, 0);
}

#else

#define PAGES_NAME "malloc"
enum { ORDER_MAX = 10 };

static inline void *pages_alloc(unsigned int order)
{
	return malloc((size_t)4096 << order);
}

static inline void pages_free(void *pages, unsigned int order)
{
	(void)order;
	free(pages);
}

#endif

enum { OUTSTANDING_MAX = 64 };

struct load {
	unsigned int order, outstanding;
	uint64_t rounds;
};

static unsigned int outstanding_of(unsigned int order, size_t bytes)
{
	size_t fit = bytes / ((size_t)4096 << order);

	return fit < OUTSTANDING_MAX ? (unsigned int)fit : OUTSTANDING_MAX;
}

static uint64_t work(uint64_t rounds, void *arg)
{
	const struct load load = *(struct load *)arg;
	void *block[OUTSTANDING_MAX];

	for (uint64_t i = 0; i < rounds; i++) {
		for (unsigned int n = 0; n < load.outstanding; n++)
			block[n] = pages_alloc(load.order);
		bench_escape(block);
		if (!block[load.outstanding - 1])
			bench_fatal("no block of order %u", load.order);
		for (unsigned int n = 0; n < load.outstanding; n++)
			pages_free(block[n], load.order);
	}
	return rounds * load.outstanding;
}

static void print(const char *name, unsigned int order, double cycles)
{
	size_t pages = (size_t)1 << order;

	orig_line("%s order:%u(%zuB/x%zu) %lu cycles per-4096B %lu cycles", name, order,
		  pages * 4096, pages, (unsigned long)cycles, (unsigned long)cycles / pages);
	orig_line("    corrected: %.1f cycles, per-4096B %.2f cycles", cycles,
		  cycles / (double)pages);
	bench_row("cycles", cycles, "%s/%u", name, order);
	bench_row("cycles", cycles / (double)pages, "%s/%u/each page", name, order);
}

static double measure(struct load *load)
{
	struct bench_samples cycles = { 0 };

	work(load->rounds / 10 + 1, load);
	for (unsigned int i = 0; i < orig_rounds; i++) {
		struct orig_period period = orig_measure(work, load->rounds, load);

		bench_sample(&cycles, (double)period.cycles / (double)period.operations);
	}
	return bench_median(&cycles);
}

static void parallel_work(struct orig_worker *worker)
{
	struct load load = *(struct load *)worker->arg;

	worker->result[0] = measure(&load);
}

static void parallel(uint64_t rounds)
{
	struct orig_worker worker[ORIG_CPUS_MAX];

	for (unsigned int order = 0; order <= ORDER_MAX; order++) {
		unsigned int outstanding = outstanding_of(order, (size_t)16 << 20);
		struct load load = { order, outstanding, rounds / outstanding + 1 };
		double average = 0;

		orig_team(orig_cpus, parallel_work, &load, worker);
		for (unsigned int i = 0; i < orig_cpus; i++)
			average += worker[i].result[0] / orig_cpus;
		orig_line("Parallel-CPUs:%u page order:%u", orig_cpus, order);
		print("parallel", order, average);
	}
}

int main(int argc, char **argv)
{
	uint64_t loops;

	orig_begin("page_order_" PAGES_NAME, argc, argv);
	loops = (uint64_t)bench_number("loops", 1000000);
	bench_options_done();
	orig_bind(0);
	free(bench_malloc(16));		/* starts the library */
	orig_line("pages from " PAGES_NAME);
	for (unsigned int order = 0; order <= ORDER_MAX; order++) {
		struct load load = { order, 1, loops };

		print("reuse", order, measure(&load));
	}
	for (unsigned int order = 0; order <= ORDER_MAX; order++) {
		unsigned int outstanding = outstanding_of(order, (size_t)64 << 20);
		struct load load = { order, outstanding, loops / outstanding / 4 + 1 };

		print("outstanding", order, measure(&load));
	}
	if (orig_cpus > 1)
		parallel(loops / 4);
	else
		orig_left_out("the parallel test: one CPU");
	return orig_end();
}
