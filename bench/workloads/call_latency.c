/* SPDX-License-Identifier: MIT */
/*
 * How long single calls take: each of --threads threads holds 512 objects and replaces one at
 * random, of 16 to 4,095 bytes, --ops times in all. Each malloc and each free is timed by the
 * time stamp counter on its own and counted in a histogram whose steps are 1/16 of a power of two
 * (at least 1 ns), so that a percentile is at most 6 % off; reading the counter is part of each
 * figure, and "clock/p50" is that reading alone.
 *
 * Rows malloc-p50 p99 p99.9 p99.99 max and free-..., in ns.
 */
#include "workload.h"

#include <pthread.h>

enum { LIVE = 512, FINE = 16, POWERS = 44, BUCKETS = FINE * POWERS, THREADS_MAX = 4096 };

struct histogram {
	uint64_t count[BUCKETS];
	uint64_t most;			/* cycles, exactly */
};

static double ns_per_cycle;
static long steps;
static struct histogram all_malloc, all_free, clock_only;
static pthread_mutex_t adding = PTHREAD_MUTEX_INITIALIZER;

/* Cycles below FINE have a bucket each; above, FINE buckets to a power of two. */
static size_t bucket_of(uint64_t cycles)
{
	size_t power, bucket;

	if (cycles < FINE)
		return cycles;
	power = 63 - (size_t)__builtin_clzll(cycles);
	bucket = (power - 3) * FINE + ((cycles >> (power - 4)) & (FINE - 1));
	return bucket < BUCKETS ? bucket : BUCKETS - 1;
}

/* The highest number of cycles that falls into the bucket. */
static double top_of(size_t bucket)
{
	size_t power = bucket / FINE + 3;

	if (bucket < FINE)
		return (double)bucket;
	return (double)(((FINE + bucket % FINE + 1) << (power - 4)) - 1);
}

static void count(struct histogram *histogram, uint64_t cycles)
{
	histogram->count[bucket_of(cycles)]++;
	if (cycles > histogram->most)
		histogram->most = cycles;
}

static void add(struct histogram *sum, const struct histogram *one)
{
	if (one->most > sum->most)
		sum->most = one->most;
	for (int i = 0; i < BUCKETS; i++)
		sum->count[i] += one->count[i];
}

static void churn(struct histogram *mallocs, struct histogram *frees, int seed)
{
	struct bench_random random = workload_random(seed);
	void *object[LIVE] = { 0 };

	for (long i = 0; i < steps; i++) {
		size_t which = bench_between(&random, 0, LIVE - 1);
		size_t size = bench_between(&random, 16, 4095);
		uint64_t start = bench_cycles(), middle, end;

		free(object[which]);
		middle = bench_cycles();
		object[which] = malloc(size);
		end = bench_cycles();
		*(volatile char *)object[which] = 1;
		count(frees, middle - start);
		count(mallocs, end - middle);
	}
	for (int i = 0; i < LIVE; i++)
		free(object[i]);
}

static void body(int index)
{
	size_t bytes = 2 * sizeof(struct histogram);
	struct histogram *mine = bench_map(bytes);

	churn(&mine[0], &mine[1], index);
	pthread_mutex_lock(&adding);
	add(&all_malloc, &mine[0]);
	add(&all_free, &mine[1]);
	pthread_mutex_unlock(&adding);
	bench_unmap(mine, bytes);
}

static void measure_clock(void)
{
	double began = bench_seconds();
	uint64_t start = bench_cycles();

	bench_sleep(0.05);
	ns_per_cycle = (bench_seconds() - began) * 1e9 / (double)(bench_cycles() - start);
	for (int i = 0; i < 10000; i++) {
		start = bench_cycles();
		count(&clock_only, bench_cycles() - start);
	}
}

static double total(const struct histogram *histogram)
{
	double sum = 0;

	for (int i = 0; i < BUCKETS; i++)
		sum += (double)histogram->count[i];
	return sum;
}

static double percentile(const struct histogram *histogram, double share)
{
	double seen = 0, limit = share * total(histogram);
	size_t last = 0;

	for (size_t i = 0; i < BUCKETS; i++) {
		if (!histogram->count[i])
			continue;
		last = i;
		seen += (double)histogram->count[i];
		if (seen >= limit)
			break;
	}
	return top_of(last) * ns_per_cycle;
}

static void report(const char *call, const struct histogram *histogram)
{
	static const struct {
		const char *name;
		double share;
	} shown[] = { { "p50", 0.5 }, { "p99", 0.99 }, { "p99.9", 0.999 }, { "p99.99", 0.9999 } };

	for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++)
		bench_row("ns", percentile(histogram, shown[i].share), "%s-%s", call,
			  shown[i].name);
	bench_row("ns", (double)histogram->most * ns_per_cycle, "%s-max", call);
}

int main(int argc, char **argv)
{
	double operations;
	long threads;

	workload_begin("call_latency", argc, argv);
	threads = workload_long("threads", 2, 1, THREADS_MAX);
	steps = workload_long("ops", 4000000, 1, 1000000000) / threads;
	bench_options_done();
	measure_clock();
	operations = (double)threads * (double)steps;
	workload_start();
	workload_threads((int)threads, body);
	workload_stop(operations);
	report("malloc", &all_malloc);
	report("free", &all_free);
	bench_row("ns", percentile(&clock_only, 0.5), "clock/p50");
	return workload_finish();
}
