/* SPDX-License-Identifier: MIT */
/*
 * Imitates a service over a day, compressed: most objects live for an instant, one in eight for
 * long, and what is asked for changes from hour to hour, so that holes of yesterday's sizes are
 * between the objects that stay. --mib of long-lived objects are kept at any time; when there are
 * more, random ones go. One operation: one allocation. The last phase: everything is freed.
 *
 * Row "held": resident bytes at the end of the day, before that, by the bytes that the program
 * holds then (1.0: nothing wasted).
 */
#include "workload.h"

enum { SHORT = 512, LONG_MAX = 1 << 20, HOURS_KINDS = 6, LONG_SHARE = 8 };

struct block {
	char *at;
	size_t size;
};

static struct block *longs;
static long long_count, long_most;
static size_t long_bytes, budget;
static void *shorts[SHORT];

static void drop_random(struct bench_random *random)
{
	size_t which = bench_between(random, 0, (size_t)long_count - 1);

	free(longs[which].at);
	long_bytes -= longs[which].size;
	longs[which] = longs[--long_count];
}

static void keep(struct bench_random *random, size_t size)
{
	while (long_count && (long_bytes + size > budget || long_count == LONG_MAX))
		drop_random(random);
	longs[long_count].at = workload_object(size);
	longs[long_count++].size = size;
	if (long_count > long_most)
		long_most = long_count;
	long_bytes += size;
}

/* What this hour asks for: between 16 and 128 bytes in one, 512 and 4,096 in another. */
static void hour(struct bench_random *random, int number, long operations)
{
	size_t low = (size_t)16 << number * 5 % HOURS_KINDS;

	for (long i = 0; i < operations; i++) {
		size_t size = workload_size(random, low, low * 8);

		if (i % LONG_SHARE == 0) {
			keep(random, size);
		} else {
			size_t which = bench_between(random, 0, SHORT - 1);

			free(shorts[which]);
			shorts[which] = workload_object(size);
		}
	}
}

int main(int argc, char **argv)
{
	struct bench_random random = workload_random(0);
	long hours, each;
	double held;

	workload_begin("mix", argc, argv);
	hours = workload_long("hours", 24, 1, 100000);
	each = workload_long("ops", 6000000, 1, 1000000000) / hours;
	budget = (size_t)workload_long("mib", 24, 1, 1 << 16) << 20;
	bench_options_done();
	longs = bench_map(LONG_MAX * sizeof(*longs));
	workload_start();
	for (int i = 0; i < hours; i++)
		hour(&random, i, each);
	workload_stop((double)(each * hours));
	for (int i = 0; i < SHORT; i++)
		free(shorts[i]);
	held = bench_memory(0).anonymous - (double)long_most * sizeof(*longs);
	bench_row("by 1", held / (double)long_bytes, "held");
	while (long_count)
		drop_random(&random);
	bench_unmap(longs, LONG_MAX * sizeof(*longs));
	return workload_finish();
}
