/* SPDX-License-Identifier: MIT */
/*
 * slab_bulk_test01: alloc and free of 1 to 250 objects at once against as many single calls. An
 * operation is one object's alloc and free, a step the objects of one call.
 */
#include "source.h"

#include <stdio.h>

enum { OBJECT_BYTES = 256, BULK_MAX = 250 };

struct bulk {
	struct slub_cache *cache;
	unsigned int nr;
};

static uint64_t for_loop(uint64_t loops, void *arg)
{
	for (uint64_t i = 0; i < loops; i++)
		bench_escape(arg);
	return loops;
}

static uint64_t single(uint64_t loops, void *arg)
{
	struct slub_cache *cache = ((struct bulk *)arg)->cache;

	for (uint64_t i = 0; i < loops; i++) {
		void *object = slub_cache_alloc(cache);

		bench_escape(object);
		slub_cache_free(cache, object);
	}
	return loops;
}

static uint64_t fallback(uint64_t loops, void *arg)
{
	const struct bulk bulk = *(struct bulk *)arg;
	void *object[BULK_MAX];

	for (uint64_t i = 0; i < loops; i++) {
		for (unsigned int n = 0; n < bulk.nr; n++)
			object[n] = slub_cache_alloc(bulk.cache);
		bench_escape(object);
		for (unsigned int n = 0; n < bulk.nr; n++)
			slub_cache_free(bulk.cache, object[n]);
	}
	return loops * bulk.nr;
}

static uint64_t quick_reuse(uint64_t loops, void *arg)
{
	const struct bulk bulk = *(struct bulk *)arg;
	void *object[BULK_MAX];

	for (uint64_t i = 0; i < loops; i++) {
		if (slub_cache_alloc_bulk(bulk.cache, 0, bulk.nr, object) != bulk.nr)
			bench_fatal("%u objects at once were refused", bulk.nr);
		bench_escape(object);
		slub_cache_free_bulk(bulk.cache, bulk.nr, object);
	}
	return loops * bulk.nr;
}

int main(int argc, char **argv)
{
	static const unsigned int sizes[] = { 1,  2,  3,  4,  8,   16,  30,
					      32, 34, 48, 64, 128, 158, 250 };
	struct source source;
	struct bulk bulk;
	uint64_t loops;
	double alone;

	orig_begin("bulk", argc, argv);
	loops = (uint64_t)bench_number("loops", 10000000);
	bench_options_done();
	orig_bind(0);
	source = source_create("slab_bulk_test01", OBJECT_BYTES);
	bulk.cache = source.cache;
	orig_time_bench("for_loop", "loop", for_loop, loops * 10, NULL, 0);
	alone = orig_time_bench("kmem fastpath reuse", "reuse", single, loops, &bulk, 0);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		char row[40];
		double ns;

		bulk.nr = sizes[i];
		snprintf(row, sizeof(row), "fallback/%u", bulk.nr);
		orig_time_bench("kmem bulk_fallback", row, fallback, loops / bulk.nr + 1, &bulk,
				bulk.nr);
		snprintf(row, sizeof(row), "bulk/%u", bulk.nr);
		ns = orig_time_bench("kmem bulk_quick_reuse", row, quick_reuse,
				     loops / bulk.nr + 1, &bulk, bulk.nr);
		orig_line("    corrected: %.2f of a single alloc and free", ns / alone);
		bench_row("x", ns / alone, "ratio/%u", bulk.nr);
	}
	source_destroy(&source);
	return orig_end();
}
