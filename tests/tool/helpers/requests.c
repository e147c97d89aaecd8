/* SPDX-License-Identifier: MIT */
/*
 * request.c: the options that commands share, their own ones, numbers at their bounds, and the loop
 * that looks again and again.  What is looked at, and the terminal, are told here.
 */
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "in_use.h"
#include "request.h"
#include "said.h"
#include "slub.h"

static struct said out, said;
static bool is_terminal;
static int open_status, nr_sources, nr_snapshots, nr_looks, nr_good, last_status;
static struct cache_view views[9] = { { .name = "malloc-64" }, { .name = "other" } };
static double slept[4];
static int nr_slept, nr_interrupted;

int isatty(int fd)
{
	EXPECT(fd, STDOUT_FILENO);
	return is_terminal;
}

int nanosleep(const struct timespec *time, struct timespec *left)
{
	slept[nr_slept++ % 4] = (double)time->tv_sec + (double)time->tv_nsec / 1e9;
	if (nr_slept > nr_interrupted)
		return 0;
	left->tv_sec = 0;
	left->tv_nsec = 7000000;
	errno = EINTR;
	return -1;
}

int source_open(struct source *source, const char *command, const char *target)
{
	EXPECT_TEXT(command, "look");
	EXPECT_TEXT(target, "77");
	*source = (struct source){ .target = target, .label = "process 77" };
	nr_sources += !open_status;
	return open_status;
}

void source_close(struct source *source)
{
	EXPECT_TEXT(source->target, "77");
	nr_sources--;
}

/* The first @nr_good looks are. */
int source_snapshot(struct source *source, struct snapshot *snapshot)
{
	EXPECT_TEXT(source->target, "77");
	if (nr_looks == nr_good)
		return last_status;
	*snapshot = (struct snapshot){ .nr_caches = (size_t)++nr_looks, .caches = views };
	nr_snapshots++;
	return 0;
}

void snapshot_free(struct snapshot *snapshot)
{
	EXPECT(snapshot->nr_caches > 0, true);
	nr_snapshots--;
}

void snapshot_continue(struct snapshot *now, const struct snapshot *before)
{
	printf("%zu behind %zu;", now->nr_caches, before->nr_caches);
}

static void print(struct snapshot *now, const struct snapshot *before,
		  const struct request *request, void *arg)
{
	EXPECT_TEXT(request->command, "look");
	EXPECT_TEXT(arg, "argument");
	printf("%zu, %zu\n", now->nr_caches, before ? before->nr_caches : 0);
}

static int run(const struct request *request, int nr)
{
	int status;

	nr_good = nr;
	nr_looks = nr_slept = 0;
	said_begin(&out, 1);
	status = request_run(request, print, (void *)"argument");
	said_end(&out);
	EXPECT(nr_sources, 0);
	EXPECT(nr_snapshots, 0);
	return status;
}

static void test_loop(void)
{
	struct request request = { .command = "look", .target = "77" };

	is_terminal = false;
	nr_interrupted = 0;
	last_status = 4;
	EXPECT(run(&request, 9), 0);
	EXPECT_TEXT(out.text, "1, 0\n");
	EXPECT(nr_slept, 0);
	request.watch_seconds = 2.25;
	EXPECT(run(&request, 3), 4);
	EXPECT_TEXT(out.text, "1, 0\n2 behind 1;\n2, 1\n3 behind 2;\n3, 2\n");
	EXPECT(nr_slept, 3);
	EXPECT(slept[0] * 100, 225);
	is_terminal = true;
	EXPECT(run(&request, 2), 4);
	EXPECT_TEXT(out.text, "1, 0\n2 behind 1;\033[H\033[2J2, 1\n");
	request.format = FORMAT_JSON;
	EXPECT(run(&request, 2), 4);
	EXPECT_TEXT(out.text, "1, 0\n2 behind 1;2, 1\n");
	/* A signal does not make it shorter. */
	nr_interrupted = 2;
	EXPECT(run(&request, 1), 4);
	EXPECT(nr_slept, 3);
	EXPECT(slept[1] * 1000, 7);
	request.once = true;
	EXPECT(run(&request, 9), 0);
	EXPECT_TEXT(out.text, "1, 0\n");
	EXPECT(run(&request, 0), 4);
	EXPECT_TEXT(out.text, "");
	open_status = 3;
	EXPECT(run(&request, 9), 3);
	open_status = 0;
}

/* One that the process has not used. */
static void expect_no_class(const char *name)
{
	struct request request = { .command = "look", .target = "77", .cache = name };
	char expected[200];

	snprintf(expected, sizeof(expected), "slub: look: process 77 has no cache '%s' yet: a size "
		 "class comes with its first object\n", name);
	said_begin(&said, 2);
	EXPECT(run(&request, 9), STATUS_NO_TARGET);
	said_end(&said);
	EXPECT_TEXT(said.text, expected);
}

/* A cache that there is not is told by the first look; later ones may lack it. */
static void test_cache(void)
{
	struct request request = { .command = "look", .target = "77", .cache = "malloc-*" };

	EXPECT(run(&request, 1), 0);
	EXPECT_TEXT(out.text, "1, 0\n");
	request.cache = "malloc-46";
	said_begin(&said, 2);
	EXPECT(run(&request, 9), STATUS_NO_TARGET);
	said_end(&said);
	EXPECT_TEXT(out.text, "");
	EXPECT_TEXT(said.text, "slub: look: process 77 has no cache 'malloc-46'; did you mean "
		    "'malloc-64'?\n");
	expect_no_class("malloc-48");
	expect_no_class("malloc-288");
	expect_no_class("malloc-32768");
	request.cache = "malloc-272";
	said_begin(&said, 2);
	EXPECT(run(&request, 9), STATUS_NO_TARGET);
	said_end(&said);
	EXPECT(strstr(said.text, "did you mean") != NULL, true);
	request.cache = "zzz";
	said_begin(&said, 2);
	EXPECT(run(&request, 9), STATUS_NO_TARGET);
	said_end(&said);
	EXPECT_TEXT(said.text, "slub: look: process 77 has no cache 'zzz'; `slub info -z 77` "
		    "lists them\n");
}

/* ---- options ---- */

static struct own {
	bool all;
	double number;
	const char *set, *optional;
} own;

static int set(int letter, void *arg)
{
	struct own *to = arg;

	if (letter == 's')
		to->set = optarg;
	else
		to->optional = optarg ? optarg : "none";
	return letter == 's' && !strcmp(optarg, "bad") ? 9 : 0;
}

static const struct own_option own_options[] = {
	{ .name = "all", .letter = 'a', .on = &own.all },
	{ .name = "number", .letter = 'n', .number = &own.number, .min = 1, .max = 8 },
	{ .name = "set", .letter = 's', .set = set, .argument = required_argument },
	{ .name = "maybe", .letter = REQUEST_FIRST_OWN, .set = set,
	  .argument = optional_argument },
	{ .name = "only", .letter = 'o', .set = set, .argument = optional_argument },
	/* In place of a common one. */
	{ .name = "once", .letter = REQUEST_ONCE, .on = &own.all },
};

static struct request request;

static int parse(const char *words)
{
	static char copy[256];
	char *argv[12] = { NULL };
	int argc = 0, status;

	snprintf(copy, sizeof(copy), "look %s", words);
	for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
		argv[argc++] = word;
	optind = 0;
	own = (struct own){ .number = 5 };
	request_init(&request, "look");
	said_begin(&said, 2);
	status = request_parse(&request, argc, argv, own_options, 6, &own);
	if (!status)
		status = request_check(&request, argc, argv, 1);
	said_end(&said);
	return status;
}

static void expect_refused(int line, const char *words, int status, const char *expected)
{
	expect_at(line, words, parse(words), status);
	expect_text(line, said.text, expected);
}

#define EXPECT_REFUSED(words, expected) expect_refused(__LINE__, words, STATUS_USAGE, expected)

static void test_options(void)
{
	is_terminal = false;
	EXPECT(parse("77"), 0);
	EXPECT_TEXT(request.target, "77");
	EXPECT_TEXT(request.command, "look");
	EXPECT(request.format, FORMAT_TEXT);
	EXPECT(request.once || request.color || request.help || request.watch_seconds != 0, false);
	EXPECT(own.all || own.number != 5 || own.set || own.optional, false);
	EXPECT(parse("-p 77 x -j"), 0);
	EXPECT_TEXT(request.target, "77");
	EXPECT(request.format, FORMAT_JSON);
	EXPECT(parse("--process=77 --openmetrics --once"), 0);
	EXPECT(request.format, FORMAT_OPENMETRICS);
	EXPECT(own.all && !request.once, true);
	EXPECT(parse("77 --watch=0.1 -h"), 0);
	EXPECT(request.help && request.watch_seconds == 0.1, true);
	EXPECT(parse("77 -a -n 8 -s x --maybe -o7"), 0);
	EXPECT(own.all && own.number == 8, true);
	EXPECT_TEXT(own.set, "x");
	EXPECT_TEXT(own.optional, "7");
	EXPECT(parse("77 --maybe=3 -n1"), 0);
	EXPECT_TEXT(own.optional, "3");
	EXPECT(parse("77 -o"), 0);
	EXPECT_TEXT(own.optional, "none");
	expect_refused(__LINE__, "77 -s bad", 9, "");
}

static void test_refused(void)
{
	EXPECT_REFUSED("", "slub: look: needs a process: a PID, or the name of a core or "
		       "statistics file\n");
	EXPECT_REFUSED("--process=", "slub: look: needs a process: a PID, or the name of a core or "
		       "statistics file\n");
	EXPECT_REFUSED("77 a b", "slub: look: 'b' is one argument too many\n");
	EXPECT_REFUSED("-p 77 a b c", "slub: look: 'b' is one argument too many\n");
	EXPECT_REFUSED("77 --openmetrics --watch=1",
		       "slub: look: --openmetrics is one text with an end: it cannot be watched\n");
	EXPECT_REFUSED("77 --watch=0.09", "slub: look: --watch=0.09: not a number from 0.1 to "
		       "86400\n");
	EXPECT_REFUSED("77 -n 9", "slub: look: --number=9: not a number from 1 to 8\n");
	EXPECT_REFUSED("77 -n", "slub: option '-n' needs a value\n");
	EXPECT_REFUSED("77 --al=3", "slub: unknown option '--al'; did you mean '--all'?\n");
	EXPECT_REFUSED("77 -x", "slub: unknown option '-x'; `--help` lists all\n");
}

static void test_color(void)
{
	is_terminal = true;
	unsetenv("NO_COLOR");
	EXPECT(parse("77"), 0);
	EXPECT(request.color, true);
	EXPECT(parse("77 --color=never"), 0);
	EXPECT(request.color, false);
	EXPECT(parse("77 --color=auto"), 0);
	EXPECT(request.color, true);
	setenv("NO_COLOR", "", 1);
	EXPECT(parse("77"), 0);
	EXPECT(request.color, true);
	setenv("NO_COLOR", "1", 1);
	EXPECT(parse("77"), 0);
	EXPECT(request.color, false);
	EXPECT(parse("77 --color=auto"), 0);
	EXPECT(request.color, false);
	EXPECT(parse("77 --color"), 0);
	EXPECT(request.color, true);
	EXPECT(parse("77 --color=always"), 0);
	EXPECT(request.color, true);
	EXPECT_REFUSED("77 --color=some",
		       "slub: look: --color=some: not one of always, never, auto\n");
	unsetenv("NO_COLOR");
}

/* ---- numbers ---- */

static void expect_number(int line, const char *text, bool good, double number)
{
	double is = -1;

	said_begin(&said, 2);
	expect_at(line, text, request_number("look", "number", text, 1.5, 8, &is), good);
	said_end(&said);
	expect_text(line, good ? said.text : "", "");
	if (good)
		expect_at(line, text, is == number, true);
}

#define EXPECT_NUMBER(text, good, number) expect_number(__LINE__, text, good, number)

static void test_numbers(void)
{
	static const char wrong[] = "slub: look: --bytes=1023: not a number of bytes from 1024 to "
		"4096, such as 64K or 64KiB (units K, M, G and T)\n";
	double bytes;

	EXPECT_NUMBER("1.5", true, 1.5);
	EXPECT_NUMBER("8", true, 8);
	EXPECT_NUMBER("2e0", true, 2);
	EXPECT_NUMBER("1.49", false, 0);
	EXPECT_NUMBER("8.01", false, 0);
	EXPECT_NUMBER("2x", false, 0);
	EXPECT_NUMBER("", false, 0);
	EXPECT_NUMBER("nan", false, 0);
	EXPECT_NUMBER("1e999", false, 0);
	said_begin(&said, 2);
	EXPECT(request_bytes("look", "bytes", "1K", 1024, 4096, &bytes), true);
	EXPECT(bytes, 1024);
	EXPECT(request_bytes("look", "bytes", "4096", 1024, 4096, &bytes), true);
	EXPECT(bytes, 4096);
	EXPECT(request_bytes("look", "bytes", "1023", 1024, 4096, &bytes), false);
	EXPECT(request_bytes("look", "bytes", "4097", 1024, 4096, &bytes), false);
	EXPECT(request_bytes("look", "bytes", "x", 1024, 4096, &bytes), false);
	EXPECT(bytes, 4096);
	said_end(&said);
	EXPECT(strncmp(said.text, wrong, strlen(wrong)), 0);
	/* What is infinite lies within no bounds. */
	EXPECT(request_number("look", "number", "2", 1, INFINITY, &bytes), true);
	said_begin(&said, 2);
	EXPECT(request_number("look", "number", "inf", 1, INFINITY, &bytes), false);
	said_end(&said);
}

static void test_help(void)
{
	static const char head[] =
		"  -p, --process=TARGET  a PID, a core file, or a statistics file\n"
		"  -j, --json            one JSON object",
		tail[] = "      --watch=SECONDS   again and again      --once         whatever "
		"else\n      --color[=WHEN]    always, never, auto  -h, --help     print this\n\n"
		"Exit status: 0 done or yes, 1 no (no libslub there), 2 bad arguments, 3 no\n"
		"permission, 4 no such target, 5 unreadable, 6 not done, 7 it found bugs.\n";
	char expected[1024];

	for (int has_metrics = 0; has_metrics < 2; has_metrics++) {
		said_begin(&out, 1);
		request_print_help(stdout, has_metrics);
		said_end(&out);
		snprintf(expected, sizeof(expected), "%s%s%s", head, has_metrics ?
			 "      --openmetrics  for monitoring\n" : "\n", tail);
		EXPECT_TEXT(out.text, expected);
	}
}

static void test_all(void)
{
	test_loop();
	test_cache();
	test_options();
	test_refused();
	test_color();
	test_numbers();
	test_help();
}

int main(int argc, char **argv)
{
	(void)argc;
	keep_no_chunks(argv);
	do_twice(test_all);
	return failures != 0;
}
