/* SPDX-License-Identifier: MIT */
/*
 * Assertions, for checks that take constant time.  An assertion states what this
 * library must have got right; misuse by the caller is answered, never asserted.
 *
 * Every build compiles every condition; a build with SLUB_ASSERT=1 checks it.
 */
#ifndef SLUB_BASE_ASSERT_H
#define SLUB_BASE_ASSERT_H

#include "core/base/compiler.h"

/* Writes "slub: assertion failed ..." to stderr and aborts. */
cold __attribute__((noreturn))
void assert_failed(const char *condition, const char *file, int line);

#define slub_assert(cond)						\
	do {								\
		if (SLUB_CONFIG_ASSERT && unlikely(!(cond)))		\
			assert_failed(#cond, __FILE__, __LINE__);	\
	} while (0)

#endif
