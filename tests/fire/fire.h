/* SPDX-License-Identifier: MIT */
/*
 * What every program of this folder needs: options, a seed, stamps over whole
 * objects, a watchdog, and a check that the library under test is the malloc
 * in use.  Nothing here allocates, so all of it may run in a signal handler or
 * in the child of a fork.
 */
#ifndef SLUB_TESTS_FIRE_H
#define SLUB_TESTS_FIRE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define FIRE_SKIP 77	/* exit status that ctest shows as skipped */
#define FIRE_HUNG 124	/* exit status of a program its watchdog ended */

#ifdef __cplusplus
extern "C" {
#endif

/* -- options ------------------------------------------------------------ */

/* Reads --NAME=VALUE; K, M and G stand for 10^3, 10^6 and 10^9. */
void fire_start(int argc, char **argv, const char *known);
uint64_t fire_opt(const char *name, uint64_t otherwise);
const char *fire_opt_str(const char *name, const char *otherwise);

/* SLUB_TEST_SCALE, the share of its default work that a program is to do. */
double fire_scale(void);

/* A count from the command line as given, or the default times the scale. */
uint64_t fire_count(const char *name, uint64_t otherwise);

/* --seed=N, or a new one; printed, so that a failure can be run again. */
uint64_t fire_seed(void);

/* -- the library -------------------------------------------------------- */

/* 1 rseq, 2 thread, 3 tid, 4 lock; 0: some other malloc is in use. */
int fire_backend(void);
const char *fire_backend_name(int backend);

/*
 * With FIRE_EXPECT_LIB=1 in the environment: ends the program unless libslub
 * is its malloc and runs the backend that SLUB_FASTPATH asks for.
 */
void fire_require_library(void);

/* -- ends --------------------------------------------------------------- */

void fire_fail(const char *format, ...)
	__attribute__((noreturn, format(printf, 1, 2)));
void fire_skip(const char *format, ...)
	__attribute__((noreturn, format(printf, 1, 2)));

/* Ends the process with FIRE_HUNG, and says so, so many seconds after the last call. */
void fire_watchdog(unsigned int seconds);

/* Waits for a child; kills it and returns -1 when it takes longer. */
int fire_wait(pid_t child, unsigned int seconds);

/*
 * Runs the rest of the program in a process namespace of its own, so that
 * nothing it started outlives it; without the permission, as a child that
 * dies with its parent.  Call it before the first thread.
 */
void fire_isolate(void);

/* -- random numbers ----------------------------------------------------- */

static inline uint64_t fire_rng(uint64_t *state)
{
	uint64_t x = *state;

	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	*state = x;
	return x * 0x2545f4914f6cdd1dull;
}

/* Any number, zero too, becomes a state from which fire_rng() works. */
static inline uint64_t fire_rng_state(uint64_t seed)
{
	uint64_t z = seed + 0x9e3779b97f4a7c15ull;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	z ^= z >> 31;
	return z ? z : 1;
}

static inline uint64_t fire_below(uint64_t *state, uint64_t bound)
{
	return (fire_rng(state) >> 16) % bound;
}

/* A size as programs ask for them: mostly small, at times 64 KiB. */
size_t fire_size(uint64_t *state);

/* -- stamps ------------------------------------------------------------- */

/* Fills the whole object with a pattern that only this id has. */
void fire_stamp(void *object, size_t size, uint64_t id);

/* Offset of the first byte that is not the stamp's, or size if all are. */
size_t fire_stamp_differs(const void *object, size_t size, uint64_t id);

/* Ends the program when the stamp is damaged; clears the object's head. */
void fire_unstamp(void *object, size_t size, uint64_t id, const char *where);

#ifdef __cplusplus
}
#endif
#endif
