/* SPDX-License-Identifier: MIT */
/*
 * What the programs of this folder share: the time stamp counter and its frequency, loops timed
 * over several rounds, threads bound to CPUs that start together, and the lines of the originals.
 *
 * A program prints its classic lines, in the words and the integer division of the original, and
 * under each a corrected one: true operation counts, no truncation, the median of the rounds
 * after a warm-up. `--json` adds one line of JSON at the end, which bench/kernel/run reads.
 *
 * "Cycles" are ticks of the time stamp counter (x86-64) or of the virtual counter (aarch64), not
 * clock cycles of the core.
 */
#ifndef ORIG_H
#define ORIG_H

#include "bench.h"

/* What every program takes: --rounds, --cpus, --json. Set by orig_begin(). */
extern unsigned int orig_rounds;	/* 1 to ORIG_ROUNDS_MAX */
extern unsigned int orig_cpus;		/* CPUs this process may use, or fewer if asked for */

enum { ORIG_ROUNDS_MAX = 101, ORIG_CPUS_MAX = 256 };

void orig_begin(const char *program, int argc, char **argv);
/* Says what the library chose (backend, layout), prints the JSON if asked for; for exit(). */
int orig_end(void);

/* A line of text on standard output. */
void orig_line(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same, with the words that mark what was left out, and why; it stands in the JSON too. */
void orig_left_out(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* --- time --- */

double orig_frequency(void);		/* ticks per second, calibrated at the start */

static inline double orig_ns(double cycles)
{
	return cycles * 1e9 / orig_frequency();
}

/* One timed loop. */
struct orig_period {
	uint64_t operations;
	uint64_t cycles;
	double seconds;		/* by CLOCK_MONOTONIC, not derived from the cycles */
};

/* Runs `loops` loops and returns how many operations those were. */
typedef uint64_t (*orig_loop)(uint64_t loops, void *arg);

struct orig_period orig_measure(orig_loop loop, uint64_t loops, void *arg);

/*
 * One test in the format of the kernel's time_bench: a warm-up of a tenth, then the rounds. Prints
 * the line of the round with the median time and the corrected line, adds the rows ROW (ns per
 * operation) and ROW/cycles, and returns the median in ns.
 */
double orig_time_bench(const char *type, const char *row, orig_loop loop, uint64_t loops,
		       void *arg, unsigned int step);

/* --- threads --- */

struct orig_worker {
	unsigned int number, count;
	void *arg;
	double result[4];	/* what the thread reports */
	struct orig_team *team;
};

/* Binds the calling thread to the nth CPU that this process was given. */
void orig_bind(unsigned int nth);
/* Runs `work` in `count` threads, thread n on the nth CPU; returns when all have ended. */
void orig_team(unsigned int count, void (*work)(struct orig_worker *), void *arg,
	       struct orig_worker *workers);
/* All threads of the team leave it together. */
void orig_together(struct orig_worker *worker);
/* For a wait in a loop; gives the CPU away where there are more threads than CPUs. */
void orig_relax(unsigned int *spins);

/*
 * A test on every CPU at once, a thread each: the lines of time_bench's concurrent tests and the
 * corrected one, the row ROW. Returns the average of the CPUs' medians in ns.
 */
double orig_time_parallel(const char *type, const char *row, orig_loop loop, uint64_t loops,
			  void *arg);

#endif
