/* SPDX-License-Identifier: MIT */
/*
 * What every benchmark program needs: clocks, resident memory, options, and the one line of
 * JSON it ends with. Nothing here allocates: the program's own memory must not blur the heap
 * under test, so large tables come from mmap and the output buffer is static.
 *
 * Output: {"program":"pair","malloc":"/path/of/the/library","rows":[
 *	{"name":"reuse/64","value":4.2,"unit":"ns","median":4.3}, ...]}
 * `value` is what is compared; `median` stands beside it where `value` is a minimum.
 */
#ifndef BENCH_H
#define BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The compiler must take p as used and all memory as changed here. */
#define bench_escape(p) __asm__ volatile("" : : "r"(p) : "memory")

#define BENCH_KIB 1024.0
#define BENCH_MIB (1024.0 * 1024.0)

/* --- clocks --- */

static inline uint64_t bench_cycles(void)
{
#if defined(__x86_64__)
	uint32_t low, high;

	__asm__ volatile("lfence; rdtsc; lfence" : "=a"(low), "=d"(high) : : "memory");
	return (uint64_t)high << 32 | low;
#elif defined(__aarch64__)
	uint64_t ticks;

	__asm__ volatile("isb; mrs %0, cntvct_el0; isb" : "=r"(ticks) : : "memory");
	return ticks;
#else
#error "no cycle counter is known for this processor"
#endif
}

double bench_seconds(void);
void bench_sleep(double seconds);

/* --- a small generator: the same sizes for every allocator --- */

struct bench_random {
	uint64_t state;
};

static inline uint32_t bench_random(struct bench_random *random)
{
	uint64_t x = random->state;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	random->state = x;
	return (uint32_t)(x >> 32);
}

/* Uniform in low..high, both included. */
static inline size_t bench_between(struct bench_random *random, size_t low, size_t high)
{
	return low + (size_t)(((uint64_t)bench_random(random) * (high - low + 1)) >> 32);
}

/* --- memory --- */

struct bench_memory {
	double rss;		/* bytes, all kinds */
	double anonymous;	/* bytes of that which are no file's */
};

/* Of this process (pid 0) or another, from the page tables, not from lagging counters. */
struct bench_memory bench_memory(int pid);
double bench_peak_rss(void);

/* A table of the program's own, outside the heap under test. */
void *bench_map(size_t bytes);
void bench_unmap(void *table, size_t bytes);

/* malloc, or an end with a message: a benchmark has no way on. */
void *bench_malloc(size_t size);

/* --- repetitions --- */

enum { BENCH_SAMPLES_MAX = 512 };

struct bench_samples {
	int count;
	double value[BENCH_SAMPLES_MAX];
};

void bench_sample(struct bench_samples *samples, double value);
double bench_minimum(struct bench_samples *samples);
double bench_median(struct bench_samples *samples);

/* --- options: --name VALUE or --name=VALUE, and bare --flags --- */

void bench_begin(const char *program, int argc, char **argv);
double bench_number(const char *name, double otherwise);
const char *bench_string(const char *name, const char *otherwise);
bool bench_flag(const char *name);
/* Call when all have been asked for: any other option is an error. */
void bench_options_done(void);
/*
 * The same, and then busy for --settle milliseconds: the host of a virtual machine may run a CPU
 * that has just woken beside another busy one, and moves it some 100 ms later. Of 28 processes of
 * slab_test 10 began with 13 cycles and not 9, whatever the allocator, and 3 behind 400 ms.
 */
void bench_options_done_settle(void);

/* --- the result --- */

void bench_row(const char *unit, double value, const char *name, ...)
	__attribute__((format(printf, 3, 4)));
/* Minimum and median of the samples in one row. */
void bench_row_samples(const char *unit, struct bench_samples *samples, const char *name, ...)
	__attribute__((format(printf, 3, 4)));
int bench_end(void);

void bench_fatal(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* --- threads --- */

/* Bind the calling thread to the nth CPU it may use, counted round; false where it cannot. */
bool bench_bind(unsigned int nth);

#ifdef __cplusplus
}
#endif

#endif /* BENCH_H */
