/* SPDX-License-Identifier: MIT */
/*
 * The test behind the kernel's three page descriptors: 16.8 million objects of one size are
 * allocated, a word of each is written, then all are freed. When the frees begin, the caches hold
 * neither the objects nor the descriptors.
 *
 * "alloc/SIZE", "free/SIZE": ns per object, in order of allocation; with --order=random the frees
 * come shuffled, so that neighbours in time lie in different slabs. Fewer objects where memory is
 * short; "objects/SIZE" says how many. --phase=alloc leaves the objects alone: the difference of
 * two runs under a cache simulator is the frees.
 *
 * A block as large as eight times all of it, never touched, stands beside: libslub keeps an eighth
 * of what is in use when it is freed (with SLUB_RETAIN large enough), so no page goes back to the
 * system while frees are timed.
 */
#include "orig.h"

#include <unistd.h>

static struct {
	size_t objects, budget;
	bool shuffled, no_free;
} option;

static size_t available_bytes(void)
{
	return (size_t)sysconf(_SC_AVPHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
}

/* What an object of this size and its place in the table take, with an eighth for its slab. */
static size_t objects_of(size_t size)
{
	size_t fit = option.budget / (size + size / 8 + 24);

	return fit < option.objects ? fit : option.objects;
}

static void *ballast(void)
{
	void *block = NULL;

	for (size_t bytes = 8 * option.budget; !block && bytes >= option.budget; bytes /= 2)
		block = malloc(bytes);
	if (!block)
		orig_line("no ballast: pages may go back to the system while frees are timed");
	return block;
}

static void shuffle(void **table, size_t objects)
{
	struct bench_random random = { 0x9e3779b97f4a7c15 };

	for (size_t i = objects - 1; i > 0; i--) {
		size_t other = bench_between(&random, 0, i);
		void *moved = table[i];

		table[i] = table[other];
		table[other] = moved;
	}
}

static void measure(size_t size)
{
	size_t objects = objects_of(size), bytes = objects * sizeof(void *);
	void **table;
	uint64_t first;
	double alloc;

	if (objects < 1000) {
		orig_left_out("objects of %zu bytes: memory for %zu of them", size, objects);
		return;
	}
	if (objects < option.objects)
		orig_left_out("%zu bytes: %zu objects of %zu, in half of the free memory", size,
			      objects, option.objects);
	table = bench_map(bytes);
	memset(table, 0, bytes);
	first = bench_cycles();
	for (size_t i = 0; i < objects; i++) {
		table[i] = malloc(size);
		if (!table[i])
			bench_fatal("no memory for object %zu of %zu", i, objects);
		*(size_t *)table[i] = i;
	}
	alloc = orig_ns((double)(bench_cycles() - first) / (double)objects);
	if (option.shuffled)
		shuffle(table, objects);
	if (!option.no_free) {
		double ns;

		first = bench_cycles();
		for (size_t i = 0; i < objects; i++)
			free(table[i]);
		ns = orig_ns((double)(bench_cycles() - first) / (double)objects);
		orig_line("%zu times kmalloc(%zu) -> %.2f ns, cold kfree -> %.2f ns", objects,
			  size, alloc, ns);
		bench_row("ns", alloc, "alloc/%zu", size);
		bench_row("ns", ns, "free/%zu", size);
	}
	bench_row("", (double)objects, "objects/%zu", size);
	bench_unmap(table, bytes);
}

int main(int argc, char **argv)
{
	size_t only;
	void *beside;
	const char *text;

	orig_begin("cold_free", argc, argv);
	option.objects = (size_t)bench_number("objects", 1 << 24);
	option.budget = (size_t)bench_number("mib", 0) << 20;
	only = (size_t)bench_number("size", 0);
	text = bench_string("order", "sequence");
	option.shuffled = !strcmp(text, "random");
	if (!option.shuffled && strcmp(text, "sequence"))
		bench_fatal("--order is sequence or random, not '%s'", text);
	text = bench_string("phase", "both");
	option.no_free = !strcmp(text, "alloc");
	if (!option.no_free && strcmp(text, "both"))
		bench_fatal("--phase is both or alloc, not '%s'", text);
	bench_options_done();
	if (!option.budget)
		option.budget = available_bytes() / 2;
	if (only && (only < 32 || only > 8192 || only & (only - 1)))
		bench_fatal("--size is a power of two from 32 to 8192");

	orig_bind(0);
	beside = ballast();
	for (size_t size = 32; size <= 8192; size *= 2)
		if (!only || only == size)
			measure(size);
	free(beside);
	return orig_end();
}
