/* SPDX-License-Identifier: MIT */
/* profile_proto.c: a profile with functions, files and mappings in pprof's form, which this test
 * takes apart; profile.proto of google/pprof has its numbers. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "expect.h"
#include "in_use.h"
#include "profile.h"

static char path[] = "/tmp/protos-XXXXXX", target[sizeof(path) + 8];
static unsigned char bytes[1 << 20];
static size_t nr_bytes;
static char told[1 << 16];		/* "2{1[1 2]2[10 20]}", a message a line */
static FILE *to;

static uint64_t varint(const unsigned char **at)
{
	uint64_t value = 0;

	for (int shift = 0;; shift += 7) {
		value |= (uint64_t)(**at & 0x7f) << shift;
		if (!(*(*at)++ & 0x80))
			return value;
	}
}

/* Numbers one behind the other. */
static void tell_packed(const unsigned char *at, const unsigned char *end)
{
	fputc('[', to);
	while (at < end) {
		fprintf(to, "%llu", (unsigned long long)varint(&at));
		fputs(at < end ? " " : "", to);
	}
	fputc(']', to);
}

static void tell(const unsigned char *at, const unsigned char *end, int outer)
{
	while (at < end) {
		uint64_t key = varint(&at), field = key >> 3, size;

		fprintf(to, "%llu", (unsigned long long)field);
		if ((key & 7) == 0) {
			fprintf(to, "=%llu", (unsigned long long)varint(&at));
		} else {
			EXPECT(key & 7, 2);
			size = varint(&at);
			if (!outer && field == 6) {
				fprintf(to, "\"%.*s\"", (int)size, at);
			} else if (outer == 2) {
				tell_packed(at, at + size);
			} else {
				fputc('{', to);
				tell(at, at + size, (int)field);
				fputc('}', to);
			}
			at += size;
		}
		fputc(outer ? ' ' : '\n', to);
	}
}

static int write_it(const struct profile *profile)
{
	int status = profile_write_proto(profile, target, 0640);
	FILE *file = fopen(target, "r");

	nr_bytes = file ? fread(bytes, 1, sizeof(bytes), file) : 0;
	if (file)
		fclose(file);
	memset(told, 0, sizeof(told));
	to = fmemopen(told, sizeof(told), "w");
	tell(bytes, bytes + nr_bytes, 0);
	fclose(to);
	return status;
}

static void expect_told(const char *expected)
{
	if (!strcmp(told, expected))
		return;
	printf("the profile is\n%snot\n%s", told, expected);
	failures++;
}

static struct profile_outer outers[] = {
	{ (char *)"f(int)", (char *)"_Z1fi", NULL, 0 },
	{ (char *)"g", NULL, (char *)"b.c", 4 },
};
static struct profile_location locations[] = {
	{ 0x1000, 1, (char *)"main", NULL, (char *)"a.c", 7 },
	{ 0x1080, 1, (char *)"main", NULL, (char *)"a.c", 9 },
	{ 0x2000, 2, (char *)"f(int)", (char *)"_Z1fi", NULL, 0 },
	{ 0x3000, 0, NULL, NULL, NULL, 0 },
	{ 0x1100, 1, (char *)"main", NULL, (char *)"b.c", 3 },
	{ 0x2100, 2, (char *)"f(int)", (char *)"_Z1fi", NULL, 0 },
	{ 0x1180, 1, (char *)"main", NULL, NULL, 0, outers, 2 },
};
static struct profile_mapping mappings[] = {
	{ 0x1000, 0x2000, 0, (char *)"/bin/it", (char *)"abcd", true },
	{ 0x2000, 0x3000, 0x1000, (char *)"/lib/other", NULL, false },
};

static void test_whole(void)
{
	static uint64_t frames[] = { 0, 3, 6, 2, 300 };
	static struct profile_site sites[] = {
		{ { 1, 127, 128, 16384 }, 1, 1, 0, 0, 3 },
		{ { 0, 1ull << 63, 5, 0 }, 1, 1, 0, 3, 2 },
	};
	struct profile profile = {
		.mean_bytes = 524288, .start_ns = 1000, .written_ns = 1300,
		.sites = sites, .nr_sites = 2, .frames = frames, .nr_frames = 5,
		.locations = locations, .nr_locations = 7, .mappings = mappings, .nr_mappings = 2,
		.is_unwound = true, .stacks_unwound = 11, .stacks_walked = 12,
	};
	struct stat status;

	EXPECT(write_it(&profile), 0);
	EXPECT(stat(target, &status), 0);
	EXPECT(status.st_mode & 0777, 0640);
	expect_told("1{1=1 2=2 }\n1{1=3 2=4 }\n1{1=5 2=2 }\n1{1=6 2=4 }\n"
		    "2{1[1 4 7] 2[1 127 128 16384] }\n"
		    "2{1[3 301] 2[0 9223372036854775808 5 0] }\n"
		    "3{1=1 2=4096 3=8192 5=7 6=8 7=1 8=1 9=1 10=1 }\n"
		    "3{1=2 2=8192 3=12288 4=4096 5=9 }\n"
		    "5{1=1 2=10 3=10 4=11 }\n4{1=1 2=1 3=4096 4{1=1 2=7 } }\n"
		    "4{1=2 2=1 3=4224 4{1=1 2=9 } }\n"
		    "5{1=2 2=12 3=13 }\n4{1=3 2=2 3=8192 4{1=2 } }\n"
		    "4{1=4 3=12288 }\n"
		    "5{1=3 2=10 3=10 4=14 }\n4{1=5 2=1 3=4352 4{1=3 2=3 } }\n"
		    "4{1=6 2=2 3=8448 4{1=2 } }\n"
		    "5{1=4 2=10 3=10 }\n5{1=5 2=15 3=15 4=14 }\n"
		    "4{1=7 2=1 3=4480 4{1=4 } 4{1=2 } 4{1=5 2=4 } }\n"
		    "9=1300\n10=300\n11{1=16 2=4 }\n12=524288\n13=17\n14=6\n"
		    "6\"\"\n6\"alloc_objects\"\n6\"count\"\n6\"alloc_space\"\n6\"bytes\"\n"
		    "6\"inuse_objects\"\n6\"inuse_space\"\n6\"/bin/it\"\n6\"abcd\"\n"
		    "6\"/lib/other\"\n6\"main\"\n6\"a.c\"\n6\"f(int)\"\n6\"_Z1fi\"\n6\"b.c\"\n"
		    "6\"g\"\n"
		    "6\"space\"\n6\"call stacks: 11 samples unwound, 12 walked by the process\"\n");
}

static void test_nothing(void)
{
	struct profile profile = { .start_ns = 5, .written_ns = 5 };

	EXPECT(write_it(&profile), 0);
	expect_told("1{1=1 2=2 }\n1{1=3 2=4 }\n1{1=5 2=2 }\n1{1=6 2=4 }\n9=5\n11{1=7 2=4 }\n14=6\n"
		    "6\"\"\n6\"alloc_objects\"\n6\"count\"\n6\"alloc_space\"\n6\"bytes\"\n"
		    "6\"inuse_objects\"\n6\"inuse_space\"\n6\"space\"\n");
	/* Of a folder that is not there, or that is none. */
	snprintf(target, sizeof(target), "%s/x", path);
	EXPECT(profile_write_proto(&profile, target, 0600), 4);
	EXPECT(profile_write_proto(&profile, "/nonexistent/x", 0600), 4);
}

static void test_all(void)
{
	snprintf(target, sizeof(target), "%s.pb", path);
	test_whole();
	unlink(target);
	test_nothing();
}

int main(int argc, char **argv)
{
	(void)argc;
	keep_no_chunks(argv);
	close(mkstemp(path));
	do_twice(test_all);
	unlink(path);
	return failures != 0;
}
