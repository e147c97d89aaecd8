/* SPDX-License-Identifier: MIT */
/*
 * How many objects a slab holds, and what it costs to have more of them than 16 bits count, which
 * was the most before the counts left `struct page` (2007: "the number of objects per slab is no
 * longer limited to a 16 bit number"). SLUB_TEST_MIN_ORDER says how large slabs are at the least.
 *
 * A million objects of 8 bytes are allocated and then freed in order; each round begins without a
 * slab. Objects and slabs are what slub_cache_stats() says while all are allocated.
 */
#include "orig.h"

#include <slub/cache.h>

enum { OBJECT_BYTES = 8, OBJECTS_MAX = 1 << 20 };

static void **objects;

static void fill(struct slub_cache *cache, uint32_t nr)
{
	for (uint32_t i = 0; i < nr; i++) {
		objects[i] = slub_cache_alloc(cache);
		if (!objects[i])
			bench_fatal("no object");
		*(uintptr_t *)objects[i] = i;
	}
}

/* Were two of them one object, the first would have the second's number. */
static void drop(struct slub_cache *cache, uint32_t nr)
{
	for (uint32_t i = 0; i < nr; i++) {
		if (*(uintptr_t *)objects[i] != i)
			bench_fatal("object %u is another one too", i);
		slub_cache_free(cache, objects[i]);
	}
}

int main(int argc, char **argv)
{
	struct bench_samples alloc = { 0 }, release = { 0 };
	struct slub_cache_stats stats;
	struct slub_cache *cache;
	uint32_t nr;

	orig_begin("slab_objects", argc, argv);
	nr = (uint32_t)bench_number("objects", OBJECTS_MAX);
	bench_options_done();
	if (nr < 1 || nr > OBJECTS_MAX)
		bench_fatal("--objects is 1 to %d", OBJECTS_MAX);
	orig_bind(0);
	objects = bench_map(OBJECTS_MAX * sizeof(*objects));
	cache = slub_cache_create("slab_objects", OBJECT_BYTES, 0, SLUB_CACHE_NO_MERGE, NULL);
	if (!cache)
		bench_fatal("no cache");
	for (unsigned int i = 0; i < orig_rounds; i++) {
		uint64_t first = bench_cycles(), middle;

		fill(cache, nr);
		middle = bench_cycles();
		bench_sample(&alloc, (double)(middle - first) / nr);
		slub_cache_stats(cache, &stats);
		middle = bench_cycles();
		drop(cache, nr);
		bench_sample(&release, (double)(bench_cycles() - middle) / nr);
		if (slub_cache_shrink(cache))
			bench_fatal("a slab is still in use");
	}
	orig_line("%u objects of %d bytes: %lu slabs of %lu objects each", nr, OBJECT_BYTES,
		  stats.slabs, stats.objects / stats.slabs);
	orig_line("    %.1f cycles per alloc, %.1f per free", bench_median(&alloc),
		  bench_median(&release));
	bench_row("", (double)(stats.objects / stats.slabs), "objects per slab");
	bench_row("", (double)stats.slabs, "slabs");
	bench_row("cycles", bench_median(&alloc), "alloc");
	bench_row("cycles", bench_median(&release), "free");
	slub_cache_destroy(cache);
	return orig_end();
}
