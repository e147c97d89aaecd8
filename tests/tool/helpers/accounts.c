/* SPDX-License-Identifier: MIT */
/*
 * account.c on made numbers: the parts add up to the RSS, the largest of them is the cause, and
 * the sentence about it names the cache, the share and what `slub shrink` would give back.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "account.h"
#include "in_use.h"
#include "said.h"
#include "view.h"

#define MIB ((uint64_t)1 << 20)

static struct cache_view views[2] = { { .name = "malloc-64" }, { .name = "malloc-1024" } };
static struct snapshot now = { .caches = views, .nr_caches = 2, .pid = 77 };
static struct account_cache caches[2];
static struct account account;
static struct said out;

const char *size_text(char buf[SIZE_TEXT], uint64_t bytes, bool exact)
{
	EXPECT(exact, false);
	if (bytes % MIB || !bytes)
		snprintf(buf, SIZE_TEXT, "%llu", (unsigned long long)bytes);
	else
		snprintf(buf, SIZE_TEXT, "%lluM", (unsigned long long)(bytes / MIB));
	return buf;
}

static void sum(struct account_input input)
{
	input.caches = caches;
	input.nr_caches = 2;
	account_sum(&account, &input);
	account.may_shrink = true;
}

static uint64_t all_parts(void)
{
	uint64_t all = 0;

	for (int part = 0; part < ACCOUNT_PARTS; part++)
		all += account.parts[part];
	return all;
}

static void expect_why(int line, enum account_part part, const char *expected)
{
	char *why = account_why(&account, &now);

	expect_at(line, "the cause", account.why, part);
	expect_text(line, why, expected);
	free(why);
}

#define EXPECT_WHY(part, expected) expect_why(__LINE__, part, expected)

static void none(void)
{
	memset(caches, 0, sizeof(caches));
}

/* Three in a hundred of 318 MiB, of which pages of 290 MiB have none. */
static void test_holes(void)
{
	none();
	caches[0] = (struct account_cache){
		.slabs = 300 * MIB, .used = 8 * MIB, .cached = MIB, .sparse = 300 * MIB,
		.sparse_used = 10 * MIB, .sparse_room = 300 * MIB, .spare = 280 * MIB,
	};
	caches[1] = (struct account_cache){
		.slabs = 20 * MIB, .used = 2 * MIB, .sparse = 18 * MIB, .sparse_used = MIB,
		.sparse_room = 18 * MIB, .spare = 10 * MIB,
	};
	sum((struct account_input){ .rss = 350 * MIB, .tables = 4 * MIB, .held = 2 * MIB,
				    .retain = 2 * MIB });
	EXPECT(all_parts(), 350 * MIB);
	EXPECT(account.all, 350 * MIB);
	EXPECT(account.parts[ACCOUNT_LIVE], 10 * MIB);
	EXPECT(account.parts[ACCOUNT_LISTS], MIB);
	EXPECT(account.parts[ACCOUNT_HOLES], 309 * MIB);
	EXPECT(account.parts[ACCOUNT_ELSEWHERE], 24 * MIB);
	EXPECT(account.back, 290 * MIB);
	EXPECT_WHY(ACCOUNT_HOLES, "318M in slabs that 3 % of their objects keep: largest "
		   "malloc-64; `slub shrink 77` would give about 290M back");
	account.may_shrink = false;
	EXPECT_WHY(ACCOUNT_HOLES, "318M in slabs that 3 % of their objects keep: largest "
		   "malloc-64");
}

/* No page without an object: nothing that could be asked for helps. */
static void test_kept_holes(void)
{
	caches[0].spare = caches[1].spare = 0;
	sum((struct account_input){ .rss = 350 * MIB });
	EXPECT(account.back, 0);
	EXPECT_WHY(ACCOUNT_HOLES, "318M in slabs that 3 % of their objects keep: largest "
		   "malloc-64; each page goes back with its last object");
	/* More than its holes is never promised. */
	caches[0].spare = 1000 * MIB;
	sum((struct account_input){ .rss = 350 * MIB });
	EXPECT(account.back, 291 * MIB);
}

static void test_live(void)
{
	none();
	caches[1] = (struct account_cache){ .slabs = 100 * MIB, .used = 90 * MIB,
					    .sparse = 20 * MIB };
	sum((struct account_input){ .rss = 130 * MIB, .large = 5 * MIB });
	EXPECT(account.parts[ACCOUNT_LIVE], 95 * MIB);
	EXPECT_WHY(ACCOUNT_LIVE, "the program holds 95M: most in malloc-1024 (90M); `slub leaks "
		   "77` looks for what is lost");
	/* A large block is as good a cause; without memory an object is none. */
	caches[1].used = 4000 * MIB;
	sum((struct account_input){ .rss = 400 * MIB, .large = 200 * MIB });
	EXPECT(account.parts[ACCOUNT_LIVE], 300 * MIB);
	account.may_shrink = false;
	EXPECT_WHY(ACCOUNT_LIVE, "the program holds 300M: most in large blocks (200M)");
}

static void test_lists(void)
{
	none();
	caches[0] = (struct account_cache){ .slabs = 40 * MIB, .used = 4 * MIB,
					    .cached = 30 * MIB };
	caches[1] = (struct account_cache){ .slabs = 40 * MIB, .cached = 35 * MIB };
	sum((struct account_input){ .rss = 90 * MIB, .held = 3 * MIB, .retain = MIB });
	EXPECT(account.back, 67 * MIB);
	EXPECT_WHY(ACCOUNT_LISTS, "65M of freed objects in the lists of CPUs: largest "
		   "malloc-1024; `slub shrink 77` would give about 67M back");
}

static void test_held(void)
{
	none();
	sum((struct account_input){ .rss = 90 * MIB, .held = 80 * MIB, .retain = MIB });
	EXPECT_WHY(ACCOUNT_HELD, "80M of free pages, kept for the next requests; `slub shrink "
		   "77` would give about 79M back");
	sum((struct account_input){ .rss = 90 * MIB, .held = 80 * MIB, .retain = 80 * MIB });
	EXPECT_WHY(ACCOUNT_HELD, "80M of free pages, kept for the next requests; `slub set 77 "
		   "retain 0` would give them back");
}

static void test_beside_the_heap(void)
{
	none();
	sum((struct account_input){ .rss = 90 * MIB, .tables = 80 * MIB });
	EXPECT_WHY(ACCOUNT_TABLES, "80M are the library's own tables, which grow with CPUs, "
		   "caches and the heap");
	sum((struct account_input){ .rss = 90 * MIB, .tables = 8 * MIB });
	EXPECT_WHY(ACCOUNT_ELSEWHERE, "82M are no part of libslub's heap");
	strcpy(account.place, "libc.so.6");
	account.largest_bytes = 50 * MIB;
	EXPECT_WHY(ACCOUNT_ELSEWHERE, "82M are no part of libslub's heap: largest libc.so.6 (50M)");
}

/* A file of statistics does not know it, and of a process the heap grew meanwhile. */
static void test_rss_that_does_not_fit(void)
{
	none();
	sum((struct account_input){ .large = 7 * MIB });
	EXPECT(account.has_rss, false);
	EXPECT(account.all, 7 * MIB);
	sum((struct account_input){ .rss = 5 * MIB, .large = 7 * MIB });
	EXPECT(account.has_rss, true);
	EXPECT(account.all, 7 * MIB);
	EXPECT(account.parts[ACCOUNT_ELSEWHERE], 0);
}

static void test_texts(void)
{
	none();
	sum((struct account_input){ .large = 7 * MIB, .held = MIB, .retain = MIB });
	said_begin(&out, 1);
	account_print(stdout, &account, &now);
	said_end(&out);
	EXPECT_TEXT(out.text,
		"heap                 8M        8388608  the sum of these; RSS is not known\n"
		"  live               7M        7340032  objects and blocks that the program "
		"holds\n"
		"  in lists            0              0  freed objects in the lists of CPUs\n"
		"  in holes            0              0  free memory of slabs that an object "
		"keeps\n"
		"  held               1M        1048576  free pages, kept for the next requests\n"
		"why          the program holds 7M: most in large blocks (7M); `slub leaks 77` "
		"looks for what is lost\n");
	sum((struct account_input){ .rss = 10 * MIB, .large = 7 * MIB, .held = MIB });
	said_begin(&out, 1);
	EXPECT(account_print_short(stdout, &account, &now, 90), 3);
	EXPECT(account_print_short(stdout, &account, &now, 80), 4);
	EXPECT(account_print_short(stdout, &account, &now, 9), 4);
	said_end(&out);
	EXPECT_TEXT(out.text,
		"        RSS       live   in lists   in holes       held     tables  elsewhere\n"
		"        10M         7M          0          0         1M          0         2M\n"
		" the program holds 7M: most in large blocks (7M); `slub leaks 77` looks for "
		"what is lost\n"
		"        RSS       live   in lists   in holes       held     tables  elsewhere\n"
		"        10M         7M          0          0         1M          0         2M\n"
		" the program holds 7M: most in large blocks (7M); `slub leaks 77` looks for what\n"
		" is lost\n"
		"        RSS       live   in lists   in holes       held     tables  elsewhere\n"
		"        10M         7M          0          0         1M          0         2M\n"
		" the\n program holds 7M: most in large blocks (7M); `slub leaks 77` looks for "
		"what is lost\n");
}

static void test_json(void)
{
	struct json json = { .to = stdout };

	none();
	sum((struct account_input){ .rss = 10 * MIB, .large = 7 * MIB, .held = MIB });
	said_begin(&out, 1);
	json_open(&json, NULL);
	account_json(&json, &account, &now);
	json_close(&json);
	said_end(&out);
	EXPECT_TEXT(out.text,
		"{\n  \"memory\": {\n    \"rss_bytes\": 10485760,\n    \"live_bytes\": 7340032,\n"
		"    \"lists_bytes\": 0,\n    \"holes_bytes\": 0,\n    \"held_bytes\": 1048576,\n"
		"    \"tables_bytes\": 0,\n    \"elsewhere_bytes\": 2097152,\n"
		"    \"shrink_bytes\": 1048576,\n    \"why\": \"live\",\n    \"sentence\": "
		"\"the program holds 7M: most in large blocks (7M); `slub leaks 77` looks for "
		"what is lost\"\n  }\n}\n");
}

static void test_all(void)
{
	test_holes();
	test_kept_holes();
	test_live();
	test_lists();
	test_held();
	test_beside_the_heap();
	test_rss_that_does_not_fit();
	test_texts();
	test_json();
}

int main(int argc, char **argv)
{
	(void)argc;
	keep_no_chunks(argv);
	do_twice(test_all);
	return failures != 0;
}
