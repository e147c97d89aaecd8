/* SPDX-License-Identifier: MIT */
/*
 * Norm against PCPU, the table that per-CPU structures came into SLUB with, of this library.
 *
 *   Norm   one list of free objects per cache for all CPUs, under a lock, over the library's own
 *          refill and flush
 *   PCPU   the library: a list per CPU and cache
 *
 * Kmalloc: 10,000 allocations, a byte of each written, cycles per allocation (they are freed after
 * the clock has stopped). Alloc/Free: 10,000 pairs. On one CPU, and on all at once. Below each
 * size, corrected: medians of the rounds after the first, which meets fresh memory.
 */
#include "orig.h"

#include <malloc.h>
#include <stdio.h>

#include "core/slab/slab_internal.h"

enum { OBJECTS = 10000, SIZE_MAX_TESTED = 16384, WAYS = 2 };

/* --- Norm --- */

static struct {
	_Atomic uint32_t locked __attribute__((aligned(128)));
	struct slub_cache *cache;
	void *head;
	uint32_t nr;
} shared;

static void shared_lock(void)
{
	unsigned int spins = 0;

	while (__atomic_exchange_n(&shared.locked, 1, __ATOMIC_ACQUIRE))
		while (__atomic_load_n(&shared.locked, __ATOMIC_RELAXED))
			orig_relax(&spins);
}

static void shared_unlock(void)
{
	__atomic_store_n(&shared.locked, 0, __ATOMIC_RELEASE);
}

static void *norm_alloc(size_t size)
{
	struct slub_cache *cache = shared.cache;
	void *object;

	(void)size;
	shared_lock();
	if (!shared.head) {
		shared.nr = (uint32_t)cache->capacity;
		shared.head = node_refill(cache, node_current(cache), &shared.nr);
		if (!shared.head)
			bench_fatal("no memory");
	}
	object = shared.head;
	shared.head = *link_of(cache, object);
	shared.nr--;
	shared_unlock();
	return object;
}

static void norm_free(void *object)
{
	struct slub_cache *cache = shared.cache;
	void *full = NULL;

	shared_lock();
	if (shared.nr >= 2 * (uint32_t)cache->capacity) {
		full = shared.head;
		shared.head = NULL;
		shared.nr = 0;
	}
	*link_of(cache, object) = shared.head;
	shared.head = object;
	shared.nr++;
	shared_unlock();
	if (full) {
		chain_flush(cache, full);
		slab_reclaim_if_needed();
	}
}

static void norm_select(size_t size)
{
	void *object = bench_malloc(size);

	shared.cache = cache_of(object);
	free(object);
	if (!shared.cache)
		bench_fatal("no cache of %zu bytes", size);
}

static void norm_leave(void)
{
	if (shared.head)
		chain_flush(shared.cache, shared.head);
	shared.head = NULL;
	shared.nr = 0;
	malloc_trim(0);		/* who comes next begins with fresh memory as well */
}

/* --- the loops --- */

struct way {
	const char *name;
	void *(*alloc)(size_t size);
	void (*free)(void *object);
};

/* Through pointers both, so that the call costs the same. */
static const struct way ways[WAYS] = {
	{ "Norm", norm_alloc, norm_free },
	{ "PCPU", malloc, free },
};

struct cell {
	const struct way *way;
	size_t size;
};

/* The first round is the classic figure, the ones behind it are samples. */
static void note(struct bench_samples *samples, double *classic, unsigned int round, double cycles)
{
	if (round)
		bench_sample(samples, cycles);
	else
		*classic = cycles;
}

static void phases(struct orig_worker *worker)
{
	const struct cell *cell = worker->arg;
	struct bench_samples kmalloc = { 0 }, pair = { 0 };
	void **object = bench_map(OBJECTS * sizeof(void *));

	for (unsigned int round = 0; round <= orig_rounds; round++) {
		uint64_t first;
		double cycles;

		orig_together(worker);
		first = bench_cycles();
		for (int i = 0; i < OBJECTS; i++) {
			object[i] = cell->way->alloc(cell->size);
			*(volatile char *)object[i] = (char)i;
		}
		cycles = (double)(bench_cycles() - first) / OBJECTS;
		note(&kmalloc, &worker->result[2], round, cycles);
		for (int i = 0; i < OBJECTS; i++)
			cell->way->free(object[i]);
		orig_together(worker);
		first = bench_cycles();
		for (int i = 0; i < OBJECTS; i++)
			cell->way->free(cell->way->alloc(cell->size));
		cycles = (double)(bench_cycles() - first) / OBJECTS;
		note(&pair, &worker->result[3], round, cycles);
	}
	worker->result[0] = bench_median(&kmalloc);
	worker->result[1] = bench_median(&pair);
	bench_unmap(object, OBJECTS * sizeof(void *));
}

/* result[0], [1]: corrected Kmalloc, Alloc/Free; [2], [3]: the first round's. */
static void measure(const struct way *way, size_t size, unsigned int cpus, double result[4])
{
	struct orig_worker worker[ORIG_CPUS_MAX];
	struct cell cell = { way, size };

	norm_select(size);
	orig_team(cpus, phases, &cell, worker);
	norm_leave();
	for (int what = 0; what < 4; what++) {
		result[what] = 0;
		for (unsigned int i = 0; i < cpus; i++)
			result[what] += worker[i].result[what] / cpus;
	}
}

static void rows(double result[4], const char *name, size_t size, const char *where)
{
	bench_row("cycles", result[0], "%s/kmalloc/%zu/%s", where, size, name);
	bench_row("cycles", result[1], "%s/pair/%zu/%s", where, size, name);
}

static void one_size(size_t size)
{
	double one[WAYS][4], all[WAYS][4];

	for (int way = 0; way < WAYS; way++) {
		measure(&ways[way], size, 1, one[way]);
		rows(one[way], ways[way].name, size, "single");
		if (orig_cpus == 1)
			continue;
		measure(&ways[way], size, orig_cpus, all[way]);
		rows(all[way], ways[way].name, size, "concurrent");
	}
	for (int what = 2; what >= 0; what -= 2) {
		const char *corrected = what ? "" : "    corrected";

		printf("%13s%6zu  %6.0f %6.0f   %6.0f %6.0f", corrected, size, one[0][what],
		       one[1][what], one[0][what + 1], one[1][what + 1]);
		if (orig_cpus > 1)
			printf("   %6.0f %6.0f   %6.0f %6.0f", all[0][what], all[1][what],
			       all[0][what + 1], all[1][what + 1]);
		putchar('\n');
	}
}

int main(int argc, char **argv)
{
	orig_begin("shared_cache", argc, argv);
	bench_options_done();
	orig_line("%21sSingle threaded%19sConcurrent Alloc", "", "");
	orig_line("%21sKmalloc         Alloc/Free      Kmalloc         Alloc/Free", "");
	orig_line("%13s  Size  Norm   PCPU     Norm   PCPU     Norm   PCPU     Norm   PCPU", "");
	orig_line("----------------------------------------------------------------------------");
	for (size_t size = 8; size <= SIZE_MAX_TESTED; size *= 2)
		one_size(size);
	if (orig_cpus == 1)
		orig_left_out("the concurrent columns: one CPU");
	return orig_end();
}
