/* SPDX-License-Identifier: MIT */
/* What the programs of this folder share: the machine, threads, medians, counters. */
#ifndef SLUB_BENCH_RECLAIM_H
#define SLUB_BENCH_RECLAIM_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "reclaim/reclaim_internal.h"

#define ROUNDS_MAX 15

uint64_t now_ns(void);
/* The middle one; sorts. */
double median(double *values, int nr);

/*
 * The case of the kernel's shrinker patches: @nr groups, in each a file system whose shrinker is
 * aware of groups.  The first @nr_active have something, each in its own group.
 */
void machine_make(uint32_t nr, uint32_t nr_active);
/* How many objects each of the active ones says it has; 0: nothing to reclaim anywhere. */
void machine_fill(uint32_t nr_active, size_t objects);
struct slub_group *machine_group(uint32_t n);
struct slub_shrinker *machine_shrinker(uint32_t n);

/*
 * One walk over all groups under a read-write lock, as the kernel did until 6.3: a read-trylock
 * per group, for the same maps and the same visits.
 */
size_t locked_walk(int priority);
/* The same for the writer: register and unregister. */
void locked_begin_write(void);
void locked_end_write(void);
/* Every shrinker is asked for every group, as before 4.19. */
size_t product_walk(int priority);

/* Puts this thread on a CPU, in turn by @n: two threads on one CPU would never meet. */
void pin(uint32_t n);

/*
 * Runs @body again and again in @nr threads, spread over the CPUs, for @ns.  Returns how many times
 * they ran it per second of CPU time, which other load on the machine does not change.
 */
double run_threads(int nr, uint64_t ns, void (*body)(void *), void *arg);

/* Instructions of this thread in user mode; 0: the kernel does not say. */
int instructions_open(void);
uint64_t instructions_read(int fd);

#endif
