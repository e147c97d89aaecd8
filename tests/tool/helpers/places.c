/* SPDX-License-Identifier: MIT */
/*
 * symbols.c: the places of code as text and as JSON, by what is known of each, and names of
 * functions, which are asked for once.  What debugging information says is told here.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "in_use.h"
#include "process.h"
#include "profile.h"
#include "said.h"
#include "snapshot.h"
#include "symbols.h"

static struct mapping mappings[] = {
	{ .start = 0x1000, .end = 0x2000, .offset = 0x300, .path = (char *)"/lib/a" },
	{ .start = 0x2000, .end = 0x3000, .offset = 0, .path = (char *)"" },
	{ .start = 0x4000, .end = 0x5000, .offset = 0x7000, .path = (char *)"/lib/b" },
};
static struct process process = { .pid = 77, .mappings = mappings, .nr_mappings = 3 };
static struct said out;
static int nr_asked, nr_mapped;

void profile_mappings_of(struct profile *names, const struct process *of)
{
	EXPECT(names->nr_mappings, 0);
	EXPECT(of == &process, true);
	nr_mapped++;
}

size_t profile_mapping_at(struct profile *names, const struct process *of, uint64_t address)
{
	EXPECT(names->nr_locations > 0, true);
	EXPECT(of == &process, true);
	return (size_t)(address >> 12);
}

static void add_outers(struct profile_location *location)
{
	static struct profile_outer outers[] = {
		{ (char *)"one", NULL, (char *)"o.c", 7 }, { (char *)"whole", NULL, NULL, 0 },
	};

	location->outers = outers;
	location->nr_outers = 2;
}

/* Where a function begins another one may be inlined at once. */
static void add_inner(struct profile_location *location)
{
	location->outers = calloc(1, sizeof(*location->outers));
	location->outers[0].function = location->function;
	location->nr_outers = 1;
	location->function = strdup("inner");
}

/* By the last digit: 1 has a function, 2 a file, 3 both. */
void profile_find_symbols(struct profile *profile)
{
	for (size_t i = 0; i < profile->nr_locations; i++) {
		struct profile_location *location = &profile->locations[i];
		unsigned int digit = location->address & 0xf;

		EXPECT(location->mapping, location->address >> 12);
		if (digit == 1 || digit == 3)
			location->function = strdup("a\tfunction");
		if (digit == 2 || digit == 3) {
			location->file = strdup("a \"file\"");
			location->line = 10 + digit;
		}
		if (location->address == 0x1003)
			add_outers(location);
		if (location->address == 0x1011)
			add_inner(location);
		nr_asked++;
	}
}

void profile_free(struct profile *profile)
{
	for (size_t i = 0; i < profile->nr_locations; i++) {
		if (profile->locations[i].nr_outers == 1) {
			free(profile->locations[i].outers[0].function);
			free(profile->locations[i].outers);
		}
		free(profile->locations[i].function);
		free(profile->locations[i].file);
	}
	free(profile->locations);
}

void clean_text(char *text, size_t size)
{
	EXPECT(size, strlen("a\tfunction") + 1);
	*strchr(text, '\t') = '?';
}

/* Return addresses; what is looked up is the call before. */
static const uint64_t addresses[] = {
	0x1002, 0x1003, 0x1004, 0x1001, 0x1000, 0x2000, 0x2001, 0x3000, 0x3001, 0x3002, 0x5000,
	0x5001,
};
#define NR (sizeof(addresses) / sizeof(addresses[0]))

static void test_text(void)
{
	nr_asked = nr_mapped = 0;
	said_begin(&out, 1);
	symbols_print(&process, addresses, NR, STACK_OF_CALLS);
	said_end(&out);
	EXPECT(nr_asked, NR);
	EXPECT(nr_mapped, 1);
	EXPECT_TEXT(out.text,
		"\t0x1002 a\tfunction (/lib/a+0x302)\n"
		"\t0x1003 (a \"file\":12)\n"
		"\t0x1004 a\tfunction (a \"file\":13)\n"
		"\t    inlined in one (o.c:7)\n\t    inlined in whole\n"
		"\t0x1001 (/lib/a+0x301)\n"
		"\t0x1000\n"
		"\t0x2000 (/lib/a+0x1300)\n"
		"\t0x2001\n"
		"\t0x3000\n"
		"\t0x3001\n"
		"\t0x3002 a\tfunction\n"
		"\t0x5000 (/lib/b+0x8000)\n"
		"\t0x5001\n");
	said_begin(&out, 1);
	symbols_print(&process, addresses, 0, STACK_OF_CALLS);
	said_end(&out);
	EXPECT_TEXT(out.text, "");
}

static void test_json(void)
{
	struct json json = { .to = stdout };

	said_begin(&out, 1);
	json_open(&json, NULL);
	symbols_put(&json, &process, addresses, 5, STACK_OF_CALLS);
	json_close(&json);
	said_end(&out);
	EXPECT_TEXT(out.text,
		"{\n  \"stack\": [\n"
		"    {\n      \"address\": \"0x1002\",\n"
		"      \"function\": \"a\\u0009function\",\n"
		"      \"mapping\": \"/lib/a\",\n      \"offset\": \"0x302\"\n    },\n"
		"    {\n      \"address\": \"0x1003\",\n"
		"      \"file\": \"a \\\"file\\\"\",\n      \"line\": 12\n    },\n"
		"    {\n      \"address\": \"0x1004\",\n"
		"      \"function\": \"a\\u0009function\",\n"
		"      \"file\": \"a \\\"file\\\"\",\n      \"line\": 13,\n"
		"      \"inlined_in\": [\n        {\n          \"function\": \"one\",\n"
		"          \"file\": \"o.c\",\n          \"line\": 7\n        },\n"
		"        {\n          \"function\": \"whole\"\n        }\n      ]\n    },\n"
		"    {\n      \"address\": \"0x1001\",\n"
		"      \"mapping\": \"/lib/a\",\n      \"offset\": \"0x301\"\n    },\n"
		"    {\n      \"address\": \"0x1000\"\n    }\n  ]\n}\n");
}

/* Each is asked for once, and 64 are kept for the rest of the run. */
static void test_names(void)
{
	nr_asked = 0;
	EXPECT(symbol_name(NULL, 0x1001) == NULL, true);
	EXPECT(symbol_name(&process, 0) == NULL, true);
	EXPECT(nr_asked, 0);
	for (int round = 0; round < 2; round++) {
		for (uint64_t i = 1; i < 64; i++) {
			const char *name = symbol_name(&process, 0x1001 + 16 * i);

			EXPECT_TEXT(name ? name : "none", "a?function");
		}
		EXPECT(symbol_name(&process, 0x1004) == NULL, true);
		EXPECT(nr_asked, 64);
	}
	EXPECT(symbol_name(&process, 0x1001) == NULL, true);
	EXPECT(nr_asked, 64);
}

static void test_prints(void)
{
	test_text();
	test_json();
}

int main(int argc, char **argv)
{
	(void)argc;
	keep_no_chunks(argv);
	do_twice(test_prints);
	test_names();
	return failures != 0;
}
