/* SPDX-License-Identifier: MIT */
/*
 * How long single calls take, in a churn of 16 to 4,095 bytes: each of --threads threads holds 512
 * objects and replaces one at random, --steps times in all. Percentiles of malloc and of free in
 * ns, counted in steps of 16 and up to 65,520; reading the clock is part of each figure.
 */
#include "bench.h"

#include <pthread.h>

enum { LIVE = 512, BUCKETS = 4096, STEP_NS = 16, THREADS_MAX = 4096, STACK_BYTES = 128 << 10 };

struct histogram {
	uint32_t count[BUCKETS];
};

/* One per thread, from mmap: what is not hit stays untouched. */
struct thread {
	pthread_t id;
	struct histogram allocate, release;
	void *object[LIVE];
};

static struct thread *threads;
static long steps_each;
static double ns_per_cycle;

static void count(struct histogram *histogram, uint64_t cycles)
{
	size_t bucket = (size_t)((double)cycles * ns_per_cycle / STEP_NS);

	histogram->count[bucket < BUCKETS ? bucket : BUCKETS - 1]++;
}

static void *churn(void *argument)
{
	struct thread *me = argument;
	struct bench_random random = { 0x9e3779b97f4a7c15u * (uint64_t)(me - threads + 1) };

	for (long i = 0; i < steps_each; i++) {
		size_t which = bench_between(&random, 0, LIVE - 1);
		size_t size = bench_between(&random, 16, 4095);
		uint64_t start = bench_cycles(), middle, end;

		free(me->object[which]);
		middle = bench_cycles();
		me->object[which] = malloc(size);
		end = bench_cycles();
		*(volatile char *)me->object[which] = 1;
		count(&me->release, middle - start);
		count(&me->allocate, end - middle);
	}
	return NULL;
}

static double measure_clock(void)
{
	double began = bench_seconds();
	uint64_t start = bench_cycles();

	bench_sleep(0.05);
	return (bench_seconds() - began) * 1e9 / (double)(bench_cycles() - start);
}

static double percentile(const struct histogram *histogram, double share)
{
	uint64_t total = 0, seen = 0;

	for (int i = 0; i < BUCKETS; i++)
		total += histogram->count[i];
	for (int i = 0; i < BUCKETS; i++) {
		seen += histogram->count[i];
		if ((double)seen >= share * (double)total)
			return (double)(i + 1) * STEP_NS;
	}
	return (double)BUCKETS * STEP_NS;
}

static void add(struct histogram *sum, const struct histogram *one)
{
	for (int i = 0; i < BUCKETS; i++)
		if (one->count[i])
			sum->count[i] += one->count[i];
}

static void report(const char *call, const struct histogram *histogram, int count)
{
	static const struct {
		const char *name;
		double share;
	} shown[] = { { "p50", 0.5 }, { "p99", 0.99 }, { "p99.9", 0.999 }, { "p99.99", 0.9999 } };

	for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++)
		bench_row("ns", percentile(histogram, shown[i].share), "%s-%s/%d", call,
			  shown[i].name, count);
}

int main(int argc, char **argv)
{
	static struct histogram allocate, release;
	pthread_attr_t attributes;
	int number;

	bench_begin("latency", argc, argv);
	number = (int)bench_number("threads", 2);
	if (number < 1 || number > THREADS_MAX)
		bench_fatal("--threads is 1 to %d", THREADS_MAX);
	steps_each = (long)bench_number("steps", 4000000) / number;
	bench_options_done();

	ns_per_cycle = measure_clock();
	threads = bench_map((size_t)number * sizeof(*threads));
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	for (int i = 0; i < number; i++)
		if (pthread_create(&threads[i].id, &attributes, churn, &threads[i]))
			bench_fatal("thread %d of %d cannot be made", i, number);
	for (int i = 0; i < number; i++) {
		pthread_join(threads[i].id, NULL);
		add(&allocate, &threads[i].allocate);
		add(&release, &threads[i].release);
	}
	report("malloc", &allocate, number);
	report("free", &release, number);
	return bench_end();
}
