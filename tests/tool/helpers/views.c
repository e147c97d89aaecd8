/* SPDX-License-Identifier: MIT */
/*
 * view.c and totals.c: numbers as people read them, at their bounds; caches in each order; sums
 * over caches; and the head of JSON.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "in_use.h"
#include "said.h"
#include "totals.h"
#include "view.h"

#define NR 4

static struct said out;
static struct cache_view caches[NR], olds[NR];
static struct snapshot now = { .caches = caches, .nr_caches = NR },
		       before = { .caches = olds, .nr_caches = NR };
static int nr_indexed;

/* ---- what snapshot.c and state.c know ---- */

uint64_t cache_bytes(const struct snapshot *snapshot, const struct cache_view *cache)
{
	EXPECT(snapshot == &now || snapshot == &before, true);
	return 4096 * cache->slabs;
}

uint64_t cache_capacity(const struct cache_view *cache)
{
	return cache->slabs * cache_field(cache, SLUB_ABI_CACHE_OBJECTS);
}

uint64_t cache_used(const struct cache_view *cache)
{
	return cache->active - cache->cached;
}

uint64_t cache_partial(const struct cache_view *cache)
{
	return cache->slabs - cache->full - cache->empty;
}

uint64_t cache_aliases(const struct cache_view *cache)
{
	return cache->slot;
}

const struct cache_view *cache_by_slot(const struct snapshot *snapshot, uint32_t slot)
{
	for (size_t i = 0; snapshot && i < snapshot->nr_caches; i++) {
		if (snapshot->caches[i].slot == slot)
			return &snapshot->caches[i];
	}
	return NULL;
}

void snapshot_index(struct snapshot *snapshot)
{
	EXPECT(snapshot == &now, true);
	nr_indexed++;
}

const char *state_backend(const struct slub_abi *abi)
{
	return abi->backend == 2 ? "tid" : "none";
}

/* ---- numbers ---- */

static void test_sizes(void)
{
	static const struct {
		uint64_t bytes;
		const char *expected;
	} cases[] = {
		{ 0, "0" }, { 1, "1" }, { 1023, "1023" }, { 1024, "1.0K" }, { 1536, "1.5K" },
		{ 1 << 20, "1.0M" }, { 1 << 30, "1.0G" }, { 1ull << 40, "1.0T" },
		{ 1ull << 50, "1.0P" }, { 1ull << 60, "1024.0P" },
	};
	char buf[SIZE_TEXT], exact[SIZE_TEXT];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		EXPECT_TEXT(size_text(buf, cases[i].bytes, false), cases[i].expected);
		snprintf(exact, sizeof(exact), "%" PRIu64, cases[i].bytes);
		EXPECT_TEXT(size_text(buf, cases[i].bytes, true), exact);
	}
	EXPECT(percent(1, 4), 25);
	EXPECT(percent(5, 4), 125);
	EXPECT(percent(1, 0), 0);
	EXPECT(percent(1, 1), 100);
}

static void test_times(void)
{
	char buf[32];

	setenv("TZ", "UTC", 1);
	tzset();
	EXPECT_TEXT(time_text(buf, 1600000000999999999), "2020-09-13 12:26:40");
	EXPECT_TEXT(time_text(buf, 1600000001000000000), "2020-09-13 12:26:41");
	EXPECT_TEXT(time_text(buf, 1), "1970-01-01 00:00:00");
	EXPECT_TEXT(time_text(buf, 0), "unknown");
}

static struct cache_view one(uint64_t slabs, uint64_t active, uint64_t cached, uint64_t size)
{
	struct cache_view cache = { .slabs = slabs, .active = active, .cached = cached };

	cache.fields[SLUB_ABI_CACHE_OBJECT_SIZE] = size;
	return cache;
}

static void test_waste(void)
{
	struct cache_view cache = one(2, 50, 10, 100);

	EXPECT(cache_waste(&now, &cache), 8192 - 4000);
	cache.active = 10 + 81;
	EXPECT(cache_waste(&now, &cache), 92);
	cache.active++;
	EXPECT(cache_waste(&now, &cache), 0);
}

static void expect_slack(int line, struct cache_view cache, uint64_t average, int64_t bytes)
{
	uint64_t is = 99;
	char buf[SIZE_TEXT], expected[SIZE_TEXT];

	cache.fields[SLUB_ABI_CACHE_SLACK] = average;
	expect_at(line, "known", cache_slack(&cache, &is), bytes >= 0);
	expect_at(line, "bytes", (long long)is, bytes < 0 ? 0 : bytes);
	snprintf(expected, sizeof(expected), "%" PRId64, bytes);
	expect_text(line, slack_text(buf, &cache, true), bytes < 0 ? "-" : expected);
}

#define EXPECT_SLACK(cache, average, bytes) expect_slack(__LINE__, cache, average, bytes)

static void test_slack(void)
{
	EXPECT_SLACK(one(2, 50, 10, 100), 0, -1);
	EXPECT_SLACK(one(2, 50, 10, 100), 1, 0);
	EXPECT_SLACK(one(2, 50, 10, 100), 1 + 256 * 3, 120);
	EXPECT_SLACK(one(2, 50, 10, 100), 1 + 128, 20);
	EXPECT_SLACK(one(2, 50, 10, 100), 1 + 256 * 100 + 255, 40 * (25600 + 255) / 256);
	EXPECT_SLACK(one(2, 50, 10, 100), 1 + 256 * 101, -1);
	EXPECT_SLACK(one(2, 50, 10, UINT32_MAX), 257, 40);
	EXPECT_SLACK(one(2, 50, 10, UINT32_MAX + 1ull), 257, -1);
	EXPECT_SLACK(one(2, UINT32_MAX, 0, 100), 257, UINT32_MAX);
	EXPECT_SLACK(one(2, UINT32_MAX + 1ull, 0, 100), 257, -1);
}

static void test_fast(void)
{
	struct cache_view cache = { .slabs = 0 };

	EXPECT(cache_fast_percent(&cache), 0);
	cache.stats[SLUB_ABI_STAT_ALLOC_SPARE] = 3;
	cache.stats[SLUB_ABI_STAT_ALLOC_BARN] = 2;
	cache.stats[SLUB_ABI_STAT_ALLOC_REFILL] = 5;
	cache.stats[SLUB_ABI_STAT_OBJECTS_OUT] = 50;
	cache.fields[SLUB_ABI_CACHE_CAPACITY_NOW] = 30;
	EXPECT(cache_fast_percent(&cache), 95);		/* 190 of 200 */
	cache.stats[SLUB_ABI_STAT_OBJECTS_OUT] = 0;
	cache.fields[SLUB_ABI_CACHE_CAPACITY_NOW] = 2;
	EXPECT(cache_fast_percent(&cache), 0);		/* as many as were slow */
	cache.stats[SLUB_ABI_STAT_OBJECTS_OUT] = 1;
	EXPECT(cache_fast_percent(&cache) * 11, 100);
	memset(cache.stats, 0, sizeof(cache.stats));
	cache.stats[SLUB_ABI_STAT_OBJECTS_OUT] = 50;
	EXPECT(cache_fast_percent(&cache), 0);
}

static void test_activity(void)
{
	struct cache_view cache = { .slabs = 0 };

	for (int i = 0; i < SLUB_ABI_STATS; i++)
		cache.stats[i] = 1;
	EXPECT(cache_activity(&cache), SLUB_ABI_STAT_SLAB_FREE - SLUB_ABI_STAT_ALLOC_SPARE + 1);
}

/* ---- order ---- */

static void begin(void)
{
	static const char *const names[] = { "malloc-128", "b", "malloc-64", "a" };

	memset(caches, 0, sizeof(caches));
	memset(olds, 0, sizeof(olds));
	for (unsigned int i = 0; i < NR; i++) {
		strcpy(caches[i].name, names[i]);
		caches[i].slot = olds[i].slot = 16 * (i + 1);
		strcpy(olds[i].name, names[i]);
	}
}

/* In which order they come, by the first letters of their slots: "1234" as they were. */
static const char *order_by(enum sort_key key)
{
	static char text[NR + 1];

	nr_indexed = 0;
	cache_sort(&now, &before, key);
	EXPECT(nr_indexed, 1);
	for (int i = 0; i < NR; i++)
		text[i] = (char)('0' + caches[i].slot / 16);
	begin();
	return text;
}

static void test_names(void)
{
	begin();
	EXPECT_TEXT(order_by(SORT_NAME), "4231");
	/* Those that have as much of it are in the order of names. */
	EXPECT_TEXT(order_by(SORT_ACTIVE), "4231");
	caches[0].active = 1;
	EXPECT_TEXT(order_by(SORT_ACTIVE), "1423");
}

#define ORDER(key, field, a, b, c, d, expected) do { \
	begin(); \
	caches[0].field = a; \
	caches[1].field = b; \
	caches[2].field = c; \
	caches[3].field = d; \
	EXPECT_TEXT(order_by(key), expected); \
} while (0)

static void test_orders(void)
{
	ORDER(SORT_ACTIVE, active, 1, 3, 2, 4, "4231");
	ORDER(SORT_PER_SLAB, fields[SLUB_ABI_CACHE_OBJECTS], 4, 3, 2, 1, "1234");
	ORDER(SORT_BYTES, slabs, 3, 4, 1, 2, "2143");
	ORDER(SORT_SLABS, slabs, 3, 4, 1, 2, "2143");
	ORDER(SORT_PAGES, fields[SLUB_ABI_CACHE_ORDER], 2, 1, 4, 3, "3412");
	ORDER(SORT_SIZE, fields[SLUB_ABI_CACHE_SIZE], 1, 2, 3, 4, "4321");
	ORDER(SORT_WASTE, slabs, 1, 2, 3, 4, "4321");
	ORDER(SORT_PARTIAL, slabs, 1, 2, 3, 4, "4321");
	ORDER(SORT_GROWTH, slabs, 1, 4, 2, 3, "2431");
	ORDER(SORT_ACTIVITY, stats[SLUB_ABI_STAT_SLAB_FREE], 4, 1, 3, 2, "1342");
	begin();
	for (unsigned int i = 0; i < NR; i++) {
		caches[i].slabs = 10;
		caches[i].empty = 3 * i % 4;		/* 0, 3, 2, 1 */
	}
	EXPECT_TEXT(order_by(SORT_ACTIVE_SLABS), "1432");
	for (unsigned int i = 0; i < NR; i++) {
		caches[i].slabs = i + 1;
		caches[i].fields[SLUB_ABI_CACHE_OBJECTS] = 10 - 3 * i;	/* 10, 14, 12, 4 */
	}
	EXPECT_TEXT(order_by(SORT_OBJECTS), "2314");
	for (unsigned int i = 0; i < NR; i++) {
		caches[i].slabs = 1;
		caches[i].fields[SLUB_ABI_CACHE_OBJECTS] = 10 * (i + 1);
		caches[i].active = 10;
	}
	EXPECT_TEXT(order_by(SORT_USE), "1234");
	/* The worst share first, and last where nothing is known. */
	for (unsigned int i = 0; i < NR; i++) {
		caches[i].stats[SLUB_ABI_STAT_ALLOC_REFILL] = i ? 5 : 0;
		caches[i].stats[SLUB_ABI_STAT_OBJECTS_OUT] = 10 * (i + 1);
	}
	EXPECT_TEXT(order_by(SORT_FAST), "2341");
	for (unsigned int i = 0; i < NR; i++) {
		caches[i].fields[SLUB_ABI_CACHE_OBJECT_SIZE] = 64;
		caches[i].fields[SLUB_ABI_CACHE_SLACK] = i ? 257 : 0;
		caches[i].active = i == 3 ? 0 : i + 1;
	}
	EXPECT_TEXT(order_by(SORT_SLACK), "3241");
}

static void test_growth(void)
{
	begin();
	caches[0].slabs = 3;
	olds[0].slabs = 5;
	EXPECT(cache_growth(&now, &before, &caches[0]), -2 * 4096);
	EXPECT(cache_growth(&now, NULL, &caches[0]), 0);
	/* Another one that has its slot now. */
	olds[0].name[0] = 'x';
	EXPECT(cache_growth(&now, &before, &caches[0]), 0);
}

static void test_keys(void)
{
	static const char letters[] = "abcfgklnopsuvw";

	EXPECT_TEXT(sort_keys(), "a b c f g k l n o p s u v w");
	for (int letter = 0; letter < 256; letter++)
		EXPECT(sort_key_is_known(letter), letter && strchr(letters, letter) != NULL);
	said_begin(&out, 1);
	sort_print_help(stdout);
	said_end(&out);
	EXPECT_TEXT(out.text,
		"a  active objects       b  objects per slab     c  size of the cache\n"
		"f  fast path            g  growth               k  slack\n"
		"l  slabs                n  name                 o  objects\n"
		"p  pages per slab       s  size of an object    u  use\n"
		"v  slabs not empty      w  memory not in use\n");
}

/* ---- sums ---- */

static void test_totals(void)
{
	begin();
	for (unsigned int i = 0; i < NR; i++) {
		caches[i].slabs = 2 * i;
		caches[i].full = i == 3 ? 4 : 0;
		caches[i].empty = i == 2;
		caches[i].active = 60 * i;
		caches[i].fields[SLUB_ABI_CACHE_OBJECTS] = 40;
		caches[i].fields[SLUB_ABI_CACHE_OBJECT_SIZE] = 100u - 20 * i + (i == 1 ? 200 : 0);
	}
	caches[3].active = 160 + 7;
	said_begin(&out, 1);
	totals_print(&now, true);
	said_end(&out);
	EXPECT_TEXT(out.text,
		"Slabcache Totals\n----------------\n"
		"Slabcaches :          4   Aliases  :     160   Active:       3\n"
		"Memory used:      49152   # Loss   :   27080   MRatio:     45%\n"
		"# Objects  :        347   # PartObj:     187   ORatio:     54%\n\n"
		"Per Cache               Average            Min            Max          Total\n"
		"----------------------------------------------------------------------------\n"
		"#Objects                     86              0            167            347\n"
		"#Slabs                        3              0              6             12\n"
		"#PartSlab                     1              0              3              7\n"
		"Memory                    12288              0          24576          49152\n"
		"Used                       5518              0           8192          22072\n"
		"Loss                       6770              0          17896          27080\n"
		"Objsize                     120             40            280            480\n");
	said_begin(&out, 1);
	totals_print(&now, false);
	said_end(&out);
	EXPECT(strstr(out.text, "\nMemory used:      48.0K   # Loss   :   26.4K ") != NULL, true);
	EXPECT(strstr(out.text, "\n#Objects                     86 ") != NULL, true);
	EXPECT(strstr(out.text, "\nLoss                       6.6K              0          17.5K"
		      "          26.4K\n") != NULL, true);
}

static void test_json(void)
{
	struct snapshot snapshot = {
		.pid = 77, .name = "made", .committed_bytes = 1, .slab_bytes = 2,
		.active_bytes = 9, .large_bytes = 3, .idle_bytes = 4, .refused_bytes = 5,
		.moved_runs = 6, .deferred_bytes = 7, .deferred_objects = 8,
		.abi = { .library_version = "7.8.9", .backend = 2, .start_ns = 1500000000 },
	};
	struct json json = { .to = stdout };

	for (int is_whole = 0; is_whole < 2; is_whole++) {
		if (is_whole) {
			strcpy(snapshot.command, "made wait");
			snapshot.has_exited = true;
			snapshot.time_ns = 2250000000;
		}
		said_begin(&out, 1);
		json_open_snapshot(&json, &snapshot, "kind");
		json_totals(&json, &snapshot, "heap");
		json_close(&json);
		said_end(&out);
		EXPECT_TEXT(out.text, is_whole ?
			"{\n  \"kind\": \"kind\",\n  \"schema\": 1,\n  \"pid\": 77,\n"
			"  \"name\": \"made\",\n  \"command\": \"made wait\",\n"
			"  \"exited\": true,\n"
			"  \"version\": \"7.8.9\",\n  \"backend\": \"tid\",\n  \"time\": 2.250,\n"
			"  \"start_time\": 1.500,\n  \"heap\": {\n    \"committed_bytes\": 1,\n"
			"    \"slab_bytes\": 2,\n    \"active_bytes\": 9,\n"
			"    \"large_bytes\": 3,\n    \"idle_bytes\": 4,\n"
			"    \"refused_bytes\": 5,\n    \"moved_runs\": 6,\n"
			"    \"deferred_bytes\": 7,\n    \"deferred_objects\": 8\n  }\n}\n" :
			"{\n  \"kind\": \"kind\",\n  \"schema\": 1,\n  \"pid\": 77,\n"
			"  \"name\": \"made\",\n  \"exited\": false,\n"
			"  \"version\": \"7.8.9\",\n  \"backend\": \"tid\",\n  \"time\": null,\n"
			"  \"start_time\": 1.500,\n  \"heap\": {\n    \"committed_bytes\": 1,\n"
			"    \"slab_bytes\": 2,\n    \"active_bytes\": 9,\n"
			"    \"large_bytes\": 3,\n    \"idle_bytes\": 4,\n"
			"    \"refused_bytes\": 5,\n    \"moved_runs\": 6,\n"
			"    \"deferred_bytes\": 7,\n    \"deferred_objects\": 8\n  }\n}\n");
		json = (struct json){ .to = stdout };
	}
}

/* Of a watched cache the size is that of the object, without what stands around it. */
static void test_objects(void)
{
	struct snapshot one = { .caches = caches, .nr_caches = 1 };

	memset(caches, 0, sizeof(caches));
	caches[0].fields[SLUB_ABI_CACHE_SIZE] = 10;
	caches[0].fields[SLUB_ABI_CACHE_OBJECT_SIZE] = 8;
	caches[0].fields[SLUB_ABI_CACHE_OBJECTS] = 4;
	caches[0].slabs = 3;
	caches[0].active = 7;
	caches[0].cached = 2;
	for (uint64_t is_watched = 0; is_watched < 2; is_watched++) {
		struct json json = { .to = stdout };

		caches[0].fields[SLUB_ABI_CACHE_DEBUG] = is_watched;
		said_begin(&out, 1);
		json_open(&json, NULL);
		json_totals(&json, &one, "objects");
		json_close(&json);
		said_end(&out);
		EXPECT_TEXT(out.text, is_watched ?
			"{\n  \"objects\": {\n    \"used\": 5,\n    \"used_bytes\": 40,\n"
			"    \"cached\": 2,\n    \"cached_bytes\": 16,\n"
			"    \"free\": 5,\n    \"free_bytes\": 40\n  }\n}\n" :
			"{\n  \"objects\": {\n    \"used\": 5,\n    \"used_bytes\": 50,\n"
			"    \"cached\": 2,\n    \"cached_bytes\": 20,\n"
			"    \"free\": 5,\n    \"free_bytes\": 50\n  }\n}\n");
	}
}

static void test_all(void)
{
	test_sizes();
	test_times();
	test_waste();
	test_slack();
	test_fast();
	test_activity();
	test_names();
	test_orders();
	test_growth();
	test_keys();
	test_totals();
	test_json();
	test_objects();
}

int main(int argc, char **argv)
{
	(void)argc;
	keep_no_chunks(argv);
	do_twice(test_all);
	return failures != 0;
}
