/* SPDX-License-Identifier: MIT */
/*
 * What a preload costs a program that does nothing: `empty` started from here (spawn, exec, wait)
 * with the library in --preload and without, in turn.
 *
 * "time" is the median of the starts, "time-over-libc" what the preload adds, in microseconds;
 * "rss" and "rss-over-libc" are the resident memory of `empty --wait` once it has made one
 * allocation. "time-fork" times fork+exec+wait in place of posix_spawn (which is a vfork).
 */
#define _GNU_SOURCE
#include "bench.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static char *plain[512], *preloaded[512];
static char preload_entry[4096], tunables_entry[512];

/* The environment as it is, less any LD_PRELOAD; and the same with the library under test. */
static void prepare(const char *library, const char *tunables)
{
	int n = 0;

	for (char **entry = environ; *entry && n < 500; entry++)
		if (strncmp(*entry, "LD_PRELOAD=", 11) && strncmp(*entry, "GLIBC_TUNABLES=", 15)) {
			plain[n] = *entry;
			preloaded[n++] = *entry;
		}
	if (*library) {
		snprintf(preload_entry, sizeof(preload_entry), "LD_PRELOAD=%s", library);
		preloaded[n++] = preload_entry;
	}
	if (*tunables) {
		snprintf(tunables_entry, sizeof(tunables_entry), "GLIBC_TUNABLES=%s", tunables);
		preloaded[n++] = tunables_entry;
	}
}

static void reap(pid_t child)
{
	int status;

	if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status))
		bench_fatal("the started program failed");
}

static double start_once(char *program, char **environment, bool by_fork)
{
	char *arguments[] = { program, NULL };
	double began = bench_seconds();
	pid_t child;

	if (by_fork) {
		child = fork();
		if (!child) {
			execve(program, arguments, environment);
			_exit(127);
		}
	} else if (posix_spawn(&child, program, NULL, NULL, arguments, environment)) {
		child = -1;
	}
	if (child < 0)
		bench_fatal("%s cannot be started", program);
	reap(child);
	return (bench_seconds() - began) * 1e6;
}

static double resident(char *program, char **environment)
{
	char *arguments[] = { program, "--wait", NULL };
	posix_spawn_file_actions_t actions;
	int to_child[2], from_child[2];
	double rss;
	pid_t child;
	char byte;

	if (pipe2(to_child, O_CLOEXEC) || pipe2(from_child, O_CLOEXEC))
		bench_fatal("no pipe");
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, to_child[0], STDIN_FILENO);
	posix_spawn_file_actions_adddup2(&actions, from_child[1], STDOUT_FILENO);
	if (posix_spawn(&child, program, &actions, NULL, arguments, environment))
		bench_fatal("%s cannot be started", program);
	close(to_child[0]);
	close(from_child[1]);
	if (read(from_child[0], &byte, 1) != 1)
		bench_fatal("the started program failed");
	rss = bench_memory(child).rss;
	close(to_child[1]);
	close(from_child[0]);
	reap(child);
	return rss;
}

static void time_starts(char *program, int starts, bool by_fork)
{
	const char *suffix = by_fork ? "-fork" : "";
	struct bench_samples with = { 0 }, more = { 0 };

	for (int i = 0; i < starts; i++) {
		double without = start_once(program, plain, by_fork);
		double time = start_once(program, preloaded, by_fork);

		bench_sample(&with, time);
		bench_sample(&more, time - without);	/* in pairs: the machine's load drifts */
	}
	bench_row("us", bench_median(&with), "time%s", suffix);
	bench_row("us", bench_median(&more), "time%s-over-libc", suffix);
}

int main(int argc, char **argv)
{
	static char program[4096];
	struct bench_samples with = { 0 }, without = { 0 };
	int starts;

	bench_begin("startup", argc, argv);
	starts = (int)bench_number("starts", 200);
	snprintf(program, sizeof(program), "%s", bench_string("program", "./empty"));
	prepare(bench_string("preload", ""), bench_string("tunables", ""));
	bench_options_done();

	time_starts(program, starts, false);
	time_starts(program, starts / 2, true);
	for (int i = 0; i < 5; i++) {
		bench_sample(&without, resident(program, plain));
		bench_sample(&with, resident(program, preloaded));
	}
	bench_row("KiB", bench_median(&with) / BENCH_KIB, "rss");
	bench_row("KiB", (bench_median(&with) - bench_median(&without)) / BENCH_KIB,
		  "rss-over-libc");
	return bench_end();
}
