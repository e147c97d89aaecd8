/* SPDX-License-Identifier: MIT */
/* trace.c on a slab of this test's own process: which layouts are followed, whose tracks count, and
 * what is told of them. */
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "expect.h"
#include "in_use.h"
#include "trace.h"

#define LETTERS_U (1u << 3)
#define STRIDE 256u
#define LEFT 32u
#define NR 15u
#define TRACK_BYTES 48u
#define REQUESTED 136u		/* from an object on, behind its two tracks */
#define TRACK 40u

/* Of a track, in the order of enum slub_abi_track_field. */
struct made_track {
	uint64_t caller, when, stack, thread, cpu, is_freed;
};

/* The slab is the second page of two. */
static char pages[2 * 4096] __attribute__((aligned(4096)));
static char *const slab = pages + 4096;
static uint16_t map_there[2] = { 0, 64 };
static struct page {
	uint32_t flags, count;
	uint64_t holes, first, inuse;
} pages_there[2] __attribute__((aligned(16)));
#define page_there pages_there[1]
static uint64_t layout[4], store_at;
static struct {
	uint64_t unused[2];
	struct {
		uint32_t nr, unused;
		uint64_t frames[TRACE_FRAMES_MAX + 1];
	} stacks[2];
} store;
static struct cache_view cache;
static struct process process;
static struct snapshot snapshot;
static struct traces traces;

static struct made_track *track_of(unsigned int object, enum trace_kind kind)
{
	return (struct made_track *)(slab + LEFT + object * STRIDE + TRACK + kind * TRACK_BYTES);
}

static void put_requested(unsigned int object, uint64_t bytes)
{
	memcpy(slab + LEFT + object * STRIDE + REQUESTED, &bytes, sizeof(bytes));
}

/* All objects free but the first @nr. */
static void make_free(unsigned int nr)
{
	char *first = slab + LEFT + nr * STRIDE;

	page_there.first = nr < NR ? (uintptr_t)first : 0;
	for (unsigned int i = nr; i < NR; i++) {
		uint64_t next = i + 1 < NR ? (uintptr_t)slab + LEFT + (i + 1) * STRIDE : 0;

		memcpy(slab + LEFT + i * STRIDE, &next, sizeof(next));
	}
	page_there.inuse = nr;
}

static void make(void)
{
	struct slub_abi *abi = &snapshot.abi;

	process.pid = getpid();
	memset(pages, 0, sizeof(pages));
	cache = (struct cache_view){ .name = "watched", .slot = 64 };
	cache.fields[SLUB_ABI_CACHE_SIZE] = STRIDE;
	cache.fields[SLUB_ABI_CACHE_OBJECT_SIZE] = 40;
	cache.fields[SLUB_ABI_CACHE_OBJECTS] = NR;
	cache.fields[SLUB_ABI_CACHE_DEBUG] = LETTERS_U;
	cache.fields[SLUB_ABI_CACHE_WATCH] = (uintptr_t)layout;
	snapshot = (struct snapshot){ .process = &process, .caches = &cache, .nr_caches = 1 };
	abi->page_bytes = 4096;
	abi->range_start = abi->heap_start = (uintptr_t)pages;
	abi->range_bytes = abi->heap_bytes = sizeof(pages);
	abi->map = (uintptr_t)map_there;
	abi->descriptors = (uintptr_t)pages_there;
	abi->descriptor_stride = 32;
	abi->descriptor_count = 4;
	abi->descriptor_holes = 8;
	abi->descriptor_state = 16;
	abi->descriptor_state_align = 8;
	abi->slot_bytes = 32;
	abi->nr_slots = 4;
	abi->watch_bytes = sizeof(layout);
	abi->track_bytes = TRACK_BYTES;
	for (int i = 0; i < 4; i++)
		abi->watch_fields[i] = (struct slub_abi_field){ (uint16_t)(8 * i), 8 };
	for (int i = 0; i < SLUB_ABI_TRACK_FIELDS_KNOWN; i++)
		abi->track_fields[i] = (struct slub_abi_field){ (uint16_t)(8 * i), 8 };
	abi->stacks = (uintptr_t)&store_at;
	abi->stack_unit = sizeof(store.stacks[0]);
	abi->stack_nr = sizeof(store.unused);
	abi->stack_frames = sizeof(store.unused) + 8;
	store_at = (uintptr_t)&store;
	layout[SLUB_ABI_WATCH_LEFT] = LEFT;
	layout[SLUB_ABI_WATCH_TRACK] = TRACK;
	layout[SLUB_ABI_WATCH_REQUESTED] = REQUESTED;
	page_there.flags = SLUB_ABI_PAGE_SLAB | 3 << 16;
	for (unsigned int i = 0; i < NR; i++) {
		*track_of(i, TRACE_ALLOC) = (struct made_track){ 0x5000, 100, 0, 7, 1, 0 };
		put_requested(i, 30);
	}
	make_free(4);
}

static size_t collected(enum trace_kind kind)
{
	traces_free(&traces);
	traces_collect(&traces, &snapshot, kind, "");
	return traces.nr;
}

/* Each object that is told of. */
static uint64_t objects(void)
{
	uint64_t nr = 0;

	collected(TRACE_ALLOC);
	for (size_t i = 0; i < traces.nr; i++)
		nr += traces.rows[i].count;
	return nr;
}

static void test_layouts(void)
{
	make();
	EXPECT(objects(), 4);
	/* Two tracks have room up to the end of the place, and so has what was asked for. */
	layout[SLUB_ABI_WATCH_TRACK] = STRIDE - LEFT - 2 * TRACK_BYTES;
	EXPECT(collected(TRACE_FREE), 1);
	layout[SLUB_ABI_WATCH_TRACK]++;
	EXPECT(collected(TRACE_FREE), 0);
	layout[SLUB_ABI_WATCH_TRACK] = TRACK;
	layout[SLUB_ABI_WATCH_REQUESTED] = STRIDE - LEFT - 8;
	EXPECT(objects(), 4);
	layout[SLUB_ABI_WATCH_REQUESTED]++;
	EXPECT(objects(), 0);
	layout[SLUB_ABI_WATCH_REQUESTED] = UINT64_MAX - 8;
	EXPECT(objects(), 0);
	layout[SLUB_ABI_WATCH_REQUESTED] = 0;
	EXPECT(objects(), 4);
	EXPECT(traces.rows[0].bytes, 160);
	layout[SLUB_ABI_WATCH_TRACK] = 0;
	EXPECT(objects(), 0);
	layout[SLUB_ABI_WATCH_TRACK] = UINT64_MAX - 64;
	EXPECT(objects(), 0);
	make();
	layout[SLUB_ABI_WATCH_LEFT] = STRIDE;
	EXPECT(objects(), 0);
	make();
	cache.fields[SLUB_ABI_CACHE_OBJECT_SIZE] = STRIDE;
	EXPECT(objects(), 4);
	cache.fields[SLUB_ABI_CACHE_OBJECT_SIZE]++;
	EXPECT(objects(), 0);
	make();
	cache.fields[SLUB_ABI_CACHE_WATCH] = 8;
	EXPECT(objects(), 0);
	make();
	cache.fields[SLUB_ABI_CACHE_DEBUG] = ~(uint64_t)LETTERS_U;
	EXPECT(objects(), 0);
	make();
	page_there.inuse = 0;
	EXPECT(objects(), 0);
	make();
	cache.fields[SLUB_ABI_CACHE_OBJECTS] = 17;
	EXPECT(objects(), 0);
}

/* Descriptions whose fields do not lie where they should. */
static void test_fields(void)
{
	make();
	snapshot.abi.track_bytes = 0;
	EXPECT(objects(), 0);
	make();
	snapshot.abi.watch_fields[7] = (struct slub_abi_field){ sizeof(layout) - 8, 8 };
	snapshot.abi.track_fields[7] = (struct slub_abi_field){ TRACK_BYTES - 8, 8 };
	EXPECT(objects(), 4);
	snapshot.abi.watch_fields[7].offset++;
	EXPECT(objects(), 0);
	make();
	snapshot.abi.track_fields[7] = (struct slub_abi_field){ TRACK_BYTES - 7, 8 };
	EXPECT(objects(), 0);
	snapshot.abi.track_fields[7] = (struct slub_abi_field){ 0, 9 };
	EXPECT(objects(), 0);
	make();
	snapshot.abi.watch_fields[0].bytes = 9;
	EXPECT(objects(), 0);
}

static void test_what_is_told(void)
{
	make();
	track_of(1, TRACE_ALLOC)->when = 50;
	track_of(1, TRACE_ALLOC)->thread = 3;
	track_of(2, TRACE_ALLOC)->when = 400;
	track_of(2, TRACE_ALLOC)->thread = 9;
	track_of(2, TRACE_ALLOC)->cpu = 65;
	track_of(3, TRACE_ALLOC)->cpu = TRACE_CPUS_MAX;
	put_requested(2, 41);
	EXPECT(collected(TRACE_ALLOC), 1);
	EXPECT(traces.rows[0].count, 4);
	EXPECT(traces.rows[0].bytes, 130);
	EXPECT(traces.rows[0].waste, 30);
	EXPECT(traces.rows[0].when_min, 50);
	EXPECT(traces.rows[0].when_max, 400);
	EXPECT(traces.rows[0].when_sum, 650);
	EXPECT(traces.rows[0].thread_min, 3);
	EXPECT(traces.rows[0].thread_max, 9);
	EXPECT(traces.rows[0].cpus[0], 2);
	EXPECT(traces.rows[0].cpus[1], 2);
	EXPECT(traces.rows[0].nodes, 1 << 3);
	EXPECT(traces.rows[0].nr_frames, 1);
	EXPECT(traces.rows[0].frames[0], 0x5000);
	page_there.flags = SLUB_ABI_PAGE_SLAB | 32 << 16;
	EXPECT(collected(TRACE_ALLOC), 1);
	EXPECT(traces.rows[0].nodes, 0);
	/* What is on its way out or in is nobody's. */
	track_of(0, TRACE_ALLOC)->is_freed = 1;
	track_of(1, TRACE_ALLOC)->caller = 0;
	EXPECT(objects(), 2);
	/* Who freed what was there before: nobody, of most. */
	track_of(2, TRACE_FREE)->caller = 0x6000;
	track_of(2, TRACE_FREE)->when = 60;
	EXPECT(collected(TRACE_FREE), 2);
	EXPECT(traces.rows[0].caller, 0);
	EXPECT(traces.rows[0].count, 2);
	EXPECT(traces.rows[0].nr_frames, 0);
	EXPECT(traces.rows[0].when_max, 0);
	EXPECT(traces.rows[1].caller, 0x6000);
	EXPECT(traces.rows[1].when_min, 60);
}

static void test_stacks(void)
{
	make();
	for (unsigned int i = 0; i < TRACE_FRAMES_MAX + 1; i++)
		store.stacks[1].frames[i] = 0x9000 + i;
	for (unsigned int i = 0; i < 4; i++)
		track_of(i, TRACE_ALLOC)->stack = 1;
	for (uint32_t nr = 0; nr < TRACE_FRAMES_MAX + 2; nr++) {
		bool is_good = nr && nr <= TRACE_FRAMES_MAX;

		store.stacks[1].nr = nr;
		EXPECT(collected(TRACE_ALLOC), 1);
		EXPECT(traces.rows[0].nr_frames, is_good ? nr : 1);
		EXPECT(traces.rows[0].frames[0], is_good ? 0x9000 : 0x5000);
		if (is_good)
			EXPECT(traces.rows[0].frames[nr - 1], 0x9000 + nr - 1);
	}
	/* Without a store, or an address for one, there is who called. */
	store.stacks[1].nr = 2;
	store_at = 0;
	EXPECT(collected(TRACE_ALLOC), 1);
	EXPECT(traces.rows[0].nr_frames, 1);
	snapshot.abi.stacks = 8;
	EXPECT(collected(TRACE_ALLOC), 1);
	EXPECT(traces.rows[0].nr_frames, 1);
	/* A caller of 1 is one that nobody knows. */
	make();
	for (unsigned int i = 0; i < 4; i++)
		track_of(i, TRACE_ALLOC)->caller = 1;
	EXPECT(collected(TRACE_ALLOC), 1);
	EXPECT(traces.rows[0].nr_frames, 0);
}

/* Of one cache those with the most objects first, then by caller and by stack. */
static void test_order(void)
{
	static const unsigned char counts[] = { 2, 1, 3, 3, 1, 1 };
	unsigned int object = 0;

	make();
	make_free(11);
	for (unsigned int i = 0; i < sizeof(counts); i++) {
		for (unsigned int n = 0; n < counts[i]; n++, object++) {
			track_of(object, TRACE_ALLOC)->caller = i < 4 ? 0x7000 - 16 * i : 0x100;
			track_of(object, TRACE_ALLOC)->stack = i < 4 ? 0 : 9 - i;
		}
	}
	EXPECT(collected(TRACE_ALLOC), 6);
	EXPECT(traces.rows[0].caller, 0x7000 - 48);
	EXPECT(traces.rows[1].caller, 0x7000 - 32);
	EXPECT(traces.rows[2].caller, 0x7000);
	EXPECT(traces.rows[3].stack, 4);
	EXPECT(traces.rows[4].stack, 5);
	EXPECT(traces.rows[5].caller, 0x7000 - 16);
	EXPECT(traces.rows[0].count, 3);
	EXPECT(traces.rows[2].count, 2);
}

/* A list of free objects that was changed meanwhile is followed as far as it makes sense. */
static void test_lists_that_change(void)
{
	uint64_t far = (uintptr_t)slab + LEFT + NR * STRIDE;

	make();
	memcpy(slab + LEFT + 5 * STRIDE, &page_there.first, 8);
	EXPECT(objects(), NR - 2);
	make();
	memcpy(slab + LEFT + 5 * STRIDE, &far, 8);
	EXPECT(objects(), NR - 2);
	make();
	page_there.first += 8;
	EXPECT(objects(), NR);
	/* Links that lie in the last bytes of a place, and behind the end. */
	make();
	cache.fields[SLUB_ABI_CACHE_LINK] = STRIDE - 8 - LEFT;
	page_there.first = (uintptr_t)slab + LEFT + 14 * STRIDE;
	EXPECT(objects(), NR - 1);
	cache.fields[SLUB_ABI_CACHE_LINK] = 4095;
	EXPECT(objects(), NR - 1);
	/* The last bytes of the slab count, and none behind them. */
	far = (uintptr_t)slab + LEFT + 13 * STRIDE;
	memcpy(slab + 4096 - 8, &far, 8);
	cache.fields[SLUB_ABI_CACHE_LINK] = 4096 - 8 - (LEFT + 14 * STRIDE);
	EXPECT(objects(), NR - 2);
	cache.fields[SLUB_ABI_CACHE_LINK]++;
	EXPECT(objects(), NR - 1);
}

/* Links may lie in a table that has one for each page. */
static void test_links_elsewhere(void)
{
	static uint64_t links[1];

	make();
	links[0] = (uintptr_t)slab + LEFT + 9 * STRIDE;
	cache.fields[SLUB_ABI_CACHE_LINK] = (uintptr_t)links - ((uintptr_t)slab >> 12) * 8;
	EXPECT(objects(), NR - 2);
	cache.fields[SLUB_ABI_CACHE_LINK] = 1ull << 60;
	EXPECT(objects(), NR - 1);
}

static void test_letters(void)
{
	static const char all[] = "FZPUTA";
	char buf[8], expected[8] = "";

	for (int bits = 0; bits < 128; bits++) {
		int length = 0;

		for (int i = 0; all[i]; i++) {
			if (bits & 1 << i)
				expected[length++] = all[i];
		}
		expected[length] = '\0';
		cache.fields[SLUB_ABI_CACHE_DEBUG] = (uint64_t)bits;
		EXPECT(strcmp(watch_letters(&cache, buf), expected), 0);
	}
}

/* Of a process it is now, by the clock of its tracks. */
static void test_now(void)
{
	struct timespec before, after;

	make();
	clock_gettime(CLOCK_MONOTONIC, &before);
	EXPECT(collected(TRACE_ALLOC), 1);
	clock_gettime(CLOCK_MONOTONIC, &after);
	EXPECT(traces.now_ns >= (uint64_t)before.tv_sec * 1000000000 + (uint64_t)before.tv_nsec, 1);
	EXPECT(traces.now_ns <= (uint64_t)after.tv_sec * 1000000000 + (uint64_t)after.tv_nsec, 1);
}

static void test_all(void)
{
	test_layouts();
	test_fields();
	test_what_is_told();
	test_stacks();
	test_order();
	test_lists_that_change();
	test_links_elsewhere();
	test_letters();
	test_now();
	traces_free(&traces);
}

int main(int argc, char **argv)
{
	(void)argc;
	keep_no_chunks(argv);
	do_twice(test_all);
	return failures != 0;
}
