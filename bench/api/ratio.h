/* SPDX-License-Identifier: MIT */
/* Two ways to do the same, measured in turns in one process; what counts is the ratio. */
#ifndef BENCH_API_RATIO_H
#define BENCH_API_RATIO_H

#include "bench.h"

/* Does the work @n times; returns nanoseconds for each. */
typedef double (*ratio_work)(long n);

/*
 * Runs @one and @other in turns, @repeats times; prints a row for each and one of the
 * median of the ratios of neighbours.
 */
static inline void ratio_rows(const char *name, const char *one_name, ratio_work one,
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

#endif
