/* SPDX-License-Identifier: MIT */
/*
 * Imitates stages of a pipeline: threads that read requests allocate them, others handle and
 * free them. --producers and --consumers threads; each pair has a ring of its own. The consumer
 * reads what the producer wrote. One operation: one object allocated, passed on and freed.
 */
#include "workload.h"

#include <sched.h>
#include <stdatomic.h>

enum { THREADS_MAX = 64, RING = 1024, LINE = 64 };

struct ring {
	_Alignas(LINE) _Atomic(uint64_t) written;
	_Alignas(LINE) _Atomic(uint64_t) taken;
	_Alignas(LINE) void *slot[RING];
};

static long producers, consumers, each;
static struct ring *rings;		/* [producer * consumers + consumer] */
static atomic_long live_producers;
static atomic_ulong produced_sum, consumed_sum;

static void put(struct ring *ring, void *object)
{
	uint64_t at = atomic_load_explicit(&ring->written, memory_order_relaxed);

	while (at - atomic_load_explicit(&ring->taken, memory_order_acquire) == RING)
		sched_yield();
	ring->slot[at % RING] = object;
	atomic_store_explicit(&ring->written, at + 1, memory_order_release);
}

static void *take(struct ring *ring)
{
	uint64_t at = atomic_load_explicit(&ring->taken, memory_order_relaxed);
	void *object;

	if (at == atomic_load_explicit(&ring->written, memory_order_acquire))
		return NULL;
	object = ring->slot[at % RING];
	atomic_store_explicit(&ring->taken, at + 1, memory_order_release);
	return object;
}

static void produce(int me)
{
	struct bench_random random = workload_random(me);
	uint64_t sum = 0;

	for (long i = 0; i < each; i++) {
		uint64_t *object = bench_malloc(workload_size(&random, 16, 1024));

		*object = bench_random(&random);
		sum += *object;
		put(&rings[me * consumers + i % consumers], object);
	}
	atomic_fetch_add(&produced_sum, sum);
	atomic_fetch_sub(&live_producers, 1);
}

/* One look at each ring; whether anything came. */
static bool drain(long me, uint64_t *sum)
{
	bool any = false;
	uint64_t *object;

	for (long p = 0; p < producers; p++)
		for (int i = 0; i < 64 && (object = take(&rings[p * consumers + me])); i++) {
			*sum += *object;
			free(object);
			any = true;
		}
	return any;
}

static void consume(long me)
{
	uint64_t sum = 0;
	bool last;

	do {
		last = !atomic_load(&live_producers);
		while (drain(me, &sum))
			;
		sched_yield();
	} while (!last);
	atomic_fetch_add(&consumed_sum, sum);
}

static void body(int index)
{
	if (index < producers)
		produce(index);
	else
		consume(index - producers);
}

int main(int argc, char **argv)
{
	size_t bytes;

	workload_begin("queue", argc, argv);
	producers = workload_long("producers", 1, 1, THREADS_MAX);
	consumers = workload_long("consumers", 1, 1, THREADS_MAX);
	each = workload_long("ops", 3000000, 1, 1000000000) / producers;
	bench_options_done();
	bytes = (size_t)(producers * consumers) * sizeof(struct ring);
	rings = bench_map(bytes);
	atomic_store(&live_producers, producers);
	workload_start();
	workload_threads((int)(producers + consumers), body);
	workload_stop((double)(each * producers));
	bench_unmap(rings, bytes);
	if (atomic_load(&produced_sum) != atomic_load(&consumed_sum))
		bench_fatal("objects were lost or changed on their way");
	return workload_finish();
}
