/* SPDX-License-Identifier: MIT */
/*
 * slub_percpu_add() beside a plain add to a thread-local word and an atomic add to a shared one, by
 * one thread and by two on two CPUs.  In ns per add of each thread, and the ratios.
 */
#define _GNU_SOURCE
#include "ratio.h"

#include <pthread.h>

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

static struct {
	ratio_work work;
	long n;
	pthread_barrier_t begin;
	double ns[2];
} pair;

static void *member(void *arg)
{
	size_t i = (size_t)arg;

	bench_bind((unsigned int)i);
	pair.work(1000);
	pthread_barrier_wait(&pair.begin);
	pair.ns[i] = pair.work(pair.n);
	return NULL;
}

static double by_two(ratio_work work, long n)
{
	pthread_t thread[2];

	pair.work = work;
	pair.n = n;
	pthread_barrier_init(&pair.begin, NULL, 2);
	for (size_t i = 0; i < 2; i++) {
		if (pthread_create(&thread[i], NULL, member, (void *)i))
			bench_fatal("no second thread");
	}
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	pthread_barrier_destroy(&pair.begin);
	return (pair.ns[0] + pair.ns[1]) / 2;
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
	bench_options_done();
	word = slub_percpu_alloc(WORDS * 8, 64);
	if (!word)
		bench_fatal("no per-CPU word");
	ratio_rows("1", "percpu", percpu_adds, "thread-local", own_adds, n, repeats);
	ratio_rows("1/64 words", "percpu", percpu_spread, "thread-local", own_spread, n, repeats);
	ratio_rows("1", "atomic", atomic_adds, "percpu", percpu_adds, n, repeats);
	ratio_rows("2", "percpu", percpu_adds_by_two, "thread-local", own_adds_by_two, n, repeats);
	ratio_rows("2", "atomic", atomic_adds_by_two, "percpu", percpu_adds_by_two, n, repeats);
	return bench_end();
}
