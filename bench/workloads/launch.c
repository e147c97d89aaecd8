/* SPDX-License-Identifier: MIT */
/*
 * Runs a real program under an allocator and measures it from outside:
 *
 *	launch [--preload=LIBRARY] [--input=FILE] [--client=COMMAND] [--whole] [--rest=SECONDS]
 *	       --expect=TEXT -- PROGRAM ARGUMENTS...
 *
 * The program says "@done TEXT" on a line of its standard output when its work is done, then
 * waits for the end of its standard input; TEXT must be the expected one, or the work was not
 * done. --whole: it just ends, and the line may come at any time (time and memory are those of
 * the largest process of its tree). --client: the program is a server; the command is run without
 * the allocator and says "@done TEXT" itself. A line "@start" begins the time anew.
 *
 * Rows as a workload's: "time" ms, "peak", "resting" MiB, "faults". The starter is a small process
 * because the peak that the kernel reports of a child is never below its parent's.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *preload = "", *input, *client, *expected = "";
static bool whole;
static double rest_seconds = 1.0;
static double began;		/* ms */
static char **command;

struct program {
	pid_t pid;
	int in, out;		/* the ends of its pipes that are ours */
	bool preloaded;		/* the library was seen in its map */
};

struct measured {
	double ms, peak_mib, resting_mib;
	long faults;
};

static pid_t to_end;		/* the program, where this one fails */

static void __attribute__((noreturn, format(printf, 1, 2))) fatal(const char *format, ...)
{
	va_list list;

	fputs("launch: ", stderr);
	va_start(list, format);
	vfprintf(stderr, format, list);
	va_end(list);
	fputc('\n', stderr);
	if (to_end > 0)
		kill(to_end, SIGKILL);
	exit(1);
}

static double now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static void options(int argc, char **argv)
{
	int i = 1;

	for (; i < argc && strcmp(argv[i], "--"); i++) {
		char *value = strchr(argv[i], '=');

		value = value ? value + 1 : "";
		if (!strncmp(argv[i], "--preload=", 10))
			preload = value;
		else if (!strncmp(argv[i], "--input=", 8))
			input = value;
		else if (!strncmp(argv[i], "--client=", 9))
			client = value;
		else if (!strncmp(argv[i], "--expect=", 9))
			expected = value;
		else if (!strncmp(argv[i], "--rest=", 7))
			rest_seconds = strtod(value, NULL);
		else if (!strcmp(argv[i], "--whole"))
			whole = true;
		else
			fatal("unknown argument '%s'", argv[i]);
	}
	if (i + 1 >= argc)
		fatal("no program is named after --");
	command = argv + i + 1;
}

static void become(int in, int out)
{
	dup2(in, STDIN_FILENO);
	dup2(out, STDOUT_FILENO);
	if (*preload)
		setenv("LD_PRELOAD", preload, 1);
	execvp(command[0], command);
	fprintf(stderr, "launch: %s: %s\n", command[0], strerror(errno));
	_exit(127);
}

static struct program start(void)
{
	struct program program = { 0 };
	int in[2], out[2];

	if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC))
		fatal("no pipe");
	program.pid = fork();
	if (program.pid < 0)
		fatal("no process");
	if (!program.pid)
		become(in[0], out[1]);
	to_end = program.pid;
	close(in[0]);
	close(out[1]);
	program.in = in[1];
	program.out = out[0];
	return program;
}

/* The script goes down the pipe whole; what is longer than a pipe holds would have to be a file. */
static void feed(struct program *program)
{
	static char script[60 << 10];
	int file = open(input, O_RDONLY | O_CLOEXEC);
	ssize_t length = file < 0 ? -1 : read(file, script, sizeof(script));

	if (length <= 0 || length == (ssize_t)sizeof(script))
		fatal("%s cannot be read or is longer than 60 KiB", input);
	close(file);
	if (write(program->in, script, (size_t)length) != length)
		fatal("%s takes no input", command[0]);
}

/* The number after a key in a file of /proc, e.g. "VmHWM:" in status. */
static long proc_number(pid_t pid, const char *name, const char *key)
{
	char path[64], line[4096];
	long number = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, key, strlen(key)))
			number = strtol(line + strlen(key), NULL, 10);
	if (file)
		fclose(file);
	return number;
}

/* Minor and major faults, fields 10 and 12 of stat; the name in field 2 may hold spaces. */
static long proc_faults(pid_t pid)
{
	char path[64], text[1024] = "";
	long minor = 0, major = 0;
	const char *end;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	file = fopen(path, "re");
	if (!file)
		return 0;
	end = fgets(text, sizeof(text), file) ? strrchr(text, ')') : NULL;
	fclose(file);
	if (!end || sscanf(end + 1, " %*c %*d %*d %*d %*d %*d %*u %ld %*u %ld", &minor,
			   &major) != 2)
		return 0;
	return minor + major;
}

static bool maps_hold_preload(pid_t pid)
{
	char path[64], line[4096];
	bool found = false;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	file = fopen(path, "re");
	while (file && !found && fgets(line, sizeof(line), file))
		found = strstr(line, preload) != NULL;
	if (file)
		fclose(file);
	return found;
}

/* A program that just ends is looked at early: for up to 100 ms, once a millisecond. */
static void look_for_preload(struct program *program)
{
	for (int i = 0; i < 100 && *preload && !program->preloaded; i++) {
		usleep(1000);
		program->preloaded = maps_hold_preload(program->pid);
	}
}

/* Reads lines until "@done"; whether it came, and with the expected text. */
static void wait_for_done(FILE *lines, const char *who)
{
	char line[4096], last[128] = "nothing";

	while (fgets(line, sizeof(line), lines)) {
		line[strcspn(line, "\n")] = '\0';
		snprintf(last, sizeof(last), "%.127s", line);
		if (!strcmp(line, "@start"))
			began = now_ms();
		if (strncmp(line, "@done", 5))
			continue;
		if (strncmp(line + 5, " ", 1) || strcmp(line + 6, expected))
			fatal("%s says '%s' where '@done %s' is right", who, line, expected);
		return;
	}
	fatal("%s ended before its work was done; its last line: '%s'", who, last);
}

static void run_client(void)
{
	FILE *lines = popen(client, "re");

	if (!lines)
		fatal("the client cannot be started");
	wait_for_done(lines, "the client");
	if (pclose(lines))
		fatal("the client failed");
}

static void rest(struct program *program, struct measured *measured)
{
	measured->peak_mib = (double)proc_number(program->pid, "status", "VmHWM:") / 1024;
	measured->faults = proc_faults(program->pid);
	if (*preload)
		program->preloaded = maps_hold_preload(program->pid);
	if (rest_seconds <= 0)
		return;
	puts("{\"resting\":true}");
	fflush(stdout);
	usleep((useconds_t)(rest_seconds * 1e6));
	measured->resting_mib = (double)proc_number(program->pid, "smaps_rollup", "Rss:") / 1024;
}

static void end(struct program *program, struct measured *measured)
{
	struct rusage usage;
	int status;

	close(program->in);
	if (client)
		kill(program->pid, SIGTERM);
	if (wait4(program->pid, &status, 0, &usage) != program->pid)
		fatal("%s is lost", command[0]);
	to_end = 0;
	if (!client && status)
		fatal("%s ended with status %#x", command[0], (unsigned int)status);
	if (!whole)
		return;
	getrusage(RUSAGE_CHILDREN, &usage);
	measured->peak_mib = (double)usage.ru_maxrss / 1024;
	measured->faults = usage.ru_minflt + usage.ru_majflt;
}

static void print(const struct program *program, const struct measured *measured)
{
	printf("{\"program\":\"%s\",\"malloc\":\"%s\",\"rows\":["
	       "{\"name\":\"time\",\"value\":%.6g,\"unit\":\"ms\"},"
	       "{\"name\":\"peak\",\"value\":%.6g,\"unit\":\"MiB\"},"
	       "{\"name\":\"faults\",\"value\":%ld,\"unit\":\"faults\"}",
	       command[0], program->preloaded ? preload : "another",
	       measured->ms, measured->peak_mib, measured->faults);
	if (measured->resting_mib > 0)
		printf(",{\"name\":\"resting\",\"value\":%.6g,\"unit\":\"MiB\"}",
		       measured->resting_mib);
	puts("]}");
}

int main(int argc, char **argv)
{
	struct measured measured = { 0 };
	struct program program;

	signal(SIGPIPE, SIG_IGN);
	options(argc, argv);
	began = now_ms();
	program = start();
	if (input)
		feed(&program);
	if (client) {
		run_client();
	} else {
		FILE *lines = fdopen(program.out, "re");

		if (whole)
			look_for_preload(&program);
		wait_for_done(lines, command[0]);
	}
	if (!whole) {
		measured.ms = now_ms() - began;
		rest(&program, &measured);
	}
	end(&program, &measured);
	if (whole)
		measured.ms = now_ms() - began;
	print(&program, &measured);
	return 0;
}
