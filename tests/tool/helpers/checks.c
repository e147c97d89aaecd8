/* SPDX-License-Identifier: MIT */
/*
 * cmd_check.c: what it prints, as text and as JSON, and its status, of each state that a process
 * may be found in.  The state is told here.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "expect.h"
#include "in_use.h"
#include "input.h"
#include "refused.h"
#include "said.h"
#include "slub.h"
#include "state.h"

#define GIB	 (1ull << 30)
#define NO_LIMIT UINT64_MAX

static struct mapping library = { .path = (char *)"/lib/libslub.so.1" };
static struct state found;
static struct refused_one refused_ones[2];
static struct refused refused;
static int open_error, find_error, nr_open, nr_refused;
static bool has_limit;
static uint64_t limit;
static const char *possible;		/* of the kernel; NULL: no such file */

static struct said out, said;

/* ---- the process ---- */

int process_open(struct process *process, pid_t pid)
{
	*process = (struct process){ .pid = pid, .name = "made" };
	nr_open += !open_error;
	return open_error;
}

void process_close(struct process *process)
{
	EXPECT_TEXT(process->name, "made");
	nr_open--;
}

int state_find(struct state *state, const struct process *process)
{
	EXPECT_TEXT(process->name, "made");
	*state = found;
	return find_error;
}

bool state_limit(const struct process *process, const struct slub_abi *abi, uint64_t *bytes)
{
	EXPECT_TEXT(process->name, "made");
	EXPECT_TEXT(abi->library_version, "7.8.9");
	*bytes = limit;
	return has_limit;
}

const char *state_backend(const struct slub_abi *abi)
{
	return abi->backend == 5 ? "the backend" : "none";
}

const char *state_cpu_number(const struct slub_abi *abi)
{
	return abi->cpu_number == 6 ? "the number" : "none";
}

const char *state_layout(const struct slub_abi *abi)
{
	return abi->layout == 7 ? "the layout" : "none";
}

const char *state_huge(const struct slub_abi *abi)
{
	return abi->huge == 8 ? "the huge" : "none";
}

void complain_version(const char *command, const char *target, const struct slub_abi *abi)
{
	complain("%s of %s: version %u", command, target, abi->version);
}

void refused_of_process(struct refused *of, pid_t pid)
{
	EXPECT(pid, 77);
	*of = refused;
	nr_refused++;
}

void refused_free(struct refused *of)
{
	EXPECT(of->nr, refused.nr);
	nr_refused--;
}

void refused_json(struct json *json, const struct refused *of)
{
	json_number(json, "refused", of->nr);
}

FILE *input_kernel(const char *path)
{
	EXPECT_TEXT(path, "/sys/devices/system/cpu/possible");
	return possible ? fmemopen((char *)possible, strlen(possible), "r") : NULL;
}

/* ---- calls ---- */

/* Up to nine words; with what it prints in @out and @said. */
static int check(const char *words)
{
	static char copy[128];
	char *argv[10] = { NULL };
	int argc = 0, status;

	strcpy(copy, words);
	for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
		argv[argc++] = word;
	optind = 0;
	said_begin(&out, 1);
	said_begin(&said, 2);
	status = cmd_check.main(argc, argv);
	said_end(&said);
	said_end(&out);
	EXPECT(nr_open, 0);
	EXPECT(nr_refused, 0);
	return status;
}

static void begin(enum presence presence)
{
	open_error = find_error = 0;
	has_limit = true;
	limit = NO_LIMIT;
	possible = "0-3\n";
	refused = (struct refused){ .nr = 0 };
	library.deleted = false;
	found = (struct state){
		.presence = presence,
		.file = presence == PRESENCE_ABSENT ? NULL : &library,
		.abi = {
			.version = 3, .library_version = "7.8.9", .backend = 5, .cpu_number = 6,
			.layout = 7, .huge = 8, .smp = 1, .nr_cpus_possible = 64,
			.nr_cpus_allowed = 2, .nr_nodes = 9, .membarrier = 1, .page_size = 4096,
			.range_start = 0x1000, .range_bytes = 3 * GIB, .heap_start = 0x2000,
			.heap_bytes = 5000, .retain_bytes = 77,
		},
	};
}

/* The line that begins with @name; "" if there is none. */
static const char *line_of(const char *name)
{
	static char line[256];
	const char *at = strstr(out.text, name);

	snprintf(line, sizeof(line), "%.*s", at ? (int)strcspn(at, "\n") : 0, at ? at : "");
	return line;
}

static void expect_line(int line, const char *expected)
{
	char name[16] = { 0 };

	EXPECT(check("check 77"), STATUS_OK);
	memcpy(name, expected, strcspn(expected, " "));
	strcat(name, " ");
	expect_text(line, line_of(name), expected);
}

#define EXPECT_LINE(expected) expect_line(__LINE__, expected)

static void test_in_use(void)
{
	begin(PRESENCE_IN_USE);
	EXPECT(check("check 77"), STATUS_OK);
	EXPECT_TEXT(said.text, "");
	EXPECT_TEXT(out.text,
		"process      77 (made)\n"
		"libslub      in use, as a shared library\n"
		"file         /lib/libslub.so.1\n"
		"version      7.8.9\n"
		"backend      the backend\n"
		"CPU number   the number\n"
		"CPUs         4 possible, 2 allowed\n"
		"nodes        9\n"
		"membarrier   yes\n"
		"layout       the layout\n"
		"huge pages   the huge\n"
		"page size    4.0 KiB\n"
		"range        0x1000, 3.0 GiB\n"
		"heap         0x2000, 4.9 KiB\n"
		"idle kept    up to 77 bytes\n"
		"limit        none\n");
	found.is_static = true;
	library.deleted = true;
	found.abi.smp = 0;
	found.abi.membarrier = 0;
	found.abi.nr_cpus_quota = 1;
	limit = 5 << 20;
	refused = (struct refused){ .ones = refused_ones, .nr = 2 };
	refused_ones[0] = (struct refused_one){ (char *)"SLUB_A=1", "for one" };
	refused_ones[1] = (struct refused_one){ (char *)"b=2", "for two" };
	EXPECT(check("check 77"), STATUS_OK);
	EXPECT_TEXT(out.text,
		"process      77 (made)\n"
		"libslub      in use, linked into the program\n"
		"file         /lib/libslub.so.1 (deleted)\n"
		"version      7.8.9\n"
		"backend      the backend\n"
		"CPU number   the number\n"
		"CPUs         4 possible, 2 allowed, quota of 1 (uniprocessor build)\n"
		"nodes        9\n"
		"membarrier   no\n"
		"layout       the layout\n"
		"huge pages   the huge\n"
		"page size    4.0 KiB\n"
		"range        0x1000, 3.0 GiB\n"
		"heap         0x2000, 4.9 KiB\n"
		"idle kept    up to 77 bytes\n"
		"limit        5.0 MiB\n"
		"refused      SLUB_A=1: for one\n"
		"refused      b=2: for two\n");
	refused.error = -EFAULT;
	EXPECT_LINE("refused      unknown: Bad address");
	EXPECT(strstr(out.text, "SLUB_A") == NULL, true);
	has_limit = false;
	EXPECT(check("check 77"), STATUS_OK);
	EXPECT_TEXT(line_of("limit"), "");
}

static void test_json(void)
{
	begin(PRESENCE_IN_USE);
	EXPECT(check("check -j 77"), STATUS_OK);
	EXPECT_TEXT(said.text, "");
	EXPECT_TEXT(out.text,
		"{\n  \"kind\": \"check\",\n  \"schema\": 1,\n  \"pid\": 77,\n"
		"  \"name\": \"made\",\n  \"in_use\": true,\n"
		"  \"reason\": \"in use, as a shared library\",\n"
		"  \"file\": \"/lib/libslub.so.1\",\n  \"file_deleted\": false,\n"
		"  \"version\": \"7.8.9\",\n  \"backend\": \"the backend\",\n"
		"  \"cpu_number\": \"the number\",\n  \"cpus\": {\n    \"possible\": 4,\n"
		"    \"allowed\": 2,\n    \"quota\": null\n  },\n  \"nodes\": 9,\n"
		"  \"smp\": true,\n  \"membarrier\": true,\n  \"layout\": \"the layout\",\n"
		"  \"huge\": \"the huge\",\n  \"page_size_bytes\": 4096,\n"
		"  \"range\": {\n    \"start\": \"0x1000\",\n    \"bytes\": 3221225472\n  },\n"
		"  \"heap\": {\n    \"start\": \"0x2000\",\n    \"bytes\": 5000\n  },\n"
		"  \"retain_bytes\": 77,\n  \"limit_bytes\": null,\n  \"refused\": 0\n}\n");
	found.abi.nr_cpus_quota = 3;
	found.abi.smp = 0;
	found.abi.membarrier = 0;
	library.deleted = true;
	limit = 5000;
	EXPECT(check("check --json --process=77"), STATUS_OK);
	EXPECT_TEXT(line_of("\"quota"), "\"quota\": 3");
	EXPECT_TEXT(line_of("\"smp"), "\"smp\": false,");
	EXPECT_TEXT(line_of("\"membarrier"), "\"membarrier\": false,");
	EXPECT_TEXT(line_of("\"file_deleted"), "\"file_deleted\": true,");
	EXPECT_TEXT(line_of("\"limit"), "\"limit_bytes\": 5000,");
	has_limit = false;
	EXPECT(check("check -j -p 77"), STATUS_OK);
	EXPECT_TEXT(line_of("\"limit"), "\"limit_bytes\": null,");
}

static void test_not_in_use(void)
{
	static const struct {
		enum presence presence;
		const char *why;
	} cases[] = {
		{ PRESENCE_ABSENT, "not mapped" },
		{ PRESENCE_NOT_STARTED, "mapped, but not started" },
		{ PRESENCE_SHADOWED, "mapped, but the program has a malloc of its own" },
	};
	char expected[512];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		bool is_there = cases[i].presence != PRESENCE_ABSENT;

		begin(cases[i].presence);
		EXPECT(check("check 77"), STATUS_NO);
		EXPECT_TEXT(said.text, "");
		snprintf(expected, sizeof(expected),
			 "process      77 (made)\nlibslub      %s\n%s", cases[i].why,
			 is_there ? "file         /lib/libslub.so.1\n" : "");
		EXPECT_TEXT(out.text, expected);
		EXPECT(check("check -j 77"), STATUS_NO);
		snprintf(expected, sizeof(expected),
			 "{\n  \"kind\": \"check\",\n  \"schema\": 1,\n  \"pid\": 77,\n"
			 "  \"name\": \"made\",\n  \"in_use\": false,\n  \"reason\": \"%s\"%s\n}\n",
			 cases[i].why, is_there ?
			 ",\n  \"file\": \"/lib/libslub.so.1\",\n  \"file_deleted\": false" : "");
		EXPECT_TEXT(out.text, expected);
		EXPECT(check("check -q 77"), STATUS_NO);
		EXPECT_TEXT(out.text, "");
		EXPECT_TEXT(said.text, "");
	}
	begin(PRESENCE_IN_USE);
	EXPECT(check("check --quiet -j 77"), STATUS_OK);
	EXPECT_TEXT(out.text, "");
}

static void test_sizes(void)
{
	static const struct {
		uint64_t bytes;
		const char *expected;
	} cases[] = {
		{ 0, "0 bytes" }, { 1023, "1023 bytes" }, { 1024, "1.0 KiB" },
		{ 1536, "1.5 KiB" }, { (1 << 20) - 1, "1024.0 KiB" }, { 1 << 20, "1.0 MiB" },
		{ GIB, "1.0 GiB" }, { 1024 * GIB, "1.0 TiB" }, { 1024 * 1024 * GIB, "1024.0 TiB" },
		{ NO_LIMIT - 1, "16777216.0 TiB" },
	};
	char expected[64];

	begin(PRESENCE_IN_USE);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		limit = cases[i].bytes;
		snprintf(expected, sizeof(expected), "limit        %s", cases[i].expected);
		EXPECT_LINE(expected);
	}
}

/* The kernel's last number and one, unless the library's bound is less. */
static void test_cpus(void)
{
	static const struct {
		const char *possible;
		int expected;
	} cases[] = {
		{ "0\n", 1 }, { "0-1\n", 2 }, { "0-62\n", 63 }, { "0-63\n", 64 }, { "0-64\n", 64 },
		{ "0-3,8-11\n", 12 }, { "0,2\n", 3 }, { "0,2-5,9\n", 10 }, { NULL, 64 },
		{ "-1\n", 64 }, { "x\n", 64 }, { "0-3 8-11\n", 4 },
	};
	char expected[64];

	begin(PRESENCE_IN_USE);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		possible = cases[i].possible;
		snprintf(expected, sizeof(expected), "CPUs         %d possible, 2 allowed",
			 cases[i].expected);
		EXPECT_LINE(expected);
		EXPECT(check("check -j 77"), STATUS_OK);
		snprintf(expected, sizeof(expected), "\"possible\": %d,", cases[i].expected);
		EXPECT_TEXT(line_of("\"possible"), expected);
	}
}

static void expect_refused(int line, const char *words, int status, const char *expected)
{
	expect_at(line, words, check(words), status);
	expect_text(line, said.text, expected);
	expect_text(line, out.text, "");
}

#define EXPECT_REFUSED(words, status, expected) expect_refused(__LINE__, words, status, expected)

static void test_errors(void)
{
	static const struct {
		int error, status;
		const char *expected;
	} cases[] = {
		{ -ESRCH, STATUS_NO_TARGET, "slub: check: no process 77\n" },
		{ -EACCES, STATUS_NO_PERMISSION, "slub: check: no permission to read process 77; "
		  "its user may (unless kernel.yama.ptrace_scope forbids it), and root\n" },
		{ -EFAULT, STATUS_UNREADABLE,
		  "slub: check: cannot read process 77: Bad address\n" },
		{ -EPROTO, STATUS_UNREADABLE, "slub: check of process 77: version 3\n" },
	};

	begin(PRESENCE_IN_USE);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		find_error = cases[i].error;
		EXPECT_REFUSED("check 77", cases[i].status, cases[i].expected);
		EXPECT_REFUSED("check -j 77", cases[i].status, cases[i].expected);
		EXPECT_REFUSED("check -q 77", cases[i].status, "");
		find_error = 0;
		/* What cannot be opened has no version. */
		open_error = cases[i].error == -EPROTO ? 0 : cases[i].error;
		if (open_error) {
			EXPECT_REFUSED("check 77", cases[i].status, cases[i].expected);
			EXPECT_REFUSED("check -q 77", cases[i].status, "");
		}
		open_error = 0;
	}
}

static void test_arguments(void)
{
	static const char needs[] =
		"slub: check: needs one PID; usage: slub check [OPTION...] PID\n";
	static const char *const numbers[] = { "0", "-p-1", "4194305", "9999999", "00000077",
					       "7x", "x7", "0x7" };
	char words[64], expected[128];

	begin(PRESENCE_IN_USE);
	EXPECT_REFUSED("check", STATUS_USAGE, needs);
	EXPECT_REFUSED("check -j", STATUS_USAGE, needs);
	EXPECT_REFUSED("check 77 78", STATUS_USAGE, needs);
	EXPECT_REFUSED("check -p 77 78", STATUS_USAGE, needs);
	EXPECT_REFUSED("check 77 -j 78", STATUS_USAGE, needs);
	EXPECT_REFUSED("check -p", STATUS_USAGE, "slub: option '-p' needs a value\n");
	EXPECT_REFUSED("check -x 77", STATUS_USAGE,
		       "slub: unknown option '-x'; `--help` lists all\n");
	EXPECT_REFUSED("check 77 --jsno", STATUS_USAGE,
		       "slub: unknown option '--jsno'; did you mean '--json'?\n");
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		snprintf(words, sizeof(words), "check %s", numbers[i]);
		snprintf(expected, sizeof(expected),
			 "slub: check: '%s' is not a PID; PIDs are numbers from 1 to 4194304\n",
			 numbers[i] + (*numbers[i] == '-' ? 2 : 0));
		EXPECT_REFUSED(words, STATUS_USAGE, expected);
	}
	EXPECT_REFUSED("check -p= 7", STATUS_USAGE, needs);
	EXPECT_REFUSED("check --process=", STATUS_USAGE,
		       "slub: check: '' is not a PID; PIDs are numbers from 1 to 4194304\n");
	/* Before and behind it, and once more; the last PID of an option counts. */
	EXPECT(check("check -q 0000077 -q"), STATUS_OK);
	EXPECT(check("check -p 78 -q -p 77"), STATUS_OK);
	EXPECT_TEXT(out.text, "");
	begin(PRESENCE_ABSENT);
	EXPECT(check("check 4194304"), STATUS_NO);
	EXPECT_TEXT(out.text, "process      4194304 (made)\nlibslub      not mapped\n");
	EXPECT(check("check 1"), STATUS_NO);
	EXPECT_TEXT(out.text, "process      1 (made)\nlibslub      not mapped\n");
}

static void test_help(void)
{
	static const char help[] =
		"usage: slub check [OPTION...] PID\n\n"
		"Tells whether libslub is the malloc of a running process, and\n"
		"how it runs there.  The process is not stopped.\n\n"
		"  slub check 1234\n\n"
		"  -p, --process=PID  the process\n"
		"  -j, --json         print one JSON object\n"
		"  -q, --quiet        print nothing, answer by the exit status\n"
		"  -h, --help         print this\n\n"
		"Exit status: 0 done or yes, 1 no (no libslub there), 2 bad arguments, 3 no\n"
		"permission, 4 no such target, 5 unreadable, 6 not done, 7 it found bugs.\n";

	open_error = -ESRCH;		/* no process is asked for */
	EXPECT(check("check --help 77 78"), STATUS_OK);
	EXPECT_TEXT(out.text, help);
	EXPECT(check("check 77 -h -x"), STATUS_OK);
	EXPECT_TEXT(out.text, help);
	EXPECT_TEXT(said.text, "");
	EXPECT_TEXT(cmd_check.name, "check");
	EXPECT_TEXT(cmd_check.summary, "tells whether libslub is the malloc of a process");
}

static void test_all(void)
{
	test_in_use();
	test_json();
	test_not_in_use();
	test_sizes();
	test_cpus();
	test_errors();
	test_arguments();
	test_help();
}

int main(int argc, char **argv)
{
	(void)argc;
	keep_no_chunks(argv);
	do_twice(test_all);
	return failures != 0;
}
