/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "bench.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { OPTIONS_MAX = 64, OUTPUT_MAX = 64 << 10 };

static const char *bench_program = "bench";
static int bench_argc;
static char **bench_argv;
static bool option_used[OPTIONS_MAX];

static char output[OUTPUT_MAX];
static size_t output_length;
static int output_rows;

void bench_fatal(const char *format, ...)
{
	va_list list;

	fprintf(stderr, "%s: ", bench_program);
	va_start(list, format);
	vfprintf(stderr, format, list);
	va_end(list);
	fputc('\n', stderr);
	_exit(1);
}

/* --- clocks --- */

double bench_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void bench_sleep(double seconds)
{
	struct timespec left;

	left.tv_sec = (time_t)seconds;
	left.tv_nsec = (long)((seconds - (double)left.tv_sec) * 1e9);
	while (nanosleep(&left, &left))
		;
}

/* --- memory --- */

static double kib_after(const char *text, const char *key)
{
	const char *line = strstr(text, key);

	return line ? strtod(line + strlen(key), NULL) * BENCH_KIB : 0.0;
}

static void read_text(char *text, size_t room, const char *path)
{
	int file = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length = file < 0 ? -1 : read(file, text, room - 1);

	if (length < 0)
		bench_fatal("%s cannot be read; it needs Linux 4.14 or newer", path);
	close(file);
	text[length] = '\0';
}

struct bench_memory bench_memory(int pid)
{
	struct bench_memory memory;
	char text[4096], path[64];

	if (pid)
		snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", pid);
	else
		snprintf(path, sizeof(path), "/proc/self/smaps_rollup");
	read_text(text, sizeof(text), path);
	memory.rss = kib_after(text, "Rss:");
	memory.anonymous = kib_after(text, "\nAnonymous:");
	return memory;
}

/* Not getrusage(): its maximum survives exec, so it may be that of the program which started us. */
double bench_peak_rss(void)
{
	char text[4096];

	read_text(text, sizeof(text), "/proc/self/status");
	return kib_after(text, "VmHWM:");
}

void *bench_map(size_t bytes)
{
	void *table = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (table == MAP_FAILED)
		bench_fatal("no memory for a table of %zu bytes", bytes);
	return table;
}

void bench_unmap(void *table, size_t bytes)
{
	munmap(table, bytes);
}

void *bench_malloc(size_t size)
{
	void *object = malloc(size);

	if (!object)
		bench_fatal("malloc(%zu) failed", size);
	return object;
}

/* --- repetitions --- */

void bench_sample(struct bench_samples *samples, double value)
{
	if (samples->count < BENCH_SAMPLES_MAX)
		samples->value[samples->count++] = value;
}

static void sort(double *value, int count)
{
	for (int i = 1; i < count; i++) {
		double moved = value[i];
		int j = i;

		for (; j > 0 && value[j - 1] > moved; j--)
			value[j] = value[j - 1];
		value[j] = moved;
	}
}

double bench_minimum(struct bench_samples *samples)
{
	sort(samples->value, samples->count);
	return samples->count ? samples->value[0] : 0.0;
}

double bench_median(struct bench_samples *samples)
{
	int n = samples->count;

	sort(samples->value, n);
	if (!n)
		return 0.0;
	return n % 2 ? samples->value[n / 2]
		     : (samples->value[n / 2 - 1] + samples->value[n / 2]) / 2;
}

/* --- options --- */

void bench_begin(const char *program, int argc, char **argv)
{
	bench_program = program;
	bench_argc = argc;
	bench_argv = argv;
	if (argc > OPTIONS_MAX)
		bench_fatal("too many arguments");
}

static bool is_option(const char *argument, const char *name)
{
	size_t length = strlen(name);

	return !strncmp(argument, "--", 2) && !strncmp(argument + 2, name, length) &&
	       (argument[2 + length] == '\0' || argument[2 + length] == '=');
}

const char *bench_string(const char *name, const char *otherwise)
{
	for (int i = 1; i < bench_argc; i++) {
		const char *equals;

		if (!is_option(bench_argv[i], name))
			continue;
		option_used[i] = true;
		equals = strchr(bench_argv[i], '=');
		if (equals)
			return equals + 1;
		if (i + 1 == bench_argc)
			bench_fatal("--%s needs a value", name);
		option_used[i + 1] = true;
		return bench_argv[i + 1];
	}
	return otherwise;
}

double bench_number(const char *name, double otherwise)
{
	const char *text = bench_string(name, NULL);
	double number;
	char *end;

	if (!text)
		return otherwise;
	number = strtod(text, &end);
	if (end == text || *end || number < 0)
		bench_fatal("--%s takes a number, not '%s'", name, text);
	return number;
}

bool bench_flag(const char *name)
{
	for (int i = 1; i < bench_argc; i++)
		if (is_option(bench_argv[i], name)) {
			option_used[i] = true;
			return true;
		}
	return false;
}

void bench_options_done(void)
{
	for (int i = 1; i < bench_argc; i++)
		if (!option_used[i])
			bench_fatal("unknown argument '%s'", bench_argv[i]);
}

void bench_options_done_settle(void)
{
	double until = bench_seconds() + bench_number("settle", 300) / 1000;

	bench_options_done();
	while (bench_seconds() < until)
		;
}

/* --- the result --- */

static void put(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	output_length += (size_t)vsnprintf(output + output_length, OUTPUT_MAX - output_length,
					   format, list);
	va_end(list);
	if (output_length >= OUTPUT_MAX)
		bench_fatal("more rows than the output buffer holds");
}

static void put_row(const char *unit, double value, const char *format, va_list list)
{
	put("%s{\"name\":\"", output_rows++ ? "," : "");
	output_length += (size_t)vsnprintf(output + output_length, OUTPUT_MAX - output_length,
					   format, list);
	put("\",\"value\":%.6g,\"unit\":\"%s\"", value, unit);
}

void bench_row(const char *unit, double value, const char *name, ...)
{
	va_list list;

	va_start(list, name);
	put_row(unit, value, name, list);
	va_end(list);
	put("}");
}

void bench_row_samples(const char *unit, struct bench_samples *samples, const char *name, ...)
{
	va_list list;

	va_start(list, name);
	put_row(unit, bench_minimum(samples), name, list);
	va_end(list);
	put(",\"median\":%.6g}", bench_median(samples));
}

int bench_end(void)
{
	/*
	 * Where this program's own calls are bound. Not what dlsym() finds: that takes a malloc of
	 * any symbol version, where the program's reference names the C library's.
	 */
	void *(*volatile bound)(size_t) = malloc;
	const char *from = "unknown";
	Dl_info info;

	if (dladdr((void *)bound, &info) && info.dli_fname)
		from = info.dli_fname;
	printf("{\"program\":\"%s\",\"malloc\":\"%s\",\"rows\":[%.*s]}\n", bench_program, from,
	       (int)output_length, output);
	return fflush(stdout) ? 1 : 0;
}

/* --- threads --- */

bool bench_bind(unsigned int nth)
{
	cpu_set_t allowed, one;
	unsigned int count;

	if (sched_getaffinity(0, sizeof(allowed), &allowed))
		return false;
	count = (unsigned int)CPU_COUNT(&allowed);
	nth %= count;
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &allowed) || nth--)
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		return !sched_setaffinity(0, sizeof(one), &one);
	}
	return false;
}
