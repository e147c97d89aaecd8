/* SPDX-License-Identifier: MIT */
/*
 * Walks over the shrinkers of the case of the kernel's patches: lock-free against a read-write
 * lock, from 1 to 64 threads, and a walk with nothing to reclaim against the full product.
 *
 * Usage: reclaim_walk [--groups N] [--active N] [--rounds N] [--ms N]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

static uint32_t groups = 4000, active = 3000;
static int rounds = 5;
static uint64_t ns = 200000000;

static void lock_free(void *arg)
{
	(void)arg;
	shrinkers_run(SLUB_SHRINK_PRIORITY_MAX, NULL);
}

static void locked(void *arg)
{
	(void)arg;
	locked_walk(SLUB_SHRINK_PRIORITY_MAX);
}

static void compare_threads(void)
{
	double first = 0;

	printf("%-8s %14s %14s %8s %8s\n", "threads", "lock-free/s", "rwlock/s", "ratio",
	       "flat");
	for (int threads = 1; threads <= 64; threads *= 2) {
		double a[ROUNDS_MAX], b[ROUNDS_MAX], free_median, locked_median;

		for (int i = 0; i < rounds; i++) {
			a[i] = run_threads(threads, ns, lock_free, NULL);
			b[i] = run_threads(threads, ns, locked, NULL);
		}
		free_median = median(a, rounds);
		locked_median = median(b, rounds);
		if (threads == 2)
			first = free_median;
		printf("%-8d %14.0f %14.0f %8.2f %8.2f\n", threads, free_median, locked_median,
		       free_median / locked_median, first ? free_median / first : 0);
	}
	printf("walks per second of CPU time; flat: lock-free, compared with 2 threads\n");
}

static void count_instructions(void)
{
	int fd = instructions_open();
	uint64_t start = instructions_read(fd), middle, end;

	if (!start && fd < 0) {
		printf("instructions per walk: this machine does not count them\n");
		return;
	}
	lock_free(NULL);
	middle = instructions_read(fd);
	locked(NULL);
	end = instructions_read(fd);
	printf("instructions per walk: lock-free %lu, rwlock %lu\n", middle - start,
	       end - middle);
}

static double us_of(void (*body)(void *), int times)
{
	uint64_t start = now_ns();

	for (int i = 0; i < times; i++)
		body(NULL);
	return (double)(now_ns() - start) / 1e3 / times;
}

static void product(void *arg)
{
	(void)arg;
	product_walk(SLUB_SHRINK_PRIORITY_MAX);
}

static void nothing_to_do(void)
{
	double first, empty[ROUNDS_MAX], lock[ROUNDS_MAX], all;

	machine_fill(active, 0);
	first = us_of(lock_free, 1);
	for (int i = 0; i < rounds; i++) {
		empty[i] = us_of(lock_free, 1000);
		lock[i] = us_of(locked, 100);
	}
	all = us_of(product, 1);
	printf("\nnothing active: bitmaps %.3f us a walk (the first, which clears the bits, "
	       "%.0f us), rwlock per group %.1f us, full product %.0f us\n",
	       median(empty, rounds), first, median(lock, rounds), all);
	printf("full product / bitmaps: %.0f\n", all / median(empty, rounds));
}

static void options(int argc, char **argv)
{
	for (int i = 1; i + 1 < argc; i += 2) {
		long value = atol(argv[i + 1]);

		if (!strcmp(argv[i], "--groups"))
			groups = (uint32_t)value;
		else if (!strcmp(argv[i], "--active"))
			active = (uint32_t)value;
		else if (!strcmp(argv[i], "--rounds") && value > 0 && value <= ROUNDS_MAX)
			rounds = (int)value;
		else if (!strcmp(argv[i], "--ms"))
			ns = (uint64_t)value * 1000000;
		else
			fprintf(stderr, "reclaim_walk: %s %s is ignored\n", argv[i], argv[i + 1]);
	}
	if (active > groups)
		active = groups;
}

int main(int argc, char **argv)
{
	options(argc, argv);
	printf("%u groups, %u shrinkers active, medians of %d rounds, interleaved\n", groups,
	       active, rounds);
	machine_make(groups, active);
	compare_threads();
	count_instructions();
	nothing_to_do();
	return 0;
}
