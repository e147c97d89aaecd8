/* SPDX-License-Identifier: MIT */
/*
 * inspect: the numbers that follow from what is counted of a cache, by core/slab/stat.def; the
 * command makes them in the same way.
 */
#ifndef SLUB_INSPECT_COUNTER_H
#define SLUB_INSPECT_COUNTER_H

#include "features/inspect/abi.h"

enum counter_kind {
	COUNTER_IS,		/* one of the library's */
	COUNTER_PLUS,		/* two of them, added up */
	COUNTER_MINUS,		/* one less the other */
};

/* Where a counter is made of fewer than two. */
#define SLUB_ABI_STAT_NONE 0

/* A difference that is so little below 0: the two were not read at one moment. */
#define COUNTER_SKEW_MAX 65536

static inline uint64_t counter_number(enum counter_kind kind, uint64_t one, uint64_t other)
{
	if (kind == COUNTER_IS)
		return one;
	if (kind == COUNTER_PLUS)
		return one + other;
	/* Modulo 2^32; @one counts what @other does, and more. */
	if (one >= other)
		return one - other;
	return other - one <= COUNTER_SKEW_MAX ? 0 : (uint32_t)(one - other);
}

#endif
