/* SPDX-License-Identifier: MIT */
/*
 * Threads that idle: each has allocated and freed 4 x 1 MiB in objects of 16 to 1,023 bytes, then
 * waits. "rss" is the process's resident memory one second after the last one became idle;
 * "rss-of-heap" is that less what the same program holds when its threads do not allocate
 * (--no-allocation in a run of its own, given as --baseline).
 *
 * At most four are at work at a time, as in a server that accepts connections; with --at-once they
 * all start as fast as they can be made, so that many heaps are full at the same moment.
 *
 * Objects are chained through their first word: a table of pointers would sit on each thread's
 * stack and be counted with the allocator's memory.
 */
#include "bench.h"

#include <pthread.h>
#include <unistd.h>

enum { ROUNDS = 4, ROUND_BYTES = 1 << 20, STACK_BYTES = 64 << 10 };

struct object {
	struct object *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t one_more = PTHREAD_COND_INITIALIZER;	/* idle grew: for main */
static pthread_cond_t the_end = PTHREAD_COND_INITIALIZER;	/* never comes: for the threads */
static int idle;
static bool no_allocation, at_once;

static void allocate_and_free(struct bench_random *random)
{
	struct object *first = NULL, **last = &first;

	for (size_t bytes = 0; bytes < ROUND_BYTES;) {
		size_t size = bench_between(random, 16, 1023);
		struct object *object = bench_malloc(size);

		memset(object, 1, size);
		*last = object;
		last = &object->next;
		bytes += size;
	}
	*last = NULL;
	while (first) {
		struct object *next = first->next;

		free(first);
		first = next;
	}
}

static void *thread(void *number)
{
	struct bench_random random = { 0x9e3779b97f4a7c15u * ((uintptr_t)number + 1) };

	for (int round = 0; round < ROUNDS && !no_allocation; round++)
		allocate_and_free(&random);
	pthread_mutex_lock(&lock);
	idle++;
	pthread_cond_signal(&one_more);
	for (;;)
		pthread_cond_wait(&the_end, &lock);
	return NULL;
}

static void start(int threads)
{
	pthread_attr_t attributes;
	pthread_t made;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	for (intptr_t i = 0; i < threads; i++) {
		if (pthread_create(&made, &attributes, thread, (void *)i))
			bench_fatal("thread %d of %d cannot be made: see ulimit -u and "
				    "/proc/sys/kernel/threads-max", (int)i, threads);
		pthread_mutex_lock(&lock);
		while (!at_once && i - idle >= 4)
			pthread_cond_wait(&one_more, &lock);
		pthread_mutex_unlock(&lock);
	}
	pthread_mutex_lock(&lock);
	while (idle < threads)
		pthread_cond_wait(&one_more, &lock);
	pthread_mutex_unlock(&lock);
}

int main(int argc, char **argv)
{
	struct bench_memory memory;
	double baseline, began;
	int threads;

	bench_begin("idle_threads", argc, argv);
	threads = (int)bench_number("threads", 8000);
	at_once = bench_flag("at-once");
	no_allocation = bench_flag("no-allocation");
	baseline = bench_number("baseline", 0) * BENCH_MIB;
	bench_options_done();

	began = bench_seconds();
	start(threads);
	bench_row("s", bench_seconds() - began, "time/%d", threads);
	bench_sleep(1);
	memory = bench_memory(0);
	bench_row("MiB", memory.rss / BENCH_MIB, "rss/%d", threads);
	bench_row("MiB", memory.anonymous / BENCH_MIB, "anonymous/%d", threads);
	if (baseline > 0)
		bench_row("MiB", (memory.rss - baseline) / BENCH_MIB, "rss-of-heap/%d", threads);
	bench_end();
	_exit(0);	/* the threads are still waiting: end without their help */
}
