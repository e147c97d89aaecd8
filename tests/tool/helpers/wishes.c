/* SPDX-License-Identifier: MIT */
/*
 * cmd_profile.c: what each option asks for, the bounds of numbers, which arguments make no sense,
 * and a profile as a table and as JSON.  What is read, sampled and written is told here.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "in_use.h"
#include "symbols.h"
#include "request.h"
#include "said.h"
#include "slub.h"

static struct said out, said;
static char asked[1024];		/* what the command asked for */
static int status_of_source, nr_profiles, nr_symbols;

static uint64_t frames[] = { 0, 1, 2, 3 };
static struct profile_outer outer = { (char *)"g", NULL, NULL, 0 };
static struct profile_location locations[] = {
	{ 0x1001, 1, (char *)"main", NULL, (char *)"a.c", 7 },
	{ 0x2002, 2, (char *)"f", NULL, NULL, 9, &outer, 1 },
	{ 0x3003, 0, NULL, NULL, NULL, 0 },
	{ 0x4004, 2, NULL, NULL, (char *)"b.c", 5 },
};
static struct profile_mapping mappings[] = {
	{ .path = (char *)"/one" }, { .path = (char *)"/two" },
};
static struct profile_site sites[5], kept[5] = {
	{ { 10, 4000, 5, 1000 }, 16, 4, 0, 0, 1 },
	{ { 0, 0, 0, 0 }, 1, 1, 0, 0, 0 },
	{ { 20, 2000, 9, 2000 }, 4, 1, 0, 1, 3 },
	{ { 30, 9000, 0, 0 }, 9, 0, 0, 3, 1 },
	{ { 40, 1000, 7, 1000 }, 25, 0, 0, 0, 0 },
};
static struct profile told;

static void tell_of(const char *format, double a, double b)
{
	size_t at = strlen(asked);

	snprintf(asked + at, sizeof(asked) - at, format, a, b);
}

bool request_number(const char *command, const char *option, const char *text, double min,
		    double max, double *number)
{
	EXPECT_TEXT(command, "profile");
	tell_of(option, 0, 0);
	tell_of("[%g %g] ", min, max);
	*number = atof(text);
	return *number >= 0;
}

bool request_bytes(const char *command, const char *option, const char *text, size_t min,
		   size_t max, double *number)
{
	return request_number(command, option, text, (double)min, (double)max, number);
}

static int give(struct profile *profile)
{
	*profile = told;
	memcpy(sites, kept, sizeof(sites));
	nr_profiles++;
	return status_of_source;
}

int profile_of_process(struct profile *profile, const char *target,
		       const struct profile_live *live)
{
	tell_of("process ", 0, 0);
	tell_of(target, 0, 0);
	tell_of(" %g s, %g s, ", live->seconds, live->timeout);
	tell_of("%.0f bytes%.0f", live->bytes, 0);
	tell_of(live->leaks ? " leaks" : "", 0, 0);
	tell_of(live->frame_pointers ? " frames" : "", 0, 0);
	return give(profile);
}

int profile_read(struct profile *profile, const char *path, enum input_kinds kinds,
		 double seconds)
{
	EXPECT(kinds, INPUT_STREAM);
	EXPECT(seconds, 60);
	tell_of("file ", 0, 0);
	tell_of(path, 0, 0);
	return give(profile);
}

void profile_find_symbols(struct profile *profile)
{
	EXPECT(profile->sites == told.sites, true);
	nr_symbols++;
}

void profile_free(struct profile *profile)
{
	EXPECT(profile->sites == told.sites, true);
	nr_profiles--;
}

void symbol_print_outers(const struct profile_location *location, const char *before)
{
	if (location->nr_outers)
		printf("%s and outers\n", before);
}

void symbol_put_outers(struct json *json, const struct profile_location *location)
{
	if (location->nr_outers)
		json_string(json, "outers", location->outers[0].function);
}

int profile_write_proto(const struct profile *profile, const char *path, mode_t mode)
{
	EXPECT(profile->sites == told.sites, true);
	tell_of(" to ", 0, 0);
	tell_of(path, 0, 0);
	tell_of(", %04.0f", (mode >> 6) * 100 + (mode >> 3 & 7) * 10 + (mode & 7), 0);
	return 3;
}

/* ---- calls ---- */

static int profile(const char *words)
{
	static char copy[256];
	char *argv[12] = { NULL };
	int argc = 0, status;

	snprintf(copy, sizeof(copy), "profile %s", words);
	for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
		argv[argc++] = word;
	optind = 0;
	asked[0] = '\0';
	nr_symbols = 0;
	said_begin(&out, 1);
	said_begin(&said, 2);
	status = cmd_profile.main(argc, argv);
	said_end(&said);
	said_end(&out);
	EXPECT(nr_profiles, 0);
	return status;
}

static void begin(void)
{
	status_of_source = 0;
	told = (struct profile){
		.mean_bytes = 4096, .pid = 77, .start_ns = 1500000000, .written_ns = 2250000000,
		.sites = sites, .nr_sites = 5, .frames = frames, .nr_frames = 4,
		.locations = locations, .nr_locations = 4, .mappings = mappings, .nr_mappings = 2,
	};
}

static void expect_asked(int line, const char *words, int status, const char *expected)
{
	expect_at(line, words, profile(words), status);
	expect_text(line, asked, expected);
	expect_text(line, said.text, "");
}

#define EXPECT_ASKED(words, status, expected) expect_asked(__LINE__, words, status, expected)

#define PLAIN "10 s, 5 s, 524288 bytes0"

static void test_wishes(void)
{
	begin();
	EXPECT_ASKED("77", 0, "process 77 " PLAIN);
	EXPECT(strncmp(out.text, "in use: about", 13), 0);
	EXPECT(nr_symbols, 1);
	EXPECT_ASKED("-p 77", 0, "process 77 " PLAIN);
	EXPECT_ASKED("77 --text", 0, "process 77 " PLAIN);
	EXPECT_ASKED("77 --seconds=3 --timeout=2 --bytes=100", 0,
		     "seconds[0.1 86400] timeout[0.1 86400] bytes[1 6.87195e+10] "
		     "process 77 3 s, 2 s, 100 bytes0");
	EXPECT_ASKED("77 --leaks", 0, "process 77 " PLAIN " leaks");
	EXPECT_ASKED("77 --frame-pointers", 0, "process 77 " PLAIN " frames");
	EXPECT_ASKED("77 --output=out", 3, "process 77 " PLAIN " to out, 0600");
	EXPECT_TEXT(out.text, "");
	EXPECT_ASKED("x --output=out", 3, "file x to out, 0600");
	EXPECT_ASKED("x", 3, "file x to x.pb.gz, 0600");
	EXPECT_ASKED("77x", 3, "file 77x to 77x.pb.gz, 0600");
	EXPECT_ASKED("--text x", 0, "file x");
	EXPECT_ASKED("x -N 2 --text", 0, "lines[0 1e+09] file x");
	EXPECT_ASKED("x -j", 0, "file x");
	EXPECT(out.text[0], '{');
	EXPECT_ASKED("--alloc --text x", 0, "file x");
	EXPECT(strncmp(out.text, "allocated: about", 16), 0);
	status_of_source = 5;
	EXPECT_ASKED("x", 5, "file x");
	EXPECT_ASKED("77", 5, "process 77 " PLAIN);
	EXPECT_TEXT(out.text, "");
	EXPECT(nr_symbols, 0);
}

/* Of a file that others may read, they may read the other form. */
static void test_modes(void)
{
	static const int modes[] = { 0644, 0600, 0755, 04660, 0 };
	char path[] = "/tmp/wishes-XXXXXX", words[64], expected[128];
	int fd = mkstemp(path);

	begin();
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		int mode = modes[i] & 0666;

		EXPECT(fchmod(fd, (mode_t)modes[i]), 0);
		snprintf(words, sizeof(words), "%s", path);
		snprintf(expected, sizeof(expected), "file %s to %s.pb.gz, 0%03o", path, path,
			 (unsigned int)mode);
		EXPECT_ASKED(words, 3, expected);
	}
	close(fd);
	unlink(path);
	EXPECT_ASKED("/dev/null", 3, "file /dev/null to /dev/null.pb.gz, 0600");
	EXPECT_ASKED("/tmp", 3, "file /tmp to /tmp.pb.gz, 0600");
}

static void expect_refused(int line, const char *words, const char *expected)
{
	expect_at(line, words, profile(words), STATUS_USAGE);
	expect_text(line, said.text, expected);
	expect_text(line, out.text, "");
	expect_at(line, "symbols", nr_symbols, 0);
}

#define EXPECT_REFUSED(words, expected) expect_refused(__LINE__, words, expected)

static void test_arguments(void)
{
	static const char one[] = "slub: profile takes one process or one file; usage: slub "
		"profile [OPTION...] PID|FILE\n",
		both[] = "slub: profile: --text and --json print to standard output; --output is "
		"for pprof's format\n",
		live[] = "slub: profile: 'x' is a file; --seconds, --leaks, --bytes, --timeout, "
		"--no-wake and --frame-pointers are for a process\n";

	begin();
	EXPECT_REFUSED("", one);
	EXPECT_REFUSED("-j", one);
	EXPECT_REFUSED("-p x y", one);
	EXPECT_REFUSED("x y", one);
	EXPECT_REFUSED("--process= -j", one);
	EXPECT_REFUSED("x --text --output=y", both);
	EXPECT_REFUSED("x -j --output=y", both);
	EXPECT_REFUSED("x --leaks", live);
	EXPECT_REFUSED("x --frame-pointers", live);
	EXPECT_REFUSED("x --seconds=1", live);
	EXPECT_REFUSED("x --timeout=1", live);
	EXPECT_REFUSED("x --no-wake", live);
	EXPECT_REFUSED("x --bytes=1", live);
	/* Of a number the message is request.c's. */
	EXPECT_REFUSED("77 --seconds=-1", "");
	EXPECT_REFUSED("77 --timeout=-1", "");
	EXPECT_REFUSED("77 --bytes=-1", "");
	EXPECT_REFUSED("77 -N -1", "");
	EXPECT_REFUSED("77 --lines", "slub: option '--lines' needs a value\n");
	EXPECT_REFUSED("77 -x", "slub: unknown option '-x'; `--help` lists all\n");
	EXPECT_REFUSED("77 --lekas", "slub: unknown option '--lekas'; did you mean '--leaks'?\n");
	EXPECT(profile("-h x y --text --output=z"), 0);
	EXPECT(strncmp(out.text, "usage: slub profile ", 20), 0);
	EXPECT(strstr(out.text, "\nExit status: 0 ") != NULL, true);
	EXPECT_TEXT(asked, "");
	EXPECT_TEXT(cmd_profile.name, "profile");
}

#define COLUMNS "\n         BYTES  SHARE      OBJECTS SAMPLES     +-\n"

static void test_table(void)
{
	begin();
	EXPECT(profile("x --text -N 1"), 0);
	EXPECT_TEXT(out.text,
		"in use: about 4000 bytes (+- 40.8%), from 6 samples, one in 4096 bytes\n" COLUMNS
		"          2000  50.0%            9       1 100.0%\n        f  (/two)\n"
		"            and outers\n"
		"        0x3003  (?)\n        0x4004  (/two)\n");
	told.lost = 1;
	told.is_unwound = true;
	told.stacks_unwound = 2;
	told.stacks_walked = 3;
	told.trails_lost = 4;
	EXPECT(profile("x --text --alloc -N 2"), 0);
	EXPECT_TEXT(out.text,
		"allocated: about 16000 bytes (+- 13.5%), from 55 samples, one in 4096 bytes\n"
		"1 samples were lost for want of room\n"
		"call stacks: 2 samples unwound, 3 walked by the process, 4 trails lost\n" COLUMNS
		"          9000  56.2%           30       9  33.3%\n        0x4004  (/two)\n"
		"          4000  25.0%           10      16  25.0%\n        main  a.c:7\n");
	/* Those without a byte have no line; 0: all. */
	EXPECT(profile("x --text -N 0"), 0);
	EXPECT(strstr(out.text, " 0.0%            0 ") == NULL, true);
	EXPECT(strlen(out.text) > 300, true);
	told.nr_sites = 0;
	EXPECT(profile("x --text"), 0);
	EXPECT_TEXT(out.text,
		"in use: about 0 bytes (+- 0.0%), from 0 samples, one in 4096 bytes\n"
		"1 samples were lost for want of room\n"
		"call stacks: 2 samples unwound, 3 walked by the process, 4 trails lost\n" COLUMNS);
}

#define JSON_HEAD \
	"{\n  \"kind\": \"profile\",\n  \"schema\": 1,\n  \"pid\": 77,\n" \
	"  \"mean_bytes\": 4096,\n  \"start_time\": 1.500,\n  \"time\": 2.250,\n"

static void test_json(void)
{
	begin();
	EXPECT(profile("x -j -N 1"), 0);
	EXPECT_TEXT(out.text, JSON_HEAD
		"  \"lost\": 0,\n  \"sites\": [\n"
		"    {\n      \"alloc_objects\": 20,\n      \"alloc_bytes\": 2000,\n"
		"      \"inuse_objects\": 9,\n      \"inuse_bytes\": 2000,\n"
		"      \"samples\": 4,\n      \"inuse_samples\": 1,\n      \"stack\": [\n"
		"        {\n          \"address\": \"0x2002\",\n          \"function\": \"f\",\n"
		"          \"object\": \"/two\",\n          \"outers\": \"g\"\n        },\n"
		"        {\n          \"address\": \"0x3003\"\n        },\n"
		"        {\n          \"address\": \"0x4004\",\n          \"file\": \"b.c\",\n"
		"          \"line\": 5,\n          \"object\": \"/two\"\n        }\n      ]\n"
		"    }\n  ]\n}\n");
	told.lost = 1;
	told.is_unwound = true;
	told.stacks_unwound = 2;
	told.stacks_walked = 3;
	told.trails_lost = 4;
	EXPECT(profile("x -j --alloc -N 1"), 0);
	EXPECT_TEXT(out.text, JSON_HEAD
		"  \"lost\": 1,\n  \"stacks_unwound\": 2,\n  \"stacks_walked\": 3,\n"
		"  \"trails_lost\": 4,\n  \"sites\": [\n"
		"    {\n      \"alloc_objects\": 30,\n      \"alloc_bytes\": 9000,\n"
		"      \"inuse_objects\": 0,\n      \"inuse_bytes\": 0,\n"
		"      \"samples\": 9,\n      \"inuse_samples\": 0,\n      \"stack\": [\n"
		"        {\n          \"address\": \"0x4004\",\n          \"file\": \"b.c\",\n"
		"          \"line\": 5,\n          \"object\": \"/two\"\n        }\n      ]\n"
		"    }\n  ]\n}\n");
	told.nr_sites = 0;
	EXPECT(profile("x -j"), 0);
	EXPECT(strstr(out.text, "\"sites\": []\n}\n") != NULL, true);
}

/* How many lines of stacks there are by themselves, and of JSON. */
static int nr_sites_of(const char *words)
{
	int nr = 0;

	EXPECT(profile(words), 0);
	for (const char *at = out.text; (at = strstr(at, "\"samples\"")); at++)
		nr++;
	for (const char *at = out.text; (at = strstr(at, "no call stack")); at++)
		nr++;
	return nr;
}

static void test_lines(void)
{
	static struct profile_site many[30];

	begin();
	EXPECT(nr_sites_of("x -j"), 5);
	EXPECT(nr_sites_of("x -j -N 4"), 4);
	EXPECT(nr_sites_of("x -j -N 0"), 5);
	for (int i = 0; i < 30; i++)
		many[i] = (struct profile_site){ .values = { 1, 1, 1, 1 }, .samples = 1 };
	told.sites = many;
	told.nr_sites = 30;
	EXPECT(nr_sites_of("x -j"), 20);
	EXPECT(nr_sites_of("x --text"), 20);
	EXPECT(nr_sites_of("x --text --lines=29"), 29);
	EXPECT(nr_sites_of("x --text --lines=0"), 30);
}

static void test_all(void)
{
	test_wishes();
	test_modes();
	test_arguments();
	test_table();
	test_json();
	test_lines();
}

int main(int argc, char **argv)
{
	(void)argc;
	keep_no_chunks(argv);
	do_twice(test_all);
	return failures != 0;
}
