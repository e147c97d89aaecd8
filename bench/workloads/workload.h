/* SPDX-License-Identifier: MIT */
/*
 * What every workload has in common: set up, workload_start(), the work, workload_stop(), give
 * everything back that is not to be live at rest, workload_finish().
 *
 * Rows: "time" ns of wall time per operation, "ops", "seconds", "peak" and "resting" MiB, "faults"
 * (page faults, minor and major, from start to finish), "instructions" per operation in user mode
 * where the kernel lets a process count them. Options of all: --rest=SECONDS (default 1; 0: no
 * resting row). The line {"resting":true} goes out before the rest, so that a driver need not
 * wait for it; the line of JSON with the rows comes after.
 */
#ifndef WORKLOAD_H
#define WORKLOAD_H

#include "../core/bench.h"

/* Reads the options of all workloads; before bench_options_done(). */
void workload_begin(const char *name, int argc, char **argv);

/* The clock and the counters begin here, after set-up and before the workload's threads. */
void workload_start(void);

/* The work is done; `operations` of it. Own tables may be unmapped after this. */
void workload_stop(double operations);

/* Rest, measure, print; main returns this. */
int workload_finish(void);

/* `count` threads with small stacks run body(index) and are joined. */
void workload_threads(int count, void (*body)(int index));

/* malloc and write the first and the last byte, as whoever asked for memory does. */
void *workload_object(size_t size);

/* A size in low..high whose logarithm is uniform: small ones are more frequent. */
size_t workload_size(struct bench_random *random, size_t low, size_t high);

/* --name=WORD where WORD is one of the `count` words; its number. The first is the default. */
int workload_choice(const char *name, const char *const *words, int count);

/* --name=NUMBER within low..high. */
long workload_long(const char *name, long otherwise, long low, long high);

static inline struct bench_random workload_random(int seed)
{
	struct bench_random random = { 0x9e3779b97f4a7c15u * (uint64_t)(seed + 1) };

	return random;
}

#endif /* WORKLOAD_H */
