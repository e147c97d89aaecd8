/* SPDX-License-Identifier: MIT */
/*
 * slab_bulk_test03, the worst case of a bulk free: neighbours in the array lie in different slabs.
 *
 * 4,096 objects of 216 bytes are allocated, arranged untimed, and freed, timed: 64 at once or one
 * by one; in order of allocation, then so that N neighbours share a page (N-page-match) before
 * one of another page follows, from 1 ("worst-case") on.
 *
 * libslub keeps chains of free objects as they come and hands them out again: where they lie
 * matters when they go back to their slabs. "returned" has that in its time: the same frees, and
 * slub_cache_shrink().
 */
#include "source.h"

#include <stdio.h>

enum { OBJECT_BYTES = 216, OBJECTS = 4096, BULK = 64, BUCKETS = 16, PAGE_SHIFT = 12 };

static struct slub_cache *cache;
static void *object[OBJECTS];

static void release_bulk(void)
{
	for (int i = 0; i < OBJECTS; i += BULK)
		slub_cache_free_bulk(cache, BULK, object + i);
}

static void release_single(void)
{
	for (int i = 0; i < OBJECTS; i++)
		slub_cache_free(cache, object[i]);
}

/* Takes `match` objects of one bucket of pages after the other. */
static void arrange(int match)
{
	static void *bucket[BUCKETS][OBJECTS];
	int left[BUCKETS] = { 0 }, taken = 0;

	for (int i = 0; i < OBJECTS; i++) {
		int hash = (int)((uintptr_t)object[i] >> PAGE_SHIFT) & (BUCKETS - 1);

		bucket[hash][left[hash]++] = object[i];
	}
	for (int from = 0; taken < OBJECTS; from = (from + 1) % BUCKETS)
		for (int n = 0; n < match && left[from]; n++)
			object[taken++] = bucket[from][--left[from]];
}

static void release_returned(void)
{
	release_bulk();
	slub_cache_shrink(cache);
}

static double once(void (*release)(void), int match)
{
	uint64_t first;

	for (int i = 0; i < OBJECTS; i++)
		object[i] = slub_cache_alloc(cache);
	if (match)
		arrange(match);
	first = bench_cycles();
	release();
	return (double)(bench_cycles() - first) / OBJECTS;
}

static void measure(const char *type, const char *row, void (*release)(void), int match,
		    unsigned int rounds)
{
	struct bench_samples cycles = { 0 };
	double median;

	once(release, match);
	for (unsigned int i = 0; i < rounds; i++)
		bench_sample(&cycles, once(release, match));
	median = bench_median(&cycles);
	orig_line("Type:%s Per elem: %lu cycles(tsc) %.3f ns (step:%d)", type,
		  (unsigned long)median, orig_ns(median), BULK);
	orig_line("    corrected: %.2f cycles to free one", median);
	bench_row("cycles", median, "%s", row);
}

int main(int argc, char **argv)
{
	static const int matches[] = { 1, 2, 3, 4, 5, 6, 10, BULK + 1 };
	struct source source;
	unsigned int rounds;

	orig_begin("bulk_scattered", argc, argv);
	rounds = (unsigned int)bench_number("repeats", 200);
	if (rounds < 1 || rounds > BENCH_SAMPLES_MAX)
		bench_fatal("--repeats is 1 to %d", BENCH_SAMPLES_MAX);
	bench_options_done();
	orig_bind(0);
	source = source_create("slab_bulk_test03", OBJECT_BYTES);
	cache = source.cache;
	measure("in order, single", "in order/single", release_single, 0, rounds);
	measure("in order, bulk", "in order/bulk", release_bulk, 0, rounds);
	measure("worst-case-fallback", "worst case/single", release_single, 1, rounds);
	for (size_t i = 0; i < sizeof(matches) / sizeof(matches[0]); i++) {
		char type[40], row[40];

		snprintf(type, sizeof(type), "%d-page-match", matches[i]);
		snprintf(row, sizeof(row), "%d page match/bulk", matches[i]);
		measure(matches[i] == 1 ? "worst-case-bulk" : type, row, release_bulk, matches[i],
			rounds);
	}
	measure("in order, returned", "in order/returned", release_returned, 0, rounds);
	measure("worst-case, returned", "worst case/returned", release_returned, 1, rounds);
	source_destroy(&source);
	return orig_end();
}
