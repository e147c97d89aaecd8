/* SPDX-License-Identifier: MIT */
/*
 * time_bench_kmem_cache1: "kmem fastpath reuse", 100,000,000 times alloc and free of one object of
 * an sk_buff's size; and "kmem alloc+free N-pattern", 100,000 times 256 allocations followed by
 * 256 frees in the same order. An operation is one alloc and free.
 *
 * On more than one CPU both run again on all of them at once; a thread each, every thread with its
 * own objects. Corrected there: the average of the CPUs' medians.
 */
#include "source.h"

enum { SKB_BYTES = 256, PATTERN = 256 };

static uint64_t for_loop(uint64_t loops, void *arg)
{
	for (uint64_t i = 0; i < loops; i++)
		bench_escape(arg);
	return loops;
}

static uint64_t reuse(uint64_t loops, void *arg)
{
	const struct source source = *(struct source *)arg;

	for (uint64_t i = 0; i < loops; i++) {
		void *object = source_alloc(&source);

		bench_escape(object);
		source_free(&source, object);
	}
	return loops;
}

static uint64_t npattern(uint64_t loops, void *arg)
{
	const struct source source = *(struct source *)arg;
	void *object[PATTERN];

	for (uint64_t i = 0; i < loops; i++) {
		for (int n = 0; n < PATTERN; n++)
			object[n] = source_alloc(&source);
		bench_escape(object);
		for (int n = 0; n < PATTERN; n++)
			source_free(&source, object[n]);
	}
	return loops * PATTERN;
}

int main(int argc, char **argv)
{
	uint64_t loops, patterns;
	struct source source;

	orig_begin("fastpath_" SOURCE_NAME, argc, argv);
	loops = (uint64_t)bench_number("loops", 100000000);
	patterns = (uint64_t)bench_number("patterns", 100000);
	bench_options_done();
	source = source_create("skbuff_head", SKB_BYTES);

	orig_bind(0);
	orig_line("objects of %d bytes from " SOURCE_NAME, SKB_BYTES);
	orig_time_bench("for_loop", "loop", for_loop, loops, NULL, 0);
	orig_time_bench("kmem fastpath reuse", "reuse", reuse, loops, &source, 0);
	orig_line("alloc N-pattern before free with %d elements", PATTERN);
	orig_time_bench("kmem alloc+free N-pattern", "npattern", npattern, patterns, &source, 0);
	if (orig_cpus > 1) {
		orig_time_parallel("kmem fastpath reuse", "reuse/parallel", reuse, loops, &source);
		orig_time_parallel("kmem alloc+free N-pattern", "npattern/parallel", npattern,
				   patterns, &source);
	} else {
		orig_left_out("the parallel tests: one CPU");
	}
	source_destroy(&source);
	return orig_end();
}
