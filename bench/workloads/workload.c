/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "workload.h"

#include <linux/perf_event.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { STACK_BYTES = 64 << 10 };

static double rest_seconds;
static double began, seconds, operations_done;
static long faults_before;
static int counter = -1;
static double instructions = -1.0;

void workload_begin(const char *name, int argc, char **argv)
{
	bench_begin(name, argc, argv);
	rest_seconds = bench_number("rest", 1.0);
}

static long faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_minflt + usage.ru_majflt;
}

/* Instructions in user mode, of this thread and those it starts; -1 where that is not allowed. */
static int open_counter(void)
{
	struct perf_event_attr event = {
		.type = PERF_TYPE_HARDWARE,
		.size = sizeof(event),
		.config = PERF_COUNT_HW_INSTRUCTIONS,
		.inherit = 1,
		.exclude_kernel = 1,
		.exclude_hv = 1,
	};

	return (int)syscall(SYS_perf_event_open, &event, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

void workload_start(void)
{
	faults_before = faults();
	counter = open_counter();
	began = bench_seconds();
}

void workload_stop(double operations)
{
	uint64_t counted;

	seconds = bench_seconds() - began;
	operations_done = operations;
	if (counter < 0)
		return;
	if (read(counter, &counted, sizeof(counted)) == (ssize_t)sizeof(counted))
		instructions = (double)counted;
	close(counter);
}

int workload_finish(void)
{
	long faulted = faults() - faults_before;

	bench_row("ns", seconds * 1e9 / operations_done, "time");
	bench_row("operations", operations_done, "ops");
	bench_row("s", seconds, "seconds");
	if (instructions > 0)
		bench_row("instructions", instructions / operations_done, "instructions");
	bench_row("faults", (double)faulted, "faults");
	bench_row("MiB", bench_peak_rss() / BENCH_MIB, "peak");
	if (rest_seconds > 0) {
		static const char line[] = "{\"resting\":true}\n";

		if (write(STDOUT_FILENO, line, sizeof(line) - 1) < 0)
			bench_fatal("the output cannot be written");
		bench_sleep(rest_seconds);
		bench_row("MiB", bench_memory(0).rss / BENCH_MIB, "resting");
	}
	return bench_end();
}

struct start {
	pthread_t id;
	void (*body)(int index);
	int index;
};

static void *run(void *argument)
{
	struct start *start = argument;

	start->body(start->index);
	return NULL;
}

void workload_threads(int count, void (*body)(int index))
{
	size_t bytes = (size_t)count * sizeof(struct start);
	struct start *start = bench_map(bytes);
	pthread_attr_t attributes;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	for (int i = 0; i < count; i++) {
		start[i].body = body;
		start[i].index = i;
		if (pthread_create(&start[i].id, &attributes, run, &start[i]))
			bench_fatal("thread %d of %d cannot be made", i + 1, count);
	}
	for (int i = 0; i < count; i++)
		pthread_join(start[i].id, NULL);
	pthread_attr_destroy(&attributes);
	bench_unmap(start, bytes);
}

void *workload_object(size_t size)
{
	char *object = bench_malloc(size);

	object[0] = 1;
	object[size - 1] = 1;
	return object;
}

size_t workload_size(struct bench_random *random, size_t low, size_t high)
{
	int powers = 0;
	size_t base;

	while (low << (powers + 1) <= high)
		powers++;
	base = low << bench_between(random, 0, powers ? (size_t)powers - 1 : 0);
	return bench_between(random, base, base * 2 > high ? high : base * 2);
}

int workload_choice(const char *name, const char *const *words, int count)
{
	const char *given = bench_string(name, words[0]);
	char known[256] = "";

	for (int i = 0; i < count; i++) {
		size_t length = strlen(known);

		if (!strcmp(given, words[i]))
			return i;
		snprintf(known + length, sizeof(known) - length, "%s%s", i ? ", " : "", words[i]);
	}
	bench_fatal("--%s is one of %s, not '%s'", name, known, given);
}

long workload_long(const char *name, long otherwise, long low, long high)
{
	double number = bench_number(name, (double)otherwise);

	if (number < (double)low || number > (double)high)
		bench_fatal("--%s is %ld to %ld, not %.0f", name, low, high, number);
	return (long)number;
}
