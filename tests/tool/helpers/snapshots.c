/* SPDX-License-Identifier: MIT */
/* snapshot.c looks at a heap in this test's own process, with one cache of one slab: its numbers on
 * both sides of each bound, what is in lists, counters, options. */
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "expect.h"
#include "in_use.h"
#include "least.h"
#include "snapshot.h"

#define IN_USE (1u << 20)
#define SLOT_AT 64		/* of the area; a slot beyond its end is at FAR_AT */
#define FAR_AT 128
#define STATS_AT 192
#define DEFERRED_AT 320

/* Each of the cache's numbers has a place of its own, in the order of its field. */
static struct {
	uint64_t numbers[SLUB_ABI_CACHE_FIELDS];
	uint64_t node;
} cache_there;
static uint64_t node_there[SLUB_ABI_NODE_FIELDS], owners_there[4], table_there[2];
static struct slub_abi_option options_there[3];
static uint16_t map_there[2];
static struct {
	uint32_t flags, count;
	uint64_t holes, first, inuse;
} pages_there[2] __attribute__((aligned(16)));
#define page_there pages_there[0]
static char name_there[CACHE_NAME_SIZE], area_there[512];
static uint64_t freed_there[2];
static struct snapshot now;

static struct slub_abi make_heap(void)
{
	struct slub_abi abi = least();

	abi.slot_bytes = 32;
	abi.slot_head = 0;
	abi.slot_room = 8;
	abi.slot_spare_head = 16;
	abi.slot_owners = (uintptr_t)owners_there;
	abi.nr_slots = 4;
	abi.cache_bytes = sizeof(cache_there);
	abi.cache_nodes = sizeof(cache_there.numbers);
	abi.node_bytes = sizeof(node_there);
	abi.base_table = (uintptr_t)table_there;
	abi.nr_areas = 2;
	abi.area_bytes = SLOT_AT + 32;
	abi.heap_bytes = 4096;
	abi.map = (uintptr_t)map_there;
	abi.descriptors = (uintptr_t)pages_there;
	abi.descriptor_flags = 0;
	abi.descriptor_count = 4;
	abi.descriptor_holes = 8;
	memset(abi.stat_words, 0xff, sizeof(abi.stat_words));
	for (int i = 0; i < SLUB_ABI_CACHE_FIELDS; i++)
		abi.cache_fields[i] = (struct slub_abi_field){ (uint16_t)(8 * i), 8 };
	for (int i = 0; i < SLUB_ABI_NODE_FIELDS; i++)
		abi.node_fields[i] = (struct slub_abi_field){ (uint16_t)(8 * i), 8 };
	memset(&cache_there, 0, sizeof(cache_there));
	memset(&area_there, 0, sizeof(area_there));
	strcpy(name_there, "the one");
	cache_there.numbers[SLUB_ABI_CACHE_NAME] = (uintptr_t)name_there;
	cache_there.numbers[SLUB_ABI_CACHE_SLOT] = 64;
	cache_there.numbers[SLUB_ABI_CACHE_LIST_SLOT] = SLOT_AT;
	cache_there.numbers[SLUB_ABI_CACHE_OBJECTS] = IN_USE;
	cache_there.numbers[SLUB_ABI_CACHE_SIZE] = 64;
	cache_there.numbers[SLUB_ABI_CACHE_OBJECT_SIZE] = 64;
	cache_there.numbers[SLUB_ABI_CACHE_CAPACITY] = 40;
	cache_there.numbers[SLUB_ABI_CACHE_CAPACITY_NOW] = 40;
	cache_there.node = (uintptr_t)node_there;
	owners_there[2] = (uintptr_t)&cache_there;
	table_there[1] = (uintptr_t)&area_there;
	map_there[0] = 64;
	page_there.flags = SLUB_ABI_PAGE_SLAB;
	page_there.inuse = IN_USE;
	return abi;
}

/* How many caches a look finds; what it says is in `now`. */
static size_t looked(const struct slub_abi *abi)
{
	struct process process = { .pid = getpid(), .name = "the\atest" };

	snapshot_free(&now);
	EXPECT(snapshot_of_process(&now, &process, abi), 0);
	return now.nr_caches;
}

/* Objects in the lists of the one cache, all of whose objects are in use. */
static uint64_t in_lists(const struct slub_abi *abi)
{
	EXPECT(looked(abi), 1);
	EXPECT(now.caches[0].active, IN_USE);
	return now.caches[0].cached;
}

static void put(int at, uint64_t value, size_t bytes)
{
	memcpy(area_there + at, &value, bytes);
}

/* A list: room for so many more, what its spare list has, and the most that it may have; 0: what
 * the cache says. */
static void put_list(int at, bool has_head, int32_t room, bool has_spare, int32_t nr, int32_t limit)
{
	put(at, has_head ? 0x1000 : 0, 8);
	put(at + 8, (uint32_t)room, 4);
	put(at + 16, has_spare ? 0x2000 : 0, 8);
	put(at + 24, (uint32_t)nr, 4);
	put(at + 28, (uint32_t)limit, 4);
}

/* Only a cache whose numbers make sense is one. */
static void test_numbers_of_a_cache(void)
{
	static const struct {
		int field;
		uint64_t low, high;
	} bounds[] = {
		{ SLUB_ABI_CACHE_ORDER, 0, 16 },
		{ SLUB_ABI_CACHE_OBJECTS, 1, (1u << 24) - 1 },
		{ SLUB_ABI_CACHE_SIZE, 1, (1ull << 40) - 1 },
		{ SLUB_ABI_CACHE_OBJECT_SIZE, 0, (1ull << 40) - 1 },
		{ SLUB_ABI_CACHE_CAPACITY, 0, (1u << 24) - 1 },
		{ SLUB_ABI_CACHE_CAPACITY_NOW, 0, (1u << 24) - 1 },
		{ SLUB_ABI_CACHE_SLOT, 64, 64 },
	};
	struct slub_abi abi = make_heap();

	for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++) {
		uint64_t *number = &cache_there.numbers[bounds[i].field];

		make_heap();
		*number = bounds[i].low;
		EXPECT(looked(&abi), 1);
		*number = bounds[i].high;
		EXPECT(looked(&abi), 1);
		++*number;
		EXPECT(looked(&abi), 0);
		*number = bounds[i].low - 1;
		EXPECT(looked(&abi), 0);
	}
	make_heap();
	EXPECT(looked(&abi), 1);
	EXPECT(strcmp(now.caches[0].name, "the one"), 0);
	EXPECT(strcmp(now.name, "the?test"), 0);
	EXPECT(now.caches[0].slot, 64);
	EXPECT(now.caches[0].address == (uintptr_t)&cache_there, true);
	strcpy(name_there, "the\033[one");
	EXPECT(looked(&abi), 1);
	EXPECT(strcmp(now.caches[0].name, "the?[one"), 0);
	memset(name_there, 'x', sizeof(name_there));
	EXPECT(looked(&abi), 1);
	EXPECT(strlen(now.caches[0].name), CACHE_NAME_SIZE - 1);
	/* One that has gone, or whose node cannot be read, is none. */
	cache_there.node = 8;
	EXPECT(looked(&abi), 0);
	make_heap();
	owners_there[2] = 8;
	EXPECT(looked(&abi), 0);
}

static void test_lists(void)
{
	static const struct {
		int32_t room, limit, expected;
	} heads[] = {
		{ 5, 0, 35 }, { 0, 0, 40 }, { 39, 0, 1 }, { 40, 0, 1 }, { 41, 0, 1 }, { -1, 0, 1 },
		{ 4, 10, 6 }, { 9, 10, 1 }, { 10, 10, 1 }, { 0, 1, 1 }, { 5, -1, 35 },
		{ SLUB_ABI_ROOM_SHORT - 7, 0, 1 },
	};
	struct slub_abi abi = make_heap();

	EXPECT(in_lists(&abi), 0);
	EXPECT(now.nr_areas, 1);
	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
		put_list(SLOT_AT, true, heads[i].room, false, 9, heads[i].limit);
		EXPECT(in_lists(&abi), heads[i].expected);
		put_list(SLOT_AT, false, heads[i].room, false, 9, heads[i].limit);
		EXPECT(in_lists(&abi), 0);
	}
	/* Two CPUs have it twice. */
	put_list(SLOT_AT, true, 5, true, 9, 0);
	EXPECT(in_lists(&abi), 35 + 9);
	table_there[0] = table_there[1];
	EXPECT(in_lists(&abi), 2 * (35 + 9));
	EXPECT(now.nr_areas, 2);
	abi.nr_areas = 1;
	EXPECT(in_lists(&abi), 35 + 9);
	abi.dummy_area = table_there[0];
	EXPECT(in_lists(&abi), 0);
	EXPECT(now.nr_areas, 0);
	abi.dummy_area = 0;
	table_there[0] = 8;
	EXPECT(in_lists(&abi), 0);
	table_there[0] = 0;
	abi.nr_areas = 2;
	cache_there.numbers[SLUB_ABI_CACHE_IN_BARNS] = 100;
	EXPECT(in_lists(&abi), 100 + 35 + 9);
	/* No more than is in use. */
	cache_there.numbers[SLUB_ABI_CACHE_IN_BARNS] = 2 * IN_USE;
	EXPECT(in_lists(&abi), IN_USE);
}

static void test_spare_lists(void)
{
	struct slub_abi abi = make_heap();

	put_list(SLOT_AT, false, 0, true, 9, 0);
	EXPECT(in_lists(&abi), 9);
	put_list(SLOT_AT, false, 0, true, 1, 0);
	EXPECT(in_lists(&abi), 1);
	/* Not counted: what a chain most likely has, all but a quarter, which is 16 at the most. */
	put_list(SLOT_AT, false, 0, true, 0, 0);
	EXPECT(in_lists(&abi), 30);
	cache_there.numbers[SLUB_ABI_CACHE_CAPACITY_NOW] = 64;
	EXPECT(in_lists(&abi), 48);
	cache_there.numbers[SLUB_ABI_CACHE_CAPACITY_NOW] = 68;
	EXPECT(in_lists(&abi), 52);
	cache_there.numbers[SLUB_ABI_CACHE_CAPACITY_NOW] = 80;
	EXPECT(in_lists(&abi), 64);
	/* Local lists say how many are free for others. */
	cache_there.numbers[SLUB_ABI_CACHE_LOCAL] = 1;
	put_list(SLOT_AT, true, SLUB_ABI_ROOM_SHORT - 7, true, 12, 0);
	EXPECT(in_lists(&abi), 7 + SLUB_ABI_LOCAL_FOREIGN - 12);
	put_list(SLOT_AT, true, SLUB_ABI_ROOM_SHORT, false, 12, 0);
	EXPECT(in_lists(&abi), 0);
	put_list(SLOT_AT, true, SLUB_ABI_ROOM_SHORT + 1, true, 12, 0);
	EXPECT(in_lists(&abi), 1 + 12);
	cache_there.numbers[SLUB_ABI_CACHE_LOCAL] = 0;
	put_list(SLOT_AT, true, SLUB_ABI_ROOM_SHORT - 7, true, 12, 0);
	EXPECT(in_lists(&abi), 1 + 12);
	/* A layout whose spare list is not counted. */
	abi.slot_spare_head = 8;
	abi.slot_room = 24;
	put(SLOT_AT + 8, 0x2000, 8);
	put(SLOT_AT + 16, 9, 8);
	put(SLOT_AT + 24, 70, 4);
	EXPECT(in_lists(&abi), 10 + 64);
}

/* Slots that are not among the first bytes of an area are read one by one. */
static void test_far_lists(void)
{
	struct slub_abi abi = make_heap();

	put_list(SLOT_AT, true, 5, false, 0, 0);
	put_list(FAR_AT, true, 6, false, 0, 0);
	EXPECT(in_lists(&abi), 35);
	cache_there.numbers[SLUB_ABI_CACHE_LIST_SLOT] = FAR_AT;
	EXPECT(in_lists(&abi), 34);
	for (uint32_t bytes = 0; bytes < FAR_AT + 40; bytes++) {
		abi.area_bytes = bytes;
		EXPECT(in_lists(&abi), 34);
	}
	cache_there.numbers[SLUB_ABI_CACHE_LIST_SLOT] = 0;
	put_list(0, true, 6, false, 0, 0);
	EXPECT(in_lists(&abi), 0);
	cache_there.numbers[SLUB_ABI_CACHE_LIST_SLOT] = 1ull << 50;
	EXPECT(in_lists(&abi), 0);
}

static void test_counters(void)
{
	struct slub_abi abi = make_heap();
	const uint64_t *stats;

	cache_there.numbers[SLUB_ABI_CACHE_STATS] = STATS_AT;
	put(STATS_AT, 7, 4);
	put(STATS_AT + 4, 1u << 31, 4);
	put(STATS_AT + 12, 1000, 4);
	abi.stat_words[0] = 1;
	abi.stat_words[5] = 0;
	abi.stat_words[31] = 3;
	EXPECT(looked(&abi), 1);
	stats = now.caches[0].stats;
	EXPECT(stats[0], 1u << 31);
	EXPECT(stats[5], 7);
	EXPECT(stats[31], 1000);
	EXPECT(stats[1], 0);
	/* Threads without a CPU have some as well; the sum is of 32 bits. */
	abi.shared_area = (uintptr_t)area_there;
	EXPECT(looked(&abi), 1);
	stats = now.caches[0].stats;
	EXPECT(stats[0], 0);
	EXPECT(stats[5], 14);
	EXPECT(stats[31], 2000);
	cache_there.numbers[SLUB_ABI_CACHE_STATS] = 0;
	EXPECT(looked(&abi), 1);
	EXPECT(now.caches[0].stats[5], 0);
}

static void test_deferred(void)
{
	struct slub_abi abi = make_heap();

	abi.deferred = (uintptr_t)freed_there;
	abi.deferred_added = DEFERRED_AT;
	put(DEFERRED_AT, 10, 8);
	put(DEFERRED_AT + 8, 1000, 8);
	freed_there[0] = 4;
	freed_there[1] = 300;
	EXPECT(looked(&abi), 1);
	EXPECT(now.deferred_objects, 6);
	EXPECT(now.deferred_bytes, 700);
	abi.shared_area = (uintptr_t)area_there;
	EXPECT(looked(&abi), 1);
	EXPECT(now.deferred_objects, 16);
	EXPECT(now.deferred_bytes, 1700);
	freed_there[0] = 21;
	freed_there[1] = 2000;
	EXPECT(looked(&abi), 1);
	EXPECT(now.deferred_objects, 0);
	EXPECT(now.deferred_bytes, 0);
	abi.deferred = 8;
	EXPECT(looked(&abi), 1);
	EXPECT(now.deferred_objects, 0);
	abi.deferred = 0;
	EXPECT(looked(&abi), 1);
	EXPECT(now.deferred_bytes, 0);
}

static void test_options(void)
{
	struct slub_abi abi = make_heap();

	memset(options_there, 0, sizeof(options_there));
	for (int i = 0; i < 3; i++) {
		options_there[i].value = 10u + (unsigned int)i;
		strcpy(options_there[i].name, "an\aoption");
		strcpy(options_there[i].text, "a\atext");
	}
	abi.options = (uintptr_t)options_there;
	abi.option_bytes = sizeof(options_there[0]);
	EXPECT(looked(&abi), 1);
	EXPECT(now.nr_options, 0);
	abi.nr_options = 3;
	EXPECT(looked(&abi), 1);
	EXPECT(now.nr_options, 3);
	EXPECT(now.options[2].value, 12);
	EXPECT(strcmp(now.options[2].name, "an?option"), 0);
	EXPECT(strcmp(now.options[2].text, "a?text"), 0);
	/* Those of a library that knows less of each, and those that cannot be read. */
	abi.option_bytes = offsetof(struct slub_abi_option, min);
	abi.nr_options = 1;
	options_there[0].min = 99;
	EXPECT(looked(&abi), 1);
	EXPECT(now.options[0].value, 10);
	EXPECT(now.options[0].min, 0);
	abi.options = 8;
	EXPECT(looked(&abi), 1);
	EXPECT(now.nr_options, 0);
}

/* A slab whose free objects are in its own list: its second page says how many there are. */
static void test_local_list(void)
{
	struct slub_abi abi = make_heap();
	uint64_t *word = &pages_there[1].first;

	abi.heap_bytes = 2 * 4096;
	cache_there.numbers[SLUB_ABI_CACHE_ORDER] = 1;
	*word = 3ull << SLUB_ABI_LOCAL_HEAD_SHIFT | 20;
	pages_there[1].count = 60;
	EXPECT(in_lists(&abi), 0);
	cache_there.numbers[SLUB_ABI_CACHE_LOCAL] = 1;
	EXPECT(in_lists(&abi), 40);
	/* All that is above the room counts as the head. */
	*word = 3ull << SLUB_ABI_LOCAL_HEAD_SHIFT | SLUB_ABI_LOCAL_ROOM;
	pages_there[1].count = SLUB_ABI_LOCAL_ROOM + 1;
	EXPECT(in_lists(&abi), 1);
	pages_there[1].count = SLUB_ABI_LOCAL_ROOM;
	EXPECT(in_lists(&abi), 0);
	pages_there[1].count = SLUB_ABI_LOCAL_ROOM - 1;
	EXPECT(in_lists(&abi), 0);
	/* The sum, above the head, is another's business. */
	*word = 20 | 5ull << 40;
	EXPECT(in_lists(&abi), SLUB_ABI_LOCAL_ROOM - 21);
	/* No more than is in use. */
	page_there.inuse = 30;
	pages_there[1].count = 60;
	EXPECT(looked(&abi), 1);
	EXPECT(now.caches[0].cached, 30);
	/* A slab of one page has no second one. */
	cache_there.numbers[SLUB_ABI_CACHE_ORDER] = 0;
	page_there.inuse = IN_USE;
	EXPECT(in_lists(&abi), 0);
	/* Nor has a library that has no such lists. */
	cache_there.numbers[SLUB_ABI_CACHE_ORDER] = 1;
	EXPECT(in_lists(&abi), 40);
	abi.cache_fields[SLUB_ABI_CACHE_LOCAL].bytes = 0;
	EXPECT(in_lists(&abi), 0);
}

/* What the kernel would not take back, on this node alone, and what was moved. */
static void test_refused(void)
{
	static uint64_t pages[2] = { 3, 5 }, superblocks = 2, moved = 7;
	struct slub_abi abi = make_heap();

	map_there[0] = SLUB_ABI_MAP_NONE;
	page_there.flags = SLUB_ABI_PAGE_FREE | SLUB_ABI_PAGE_DIRTY;
	EXPECT(looked(&abi), 1);
	EXPECT(now.idle_bytes, 4096);
	EXPECT(now.refused_bytes, 0);
	abi.refused_pages = (uintptr_t)pages;
	abi.refused_stride = 8;
	EXPECT(looked(&abi), 1);
	EXPECT(now.refused_bytes, 3 * 4096);
	EXPECT(now.idle_bytes, 0);
	abi.refused_superblocks = (uintptr_t)&superblocks;
	abi.moved_runs = (uintptr_t)&moved;
	EXPECT(looked(&abi), 1);
	EXPECT(now.refused_bytes, 3 * 4096 + (2 << 21));
	EXPECT(now.moved_runs, 7);
	abi.moved_runs = 8;
	EXPECT(looked(&abi), 1);
	EXPECT(now.moved_runs, 0);
	pages[0] = 0;
	EXPECT(looked(&abi), 1);
	EXPECT(now.idle_bytes, 4096);
	pages[0] = 3;
}

/* What a look says of the process, and of its heap. */
static void test_heap(void)
{
	struct slub_abi abi = make_heap();
	uint64_t before = (uint64_t)time(NULL) - 1;

	EXPECT(looked(&abi), 1);
	EXPECT(now.pid, getpid());
	EXPECT(now.committed_bytes, 4096);
	EXPECT(now.slab_bytes, 4096);
	EXPECT(now.time_ns / 1000000000 >= before, true);
	EXPECT(now.time_ns / 1000000000 <= (uint64_t)time(NULL) + 1, true);
	EXPECT(now.census_ns, now.time_ns);
	EXPECT(now.caches[0].slabs, 1);
	EXPECT(now.caches[0].full, 1);
	EXPECT(now.caches[0].empty, 0);
	page_there.inuse = 0;
	page_there.count = 12;
	EXPECT(looked(&abi), 1);
	EXPECT(now.caches[0].full, 0);
	EXPECT(now.caches[0].empty, 1);
	EXPECT(now.caches[0].carved, 12);
	EXPECT(now.caches[0].carving, 0);
	page_there.inuse = 5 | SLUB_ABI_STATE_FROZEN;
	EXPECT(looked(&abi), 1);
	EXPECT(now.caches[0].active, 5);
	EXPECT(now.caches[0].carving, 1);
	snapshot_free(&now);
	abi.slot_owners = 8;
	EXPECT(snapshot_of_process(&now, &(struct process){ .pid = getpid() }, &abi), -EFAULT);
	EXPECT(now.caches == NULL, true);
	abi.slot_bytes = 0;
	EXPECT(snapshot_of_process(&now, &(struct process){ .pid = getpid() }, &abi), -EBADMSG);
}

static void test_all(void)
{
	test_numbers_of_a_cache();
	test_lists();
	test_spare_lists();
	test_far_lists();
	test_counters();
	test_deferred();
	test_options();
	test_local_list();
	test_refused();
	test_heap();
	snapshot_free(&now);
}

int main(int argc, char **argv)
{
	(void)argc;
	keep_no_chunks(argv);
	do_twice(test_all);
	return failures != 0;
}
