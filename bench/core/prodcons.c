/* SPDX-License-Identifier: MIT */
/*
 * One thread allocates batches of objects and hands them over a ring; another frees them.
 * ns per object. The two are bound to two CPUs where there are two (--free-running: not bound).
 *
 * "SIZE": the objects are not touched, the allocator's work alone. "SIZE/written": the producer
 * writes the first word, the consumer reads it. "mix": sizes of 16 to 1,024 bytes, at random.
 * "floor": functions that do nothing, called in the same way: what the ring takes by itself.
 */
#include "bench.h"
#include "nothing.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { BATCH = 64, RING = 32, SPINS = 2000, MIX = 0 };

struct batch {
	_Alignas(64) _Atomic bool full;
	void *object[BATCH];
};

static struct batch ring[RING];
static size_t object_size;
static bool written, is_floor, free_running;
static long batches;
static volatile uint64_t sum;

/* Wait for the other side, without keeping its CPU from it should the two share one. */
static void wait_until(struct batch *batch, bool full)
{
	for (int spins = 0; atomic_load_explicit(&batch->full, memory_order_acquire) != full;)
		if (++spins > SPINS) {
			sched_yield();
			spins = 0;
		}
}

static void *consume(void *unused)
{
	uint64_t read = 0;

	(void)unused;
	if (!free_running)
		bench_bind(1);
	for (long n = 0; n < batches; n++) {
		struct batch *batch = &ring[n % RING];

		wait_until(batch, true);
		for (int i = 0; i < BATCH; i++) {
			if (written)
				read += *(uint64_t *)batch->object[i];
			if (is_floor)
				nothing_free(batch->object[i]);
			else
				free(batch->object[i]);
		}
		atomic_store_explicit(&batch->full, false, memory_order_release);
	}
	sum = read;
	return NULL;
}

static void produce(void)
{
	struct bench_random random = { 88172645463325252u };

	if (!free_running)
		bench_bind(0);
	for (long n = 0; n < batches; n++) {
		struct batch *batch = &ring[n % RING];

		wait_until(batch, false);
		for (int i = 0; i < BATCH; i++) {
			size_t size = object_size == MIX ? bench_between(&random, 16, 1024)
							 : object_size;

			batch->object[i] = is_floor ? nothing_malloc(size) : malloc(size);
			if (written)
				*(uint64_t *)batch->object[i] = (uint64_t)i;
		}
		atomic_store_explicit(&batch->full, true, memory_order_release);
	}
}

static double once(void)
{
	pthread_t consumer;
	double start;

	if (pthread_create(&consumer, NULL, consume, NULL))
		bench_fatal("no second thread");
	start = bench_seconds();
	produce();
	pthread_join(consumer, NULL);
	return (bench_seconds() - start) * 1e9 / ((double)batches * BATCH);
}

static double median(int repeats)
{
	struct bench_samples samples = { 0 };

	once();
	for (int i = 0; i < repeats; i++)
		bench_sample(&samples, once());
	return bench_median(&samples);
}

static void measure(size_t size, bool touch, int repeats)
{
	const char *suffix = touch ? "/written" : "";

	object_size = size;
	written = touch;
	if (size == MIX)
		bench_row("ns", median(repeats), "mix%s", suffix);
	else
		bench_row("ns", median(repeats), "%zu%s", size, suffix);
}

static void measure_floor(int repeats)
{
	object_size = 16;
	written = false;
	is_floor = true;
	bench_row("ns", median(repeats), "floor");
}

int main(int argc, char **argv)
{
	static const size_t sizes[] = { 16, 64, 256, 1024, MIX };
	int repeats;

	bench_begin("prodcons", argc, argv);
	repeats = (int)bench_number("repeats", 5);
	batches = (long)bench_number("objects", 200000) / BATCH;
	free_running = bench_flag("free-running");
	bench_options_done();

	for (int touch = 0; touch <= 1; touch++)
		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
			measure(sizes[i], touch, repeats);
	measure_floor(repeats);
	return bench_end();
}
