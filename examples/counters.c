/* SPDX-License-Identifier: MIT */
/*
 * Sharded statistics counters: a structure of counters, one copy per CPU.
 *
 * A server wants to count requests, bytes and errors in every thread, and to
 * read the totals now and then.  One shared counter makes the threads fight
 * for its cache line; a counter per thread has to be found, and to be summed
 * up when threads end.  Per-CPU counters are neither: an add is a few plain
 * instructions, wherever the thread runs, and nothing is lost when it ends.
 *
 * The program counts the same events three ways and compares the totals.
 */
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <slub/percpu.h>

/* What is counted; it lies once in every CPU's area, 24 bytes. */
struct server_stats {
	int64_t requests;
	int64_t bytes;
	int64_t errors;
};

/* The offset of the structure, valid on every CPU. */
static uintptr_t stats;

#define STATS_ADD(member, n) \
	slub_percpu_add(stats + offsetof(struct server_stats, member), (n))
#define STATS_SUM(member) \
	slub_percpu_sum(stats + offsetof(struct server_stats, member))

/* The other two ways. */
static struct {
	_Atomic int64_t requests, bytes, errors;
} shared;
static struct server_stats locked;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static pthread_barrier_t start;
static long nr_threads = 2;
static long nr_requests = 1000000;	/* of each thread */

/* Request number n of a thread, as a server might see it. */
static int64_t request_bytes(long n)
{
	return 200 + n % 1000;
}

static int request_fails(long n)
{
	return n % 100 == 99;
}

static void *count_percpu(void *arg)
{
	pthread_barrier_wait(&start);
	for (long n = 0; n < nr_requests; n++) {
		STATS_ADD(requests, 1);
		STATS_ADD(bytes, request_bytes(n));
		if (request_fails(n))
			STATS_ADD(errors, 1);
	}
	return arg;
}

static void *count_atomic(void *arg)
{
	pthread_barrier_wait(&start);
	for (long n = 0; n < nr_requests; n++) {
		atomic_fetch_add_explicit(&shared.requests, 1,
					  memory_order_relaxed);
		atomic_fetch_add_explicit(&shared.bytes, request_bytes(n),
					  memory_order_relaxed);
		if (request_fails(n))
			atomic_fetch_add_explicit(&shared.errors, 1,
						  memory_order_relaxed);
	}
	return arg;
}

static void *count_locked(void *arg)
{
	pthread_barrier_wait(&start);
	for (long n = 0; n < nr_requests; n++) {
		pthread_mutex_lock(&lock);
		locked.requests += 1;
		locked.bytes += request_bytes(n);
		locked.errors += request_fails(n);
		pthread_mutex_unlock(&lock);
	}
	return arg;
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Runs @count in all threads; returns nanoseconds per request. */
static double run(void *(*count)(void *))
{
	pthread_t threads[64];
	double begin;

	pthread_barrier_init(&start, NULL, (unsigned int)nr_threads + 1);
	for (long i = 0; i < nr_threads; i++) {
		if (pthread_create(&threads[i], NULL, count, NULL)) {
			perror("counters: pthread_create");
			exit(1);
		}
	}
	pthread_barrier_wait(&start);
	begin = seconds();
	for (long i = 0; i < nr_threads; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&start);
	return (seconds() - begin) * 1e9 / (double)(nr_requests * nr_threads);
}

static int check(const char *way, struct server_stats found)
{
	struct server_stats expected = { 0, 0, 0 };

	for (long n = 0; n < nr_requests; n++) {
		expected.requests += 1;
		expected.bytes += request_bytes(n);
		expected.errors += request_fails(n);
	}
	if (found.requests == expected.requests * nr_threads &&
	    found.bytes == expected.bytes * nr_threads &&
	    found.errors == expected.errors * nr_threads)
		return 0;
	fprintf(stderr, "counters: %s: the totals are wrong\n", way);
	return 1;
}

/* Where the requests were counted. */
static void print_cpus(void)
{
	slub_percpu_for_each(cpu) {
		struct server_stats *copy =
			slub_percpu_ptr(stats, (unsigned int)cpu);

		if (!copy || !copy->requests)
			continue;
		if (cpu == SLUB_PERCPU_SHARED)
			printf("  no CPU ");
		else
			printf("  CPU %-4d", cpu);
		printf(" %12lld requests %14lld bytes %9lld errors\n",
		       (long long)copy->requests, (long long)copy->bytes,
		       (long long)copy->errors);
	}
}

static long number(const char *text, long max)
{
	char *end;
	long value;

	errno = 0;
	value = strtol(text, &end, 10);
	if (errno || *end || end == text || value < 1 || value > max) {
		fprintf(stderr,
			"counters: '%s' is not a number from 1 to %ld\n", text,
			max);
		exit(2);
	}
	return value;
}

static void options(int argc, char **argv)
{
	static const struct option known[] = {
		{ "threads", required_argument, NULL, 't' },
		{ "requests", required_argument, NULL, 'n' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	static const char help[] =
		"usage: counters [--threads N] [--requests N]\n"
		"Counts requests in N threads: per CPU, atomically, and under a"
		" lock.\n"
		"  --threads N    threads, 1 to 64 (2)\n"
		"  --requests N   requests of each thread (1000000)\n";
	int c;

	while ((c = getopt_long(argc, argv, "t:n:h", known, NULL)) != -1) {
		if (c == 't')
			nr_threads = number(optarg, 64);
		else if (c == 'n')
			nr_requests = number(optarg, 1000000000);
		else if (c == 'h')
			exit(fputs(help, stdout) < 0);
		else
			exit(2);
	}
}

int main(int argc, char **argv)
{
	struct server_stats percpu, atomics;
	double ns[3];
	int bad;

	options(argc, argv);
	stats = slub_percpu_alloc(sizeof(struct server_stats),
				  _Alignof(struct server_stats));
	if (!stats) {
		perror("counters: slub_percpu_alloc");
		return 1;
	}

	ns[0] = run(count_percpu);
	ns[1] = run(count_atomic);
	ns[2] = run(count_locked);

	percpu = (struct server_stats){ STATS_SUM(requests), STATS_SUM(bytes),
					STATS_SUM(errors) };
	atomics = (struct server_stats){ shared.requests, shared.bytes,
					 shared.errors };
	printf("%ld threads, %ld requests each\n\n", nr_threads, nr_requests);
	printf("%-18s %14s\n", "counted", "ns per request");
	printf("%-18s %14.1f\n", "per CPU", ns[0]);
	printf("%-18s %14.1f\n", "one atomic each", ns[1]);
	printf("%-18s %14.1f\n\n", "under a lock", ns[2]);
	printf("per CPU, %zu bytes on each:\n", sizeof(struct server_stats));
	print_cpus();
	printf("  sum      %12lld requests %14lld bytes %9lld errors\n",
	       (long long)percpu.requests, (long long)percpu.bytes,
	       (long long)percpu.errors);

	bad = check("per CPU", percpu) + check("atomic", atomics) +
	      check("locked", locked);
	slub_percpu_free(stats);
	return bad ? 1 : 0;
}
