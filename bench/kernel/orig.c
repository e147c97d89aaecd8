/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "orig.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>

#include "features/inspect/abi.h"

unsigned int orig_rounds = 5;
unsigned int orig_cpus = 1;

static cpu_set_t allowed;	/* at the start: a thread that is bound passes its own mask on */
static double frequency;
static bool want_json;
static unsigned int nr_left_out;

/* --- time --- */

static double ticks_per_second(double seconds)
{
	double began = bench_seconds(), now;
	uint64_t first = bench_cycles();

	do
		now = bench_seconds();
	while (now - began < seconds);
	return (double)(bench_cycles() - first) / (now - began);
}

static void calibrate(void)
{
	struct bench_samples samples = { 0 };

	for (int i = 0; i < 5; i++)
		bench_sample(&samples, ticks_per_second(0.004));
	frequency = bench_median(&samples);
}

double orig_frequency(void)
{
	return frequency;
}

/* --- begin and end --- */

static unsigned int cpus_allowed(void)
{
	if (sched_getaffinity(0, sizeof(allowed), &allowed))
		return 1;
	return (unsigned int)CPU_COUNT(&allowed);
}

void orig_begin(const char *program, int argc, char **argv)
{
	unsigned int asked;

	bench_begin(program, argc, argv);
	orig_rounds = (unsigned int)bench_number("rounds", orig_rounds);
	if (orig_rounds < 1 || orig_rounds > ORIG_ROUNDS_MAX)
		bench_fatal("--rounds is 1 to %d", ORIG_ROUNDS_MAX);
	orig_cpus = cpus_allowed();
	if (orig_cpus > ORIG_CPUS_MAX)
		orig_cpus = ORIG_CPUS_MAX;
	asked = (unsigned int)bench_number("cpus", orig_cpus);
	if (asked < 1 || asked > orig_cpus)
		bench_fatal("--cpus is 1 to %u, the CPUs this process may use", orig_cpus);
	orig_cpus = asked;
	want_json = bench_flag("json");
	calibrate();
	bench_row("Hz", frequency, "machine/ticks");
	bench_row("CPUs", orig_cpus, "machine/cpus");
}

static const char *backend_name(uint32_t backend)
{
	static const char *const name[] = { "none", "rseq", "thread", "tid", "lock" };

	return backend < sizeof(name) / sizeof(name[0]) ? name[backend] : "unknown";
}

static const char *layout_name(uint32_t layout)
{
	static const char *const name[] = { "aligned64", "inner56", "lock56" };

	return layout < sizeof(name) / sizeof(name[0]) ? name[layout] : "unknown";
}

/* A row per choice, its value in its name: what was forced is compared with what came. */
static void report_library(void)
{
	const struct slub_abi *abi = dlsym(RTLD_DEFAULT, SLUB_ABI_SYMBOL);

	if (!abi || memcmp(abi->magic, SLUB_ABI_MAGIC, sizeof(abi->magic)))
		return;
	orig_line("libslub: backend %s, descriptor %s, %s", backend_name(abi->backend),
		  layout_name(abi->layout), abi->smp ? "SMP" : "uniprocessor");
	bench_row("", 1, "library/backend/%s", backend_name(abi->backend));
	bench_row("", 1, "library/layout/%s", layout_name(abi->layout));
	bench_row("", 1, "library/processors/%s", abi->smp ? "SMP" : "uniprocessor");
}

int orig_end(void)
{
	bench_options_done();
	report_library();
	fflush(stdout);
	return want_json ? bench_end() : 0;
}

void orig_line(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	vprintf(format, list);
	va_end(list);
	putchar('\n');
}

void orig_left_out(const char *format, ...)
{
	char text[200];
	va_list list;

	va_start(list, format);
	vsnprintf(text, sizeof(text), format, list);
	va_end(list);
	printf("left out: %s\n", text);
	bench_row("", 1, "left-out/%u/%s", nr_left_out++, text);
}

/* --- timed loops --- */

struct orig_period orig_measure(orig_loop loop, uint64_t loops, void *arg)
{
	struct orig_period period;
	double began = bench_seconds();
	uint64_t first = bench_cycles();

	period.operations = loop(loops, arg);
	period.cycles = bench_cycles() - first;
	period.seconds = bench_seconds() - began;
	return period;
}

static double ns_each(const struct orig_period *period)
{
	return period->seconds * 1e9 / (double)period->operations;
}

static int by_time(const void *a, const void *b)
{
	double x = ns_each(a), y = ns_each(b);

	return x < y ? -1 : x > y;
}

static void print_period(const char *type, const struct orig_period *period, unsigned int step)
{
	uint64_t ns = (uint64_t)(period->seconds * 1e9);

	orig_line("Type:%s Per elem: %lu cycles(tsc) %.3f ns (step:%u)"
		  " - (measurement period time:%lu.%09lu sec time_interval:%lu)"
		  " - (invoke count:%lu tsc_interval:%lu)",
		  type, period->cycles / period->operations, ns_each(period), step,
		  ns / 1000000000, ns % 1000000000, ns, period->operations, period->cycles);
}

double orig_time_bench(const char *type, const char *row, orig_loop loop, uint64_t loops,
		       void *arg, unsigned int step)
{
	struct orig_period period[ORIG_ROUNDS_MAX];
	struct bench_samples time = { 0 }, cycles = { 0 };
	double median;

	loop(loops / 10 + 1, arg);
	for (unsigned int i = 0; i < orig_rounds; i++) {
		period[i] = orig_measure(loop, loops, arg);
		if (!period[i].operations)
			bench_fatal("%s: no operation was made", type);
		bench_sample(&time, ns_each(&period[i]));
		bench_sample(&cycles, (double)period[i].cycles / (double)period[i].operations);
	}
	qsort(period, orig_rounds, sizeof(period[0]), by_time);
	print_period(type, &period[orig_rounds / 2], step);
	median = bench_median(&time);
	orig_line("    corrected: %.2f cycles, %.3f ns; median of %u rounds, %.3f to %.3f ns",
		  bench_median(&cycles), median, orig_rounds, time.value[0],
		  time.value[time.count - 1]);
	bench_row("ns", median, "%s", row);
	bench_row("cycles", bench_median(&cycles), "%s/cycles", row);
	return median;
}

/* --- threads --- */

struct orig_team {
	void (*work)(struct orig_worker *);
	unsigned int count;
	_Atomic unsigned int arrived;
	_Atomic unsigned int turn;
};

void orig_relax(unsigned int *spins)
{
	if (++*spins % 1024 == 0)
		sched_yield();
#if defined(__x86_64__)
	__builtin_ia32_pause();
#endif
}

void orig_together(struct orig_worker *worker)
{
	struct orig_team *team = worker->team;
	unsigned int turn = team->turn, spins = 0;

	if (++team->arrived == team->count) {
		team->arrived = 0;
		team->turn = turn + 1;
		return;
	}
	while (team->turn == turn)
		orig_relax(&spins);
}

void orig_bind(unsigned int nth)
{
	cpu_set_t one;

	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &allowed) || nth--)
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		sched_setaffinity(0, sizeof(one), &one);
		return;
	}
}

static void *start(void *arg)
{
	struct orig_worker *worker = arg;

	orig_bind(worker->number);
	orig_together(worker);
	worker->team->work(worker);
	return NULL;
}

void orig_team(unsigned int count, void (*work)(struct orig_worker *), void *arg,
	       struct orig_worker *workers)
{
	struct orig_team team = { .work = work, .count = count };
	pthread_t thread[ORIG_CPUS_MAX];

	for (unsigned int i = 0; i < count; i++) {
		workers[i] = (struct orig_worker){ .number = i, .count = count, .arg = arg,
						   .team = &team };
		if (pthread_create(&thread[i], NULL, start, &workers[i]))
			bench_fatal("thread %u of %u cannot be started", i + 1, count);
	}
	for (unsigned int i = 0; i < count; i++)
		pthread_join(thread[i], NULL);
}

/* --- timed loops on every CPU --- */

struct parallel {
	orig_loop loop;
	uint64_t loops;
	void *arg;
};

static void parallel_work(struct orig_worker *worker)
{
	const struct parallel *parallel = worker->arg;
	struct bench_samples time = { 0 }, cycles = { 0 };

	parallel->loop(parallel->loops / 10 + 1, parallel->arg);
	for (unsigned int i = 0; i < orig_rounds; i++) {
		struct orig_period period;

		orig_together(worker);
		period = orig_measure(parallel->loop, parallel->loops, parallel->arg);
		bench_sample(&time, ns_each(&period));
		bench_sample(&cycles, (double)period.cycles / (double)period.operations);
	}
	worker->result[0] = bench_median(&time);
	worker->result[1] = bench_median(&cycles);
}

double orig_time_parallel(const char *type, const char *row, orig_loop loop, uint64_t loops,
			  void *arg)
{
	struct parallel work = { .loop = loop, .loops = loops, .arg = arg };
	struct orig_worker worker[ORIG_CPUS_MAX];
	double time = 0, cycles = 0;

	orig_team(orig_cpus, parallel_work, &work, worker);
	for (unsigned int i = 0; i < orig_cpus; i++) {
		orig_line("Type:%s CPU(%u) %lu cycles(tsc) %.3f ns (step:0)", type, i,
			  (unsigned long)worker[i].result[1], worker[i].result[0]);
		time += worker[i].result[0] / orig_cpus;
		cycles += worker[i].result[1] / orig_cpus;
	}
	orig_line("Sum Type:%s Average: %lu cycles(tsc) CPUs:%u step:0", type,
		  (unsigned long)cycles, orig_cpus);
	orig_line("    corrected: %.2f cycles, %.3f ns", cycles, time);
	bench_row("ns", time, "%s", row);
	bench_row("cycles", cycles, "%s/cycles", row);
	return time;
}
