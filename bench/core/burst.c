/* SPDX-License-Identifier: MIT */
/*
 * A burst: 1 GiB of objects of 16 to 512 bytes allocated and written, all freed, and then nothing:
 * the process makes no call at all. Resident memory before, at the peak, right after the last
 * free, and one second later. --order in|reverse|random says in which order they are freed.
 */
#include "bench.h"

static void shuffle(void **object, size_t count)
{
	struct bench_random random = { 2463534242u };

	for (size_t i = count; i > 1; i--) {
		size_t j = bench_between(&random, 0, i - 1);
		void *other = object[j];

		object[j] = object[i - 1];
		object[i - 1] = other;
	}
}

static void release(void **object, size_t count, const char *order)
{
	if (!strcmp(order, "reverse"))
		for (size_t i = count; i-- > 0;)
			free(object[i]);
	else
		for (size_t i = 0; i < count; i++)
			free(object[i]);
}

static size_t fill(void **object, size_t bytes, size_t room)
{
	struct bench_random random = { 88172645463325252u };
	size_t count = 0;

	for (size_t sum = 0; sum < bytes && count < room;) {
		size_t size = bench_between(&random, 16, 512);

		object[count] = bench_malloc(size);
		memset(object[count++], 1, size);
		sum += size;
	}
	return count;
}

int main(int argc, char **argv)
{
	size_t bytes, room, count;
	double before, peak, began, mib, filled, freed;
	const char *order;
	void **object;

	bench_begin("burst", argc, argv);
	mib = bench_number("mib", 1024);
	order = bench_string("order", "in");
	bench_options_done();
	if (strcmp(order, "in") && strcmp(order, "reverse") && strcmp(order, "random"))
		bench_fatal("--order is in, reverse or random, not '%s'", order);

	bytes = (size_t)(mib * BENCH_MIB);
	room = bytes / 200 + 1;			/* the mean is 264 bytes */
	/* What the allocator keeps from the first call on is no part of the burst. */
	free(bench_malloc(16));
	before = bench_memory(0).rss;
	object = bench_map(room * sizeof(*object));

	began = bench_seconds();
	count = fill(object, bytes, room);
	filled = bench_seconds() - began;
	peak = bench_memory(0).rss - (double)(count * sizeof(*object));
	if (!strcmp(order, "random"))
		shuffle(object, count);
	began = bench_seconds();
	release(object, count, order);
	freed = bench_seconds() - began;
	bench_unmap(object, room * sizeof(*object));

	bench_row("MiB", before / BENCH_MIB, "before/%s", order);
	bench_row("MiB", peak / BENCH_MIB, "peak/%s", order);
	bench_row("MiB", bench_memory(0).rss / BENCH_MIB, "after-0s/%s", order);
	bench_sleep(1);
	bench_row("MiB", bench_memory(0).rss / BENCH_MIB, "after-1s/%s", order);
	bench_row("ns", filled * 1e9 / (double)count, "alloc/%s", order);
	bench_row("ns", freed * 1e9 / (double)count, "free/%s", order);
	return bench_end();
}
