/* SPDX-License-Identifier: MIT */
/*
 * Injection points: places between two steps of a protocol where a thread may
 * be preempted, and seldom is.  A build with SLUB_INJECT=ON makes it happen
 * there; in any other build a point is nothing.
 *
 *   SLUB_INJECT=rate=50            one passage in 50, at each point
 *   SLUB_INJECT=rate=5,points=stop+stopped,seed=7,sleep=2000
 *
 *   rate    a hit is one passage in so many; 0, or no variable: none
 *   points  the names of those that are on (core/base/inject.def); all
 *   seed    what each thread's random numbers begin with, beside its number
 *   sleep   most microseconds of a hit that sleeps; 200
 *
 * A hit yields, spins or sleeps; that is up to the random numbers.  A point of
 * inject_fails() says that the step is to fail, as it may at any time.
 *
 * A point may stand under a lock.  It allocates nothing and keeps errno.
 */
#ifndef SLUB_BASE_INJECT_H
#define SLUB_BASE_INJECT_H

#include "core/base/compiler.h"

enum inject_point {
#define INJECT_POINT(name, what) INJECT_##name,
#include "core/base/inject.def"
	INJECT_NR,
};

/* inject.c */
cold void inject_wait(enum inject_point point);
cold bool inject_is_hit(enum inject_point point);

static always_inline void inject(enum inject_point point)
{
	if (SLUB_CONFIG_INJECT)
		inject_wait(point);
}

static always_inline bool inject_fails(enum inject_point point)
{
	return SLUB_CONFIG_INJECT && inject_is_hit(point);
}

#endif
