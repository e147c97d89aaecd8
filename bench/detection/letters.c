/* SPDX-License-Identifier: MIT */
/*
 * What watching a size class costs, per letter: malloc(64) and free, in ns for the two together,
 * and the ratio to the same class unwatched, measured in turns.
 *
 * "reuse": one allocation, one free.  "pattern": 256 allocations, then 256 frees.  Letter T writes
 * its lines to /dev/null.
 */
#include "bench.h"

#include <slub/debug.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { SIZE = 64, PATTERN = 256 };

/* Does the work @n times; returns nanoseconds for each. */
typedef double (*ratio_work)(long n);

/*
 * Runs @one and @other in turns, @repeats times; prints a row for each and one of the
 * median of the ratios of neighbours.
 */
static void ratio_rows(const char *name, const char *one_name, ratio_work one,
			      const char *other_name, ratio_work other, long n, int repeats)
{
	struct bench_samples ones = { 0 }, others = { 0 }, ratios = { 0 };

	one(n / 10);
	other(n / 10);
	for (int i = 0; i < repeats; i++) {
		double a = one(n), b = other(n);

		bench_sample(&ones, a);
		bench_sample(&others, b);
		bench_sample(&ratios, a / b);
	}
	bench_row("ns", bench_median(&ones), "%s/%s", name, one_name);
	bench_row("ns", bench_median(&others), "%s/%s", name, other_name);
	bench_row("ratio", bench_median(&ratios), "%s/%s:%s", name, one_name, other_name);
}

static void *held[PATTERN];
static char setting[64];

static double per_object(double began, long n)
{
	return (bench_seconds() - began) * 1e9 / (double)n;
}

static double reuse(long n)
{
	double began = bench_seconds();

	for (long i = 0; i < n; i++) {
		void *object = malloc(SIZE);

		bench_escape(object);
		free(object);
	}
	return per_object(began, n);
}

static double pattern(long n)
{
	double began = bench_seconds();

	for (long round = 0; round < n / PATTERN; round++) {
		for (int i = 0; i < PATTERN; i++)
			held[i] = malloc(SIZE);
		bench_escape(held);
		for (int i = 0; i < PATTERN; i++)
			free(held[i]);
	}
	return per_object(began, n / PATTERN * PATTERN);
}

static void watch(const char *letters)
{
	snprintf(setting, sizeof(setting), "%s,malloc-64", letters);
	if (slub_debug(setting) != 1)
		bench_fatal("cannot watch malloc-64 by %s", letters);
}

static const char *letters_now;

static double watched_reuse(long n)
{
	double ns;

	watch(letters_now);
	ns = reuse(n);
	watch("-");
	return ns;
}

static double watched_pattern(long n)
{
	double ns;

	watch(letters_now);
	ns = pattern(n);
	watch("-");
	return ns;
}

int main(int argc, char **argv)
{
	static const char *const letters[] = { "F", "Z", "P", "U", "T", "A", "FZPU" };
	char name[32];
	int repeats;

	/* Read when the library starts. */
	if (!getenv("SLUB_DEBUG_REPORT")) {
		setenv("SLUB_DEBUG_REPORT", "/dev/null", 1);
		execv("/proc/self/exe", argv);
	}
	bench_begin("letters", argc, argv);
	repeats = (int)bench_number("repeats", 15);
	bench_options_done();
	bench_bind(0);
	for (size_t i = 0; i < sizeof(letters) / sizeof(letters[0]); i++) {
		/* Each line of T is a system call. */
		long n = *letters[i] == 'T' ? 20000 : 200000;

		letters_now = letters[i];
		snprintf(name, sizeof(name), "%s/reuse", letters_now);
		ratio_rows(name, "on", watched_reuse, "off", reuse, n, repeats);
		snprintf(name, sizeof(name), "%s/pattern", letters_now);
		ratio_rows(name, "on", watched_pattern, "off", pattern, n, repeats);
	}
	return bench_end();
}
