/* SPDX-License-Identifier: MIT */
/*
 * The two functions of real numbers that sampling needs; the library does not
 * depend on libm.  Good to one part in 10^12.
 */
#ifndef SLUB_REAL_H
#define SLUB_REAL_H

#include "core/base/compiler.h"

#define REAL_LN2 0.69314718055994530942

/* ln(@x) for a normal @x > 0. */
static inline double real_log(double x)
{
	union { double real; uint64_t bits; } u = { x };
	int exponent = (int)(u.bits >> 52) - 1023;
	double s, square, sum = 0;

	/* x = m * 2^exponent with m in [1, 2), then in [0.7, 1.4]. */
	u.bits = (u.bits & ((1ull << 52) - 1)) | 1023ull << 52;
	if (u.real > 1.41421356) {
		u.real /= 2;
		exponent++;
	}
	/* ln m = 2 artanh s */
	s = (u.real - 1) / (u.real + 1);
	square = s * s;
	for (int n = 17; n >= 1; n -= 2)
		sum = sum * square + 1.0 / n;
	return exponent * REAL_LN2 + 2 * s * sum;
}

/* 1 - e^-@x for @x >= 0. */
static inline double real_one_minus_exp(double x)
{
	double term = 1, sum = 0;
	int halvings = 0;

	if (x > 40)
		return 1;
	while (x > 0.5) {
		x /= 2;
		halvings++;
	}
	for (int n = 1; n <= 14; n++) {
		term *= -x / n;
		sum -= term;
	}
	/* 1 - e^-2x = (1 - e^-x) (2 - (1 - e^-x)) */
	while (halvings--)
		sum *= 2 - sum;
	return sum;
}

#endif
