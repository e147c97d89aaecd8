/* SPDX-License-Identifier: MIT */
/*
 * Replacing objects at random, as a server does between requests. Each thread holds --live
 * objects; one step frees one of them and allocates another in its place, of 16 to 1,024 bytes.
 *
 * More than one thread (--threads): after each --turn steps a thread passes its objects on to
 * the next one, so that objects are freed by threads that did not allocate them, as in larson.
 * ns of wall time per step of all threads together.
 */
#include "bench.h"

#include <pthread.h>

enum { THREADS_MAX = 256, LIVE_MAX = 100000 };

static int threads;
static long live, steps, turn;
static void ***objects;			/* objects[thread][i] */
static pthread_barrier_t barrier;

static void replace(void **object, struct bench_random *random, long count)
{
	for (long i = 0; i < count; i++) {
		size_t which = bench_between(random, 0, (size_t)live - 1);
		size_t size = bench_between(random, 16, 1024);

		free(object[which]);
		object[which] = bench_malloc(size);
		*(uint64_t *)object[which] = size;
	}
}

static void *work(void *number)
{
	long me = (long)(intptr_t)number;
	struct bench_random random = { 0x9e3779b97f4a7c15u * (uint64_t)(me + 1) };
	long turns = steps / turn;

	for (long i = 0; i < turns; i++) {
		replace(objects[(me + i) % threads], &random, turn);
		if (threads > 1)
			pthread_barrier_wait(&barrier);
	}
	return NULL;
}

static double once(void)
{
	pthread_t thread[THREADS_MAX];
	double began = bench_seconds();

	for (long i = 1; i < threads; i++)
		if (pthread_create(&thread[i], NULL, work, (void *)(intptr_t)i))
			bench_fatal("thread %ld cannot be made", i);
	work(NULL);
	for (long i = 1; i < threads; i++)
		pthread_join(thread[i], NULL);
	return (bench_seconds() - began) * 1e9 / ((double)(steps / turn * turn) * threads);
}

int main(int argc, char **argv)
{
	struct bench_samples samples = { 0 };
	int repeats;

	bench_begin("churn", argc, argv);
	threads = (int)bench_number("threads", 1);
	live = (long)bench_number("live", 5000);
	steps = (long)bench_number("steps", 4000000) / (threads ? threads : 1);
	turn = (long)bench_number("turn", 50000);
	repeats = (int)bench_number("repeats", 3);
	bench_options_done();
	if (threads < 1 || threads > THREADS_MAX || live < 1 || live > LIVE_MAX || turn < 1)
		bench_fatal("--threads is 1 to %d, --live 1 to %d, --turn 1 or more", THREADS_MAX,
			    LIVE_MAX);
	if (turn > steps)
		turn = steps;

	pthread_barrier_init(&barrier, NULL, (unsigned int)threads);
	objects = bench_map((size_t)threads * sizeof(*objects));
	for (int i = 0; i < threads; i++)
		objects[i] = bench_map((size_t)live * sizeof(**objects));
	once();
	for (int i = 0; i < repeats; i++)
		bench_sample(&samples, once());
	bench_row("ns", bench_median(&samples), "step/%d", threads);
	bench_row("MiB", bench_peak_rss() / BENCH_MIB, "peak/%d", threads);
	return bench_end();
}
