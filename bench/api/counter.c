/* SPDX-License-Identifier: MIT */
/*
 * slub_percpu_add() beside a plain add to a thread-local word and an atomic add to a shared one, by
 * one thread and by two on two CPUs.  In ns per add of each thread, and the ratios.
 *
 * What two threads pay for an atomic add is that the other one takes the cache line away.  So it
 * counts only while both run, on different cores: alone an atomic add costs three of the per-CPU
 * ones, and two threads on one CPU are alone in turns.  Each thread is bound to its CPU and goes on
 * until the other has its figure too.  A round is measured again unless both had their CPUs, by
 * their processor time, and were at it at the same time for TOGETHER_LEAST of it.  --bind=same
 * shows the other case.
 */
#define _GNU_SOURCE
#include "ratio.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include <slub/percpu.h>

#define UNROLL(x) x x x x x x x x

static uintptr_t word;
static int64_t shared_word __attribute__((aligned(64)));
enum { WORDS = 64 };
static __thread int64_t own_word, own_words[WORDS];

static double percpu_adds(long n)
{
	double began = bench_seconds();

	for (long i = 0; i < n; i += 8) {
		UNROLL(slub_percpu_add(word, 1);)
	}
	return (bench_seconds() - began) * 1e9 / (double)n;
}

static double own_adds(long n)
{
	double began = bench_seconds();

	for (long i = 0; i < n; i += 8) {
		UNROLL(own_word++; __asm__ volatile("" ::: "memory");)
	}
	return (bench_seconds() - began) * 1e9 / (double)n;
}

static double atomic_adds(long n)
{
	double began = bench_seconds();

	for (long i = 0; i < n; i += 8) {
		UNROLL(__atomic_fetch_add(&shared_word, 1, __ATOMIC_RELAXED);)
	}
	return (bench_seconds() - began) * 1e9 / (double)n;
}

/*
 * 64 counters in turn, as a program with statistics has: one word alone is a chain of store and
 * load, which some processors shorten to nothing if the address is made of the same registers.
 */
static double percpu_spread(long n)
{
	double began = bench_seconds();

	for (long i = 0; i < n; i += WORDS) {
		for (uintptr_t at = word; at < word + WORDS * 8; at += 8)
			slub_percpu_add(at, 1);
	}
	return (bench_seconds() - began) * 1e9 / (double)n;
}

static double own_spread(long n)
{
	double began = bench_seconds();

	for (long i = 0; i < n; i += WORDS) {
		for (int w = 0; w < WORDS; w++) {
			own_words[w]++;
			__asm__ volatile("" ::: "memory");
		}
	}
	return (bench_seconds() - began) * 1e9 / (double)n;
}

/* ---- the same by two threads at once ---- */

#define TOGETHER_LEAST 0.95
enum { ATTEMPTS = 20 };

static struct {
	ratio_work work;
	long n;
	bool same_cpu;
	atomic_int ready, done;
	double ns[2], began[2], ended[2], busy[2];
	double together_least;	/* of what was taken as a figure */
} pair;

static double thread_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void *member(void *arg)
{
	size_t i = (size_t)arg;
	double had;

	if (!bench_bind(pair.same_cpu ? 0 : (unsigned int)i))
		bench_fatal("cannot bind a thread");
	pair.work(1000);
	/* Both are awake, and on their CPUs: no barrier that one is woken from. */
	pair.ready++;
	while (pair.ready < 2)
		if (pair.same_cpu)
			sched_yield();
	pair.began[i] = bench_seconds();
	had = thread_seconds();
	pair.ns[i] = pair.work(pair.n);
	pair.ended[i] = bench_seconds();
	pair.busy[i] = (thread_seconds() - had) / (pair.ended[i] - pair.began[i]);
	pair.done++;
	while (pair.done < 2)
		pair.work(1000);
	return NULL;
}

static double by_two_once(ratio_work work, long n)
{
	pthread_t thread[2];

	pair.work = work;
	pair.n = n;
	pair.ready = pair.done = 0;
	for (size_t i = 0; i < 2; i++) {
		if (pthread_create(&thread[i], NULL, member, (void *)i))
			bench_fatal("no second thread");
	}
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	return (pair.ns[0] + pair.ns[1]) / 2;
}

static double least(double a, double b)
{
	return a < b ? a : b;
}

/* The share of the time that both were at work. */
static double together(void)
{
	double both = least(pair.ended[0], pair.ended[1]) +
		      least(-pair.began[0], -pair.began[1]);
	double longer = -least(pair.began[0] - pair.ended[0], pair.began[1] - pair.ended[1]);

	return least(least(pair.busy[0], pair.busy[1]), both > 0 ? both / longer : 0);
}

static double by_two(ratio_work work, long n)
{
	double ns, share, best = -1, found = 0;

	for (int i = 0; i < ATTEMPTS && best < TOGETHER_LEAST; i++) {
		ns = by_two_once(work, n);
		share = together();
		if (share > best) {
			best = share;
			found = ns;
		}
		if (pair.same_cpu)
			break;
	}
	pair.together_least = least(best, pair.together_least);
	return found;
}

/* Has this process two CPUs, on two cores?  Says so where it has not. */
static bool has_two_cores(void)
{
	cpu_set_t allowed;
	char siblings[2][64] = { "", "" }, path[96];
	int nr = 0;

	if (sched_getaffinity(0, sizeof(allowed), &allowed))
		return false;
	for (int cpu = 0; cpu < CPU_SETSIZE && nr < 2; cpu++) {
		FILE *file;

		if (!CPU_ISSET(cpu, &allowed))
			continue;
		snprintf(path, sizeof(path),
			 "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
		file = fopen(path, "r");
		if (file && !fgets(siblings[nr], sizeof(siblings[nr]), file))
			*siblings[nr] = 0;
		if (file)
			fclose(file);
		nr++;
	}
	if (nr < 2)
		fprintf(stderr, "api_counter: one CPU only: no figures of two threads\n");
	else if (*siblings[0] && strcmp(siblings[0], siblings[1]) == 0)
		fprintf(stderr, "api_counter: both CPUs are of one core, and share its cache: "
				"an atomic add costs less than on two\n");
	return nr == 2;
}

static double percpu_adds_by_two(long n) { return by_two(percpu_adds, n); }
static double own_adds_by_two(long n) { return by_two(own_adds, n); }
static double atomic_adds_by_two(long n) { return by_two(atomic_adds, n); }

int main(int argc, char **argv)
{
	long n;
	int repeats;

	bench_begin("api_counter", argc, argv);
	repeats = (int)bench_number("repeats", 15);
	n = (long)bench_number("adds", 4000000);
	pair.same_cpu = strcmp(bench_string("bind", "different"), "same") == 0;
	pair.together_least = 1;
	bench_options_done();
	word = slub_percpu_alloc(WORDS * 8, 64);
	if (!word)
		bench_fatal("no per-CPU word");
	ratio_rows("1", "percpu", percpu_adds, "thread-local", own_adds, n, repeats);
	ratio_rows("1/64 words", "percpu", percpu_spread, "thread-local", own_spread, n, repeats);
	ratio_rows("1", "percpu", percpu_adds, "atomic", atomic_adds, n, repeats);
	if (!has_two_cores())
		return bench_end();
	ratio_rows("2", "percpu", percpu_adds_by_two, "thread-local", own_adds_by_two, n, repeats);
	ratio_rows("2", "percpu", percpu_adds_by_two, "atomic", atomic_adds_by_two, n, repeats);
	bench_row("%", pair.together_least * 100, "2/at the same time");
	return bench_end();
}
