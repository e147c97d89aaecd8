/* SPDX-License-Identifier: MIT */
/*
 * Assertions in three prices.  An assertion states what this library must
 * have got right; misuse by the caller is answered, never asserted.
 *
 *   slub_assert       O(1) checks, in builds with SLUB_ASSERT >= 1
 *   slub_assert_deep  checks that walk, in builds with SLUB_ASSERT >= 2
 *
 * Every build compiles every condition.
 */
#ifndef SLUB_BASE_ASSERT_H
#define SLUB_BASE_ASSERT_H

#include "base/compiler.h"

/* Writes "slub: assertion failed ..." to stderr and aborts. */
cold __attribute__((noreturn))
void assert_failed(const char *condition, const char *file, int line);

#define slub_assert_price(price, cond)					\
	do {								\
		if (SLUB_CONFIG_ASSERT >= (price) && unlikely(!(cond)))	\
			assert_failed(#cond, __FILE__, __LINE__);	\
	} while (0)

#define slub_assert(cond)	slub_assert_price(1, cond)
#define slub_assert_deep(cond)	slub_assert_price(2, cond)

#endif
