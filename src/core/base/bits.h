/* SPDX-License-Identifier: MIT */
/* Arithmetic on sizes and powers of two. */
#ifndef SLUB_BASE_BITS_H
#define SLUB_BASE_BITS_H

#include "core/base/compiler.h"

static inline bool is_power_of_two(size_t n)
{
	return n != 0 && (n & (n - 1)) == 0;
}

/* The position of the highest bit that is set; n must not be 0. */
static inline unsigned int ilog2(size_t n)
{
	return 63u - (unsigned int)__builtin_clzl(n);
}

/* The smallest order with (1 << order) >= n; n must not be 0. */
static inline unsigned int order_of(size_t n)
{
	return n <= 1 ? 0 : ilog2(n - 1) + 1;
}

static inline size_t round_up(size_t n, size_t align)
{
	return (n + align - 1) & ~(align - 1);
}

static inline size_t round_down(size_t n, size_t align)
{
	return n & ~(align - 1);
}

static inline size_t round_up_power_of_two(size_t n)
{
	return (size_t)1 << order_of(n);
}

static inline size_t min_size(size_t a, size_t b)
{
	return a < b ? a : b;
}

static inline size_t max_size(size_t a, size_t b)
{
	return a > b ? a : b;
}

#endif
