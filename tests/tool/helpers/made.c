/* SPDX-License-Identifier: MIT */
/*
 * A program without libslub that shows a heap which is made by hand: made_test.py knows each
 * number of it.
 *
 *   made wait [NAME=VALUE...]	       publishes it, says "ready", and waits until its input ends
 *   made stats FILE [NAME=VALUE...]  writes a statistics file of it
 *
 * made_change.c says which numbers may be others.
 *
 * Pages, by number:
 *
 *   1 2 3 4	  plain-64: full, 10 in use, carved from (20), empty
 *   6 8	  two-nodes: full, on node 1 with one object
 *   16		  far-1024, two of its eight pages without memory
 *   24 26	  watched:FZPU, watched-long-na:T
 *   28 32 36	  owned-128, owned-page, owned:U
 *   40 48 16380  large blocks of 5, 3 and 40 pages
 *   64 80 96	  free blocks of 16, 16 and 32 pages, the first and the last with memory
 *   130 131 132  entries of no cache, of no slab, and a slab of plain-64 that says too much
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "made.h"

#define FIELD(type, member) { offsetof(struct type, member), sizeof(((struct type *)0)->member) }

/* Not where the linker puts what is 0: a core is searched for it. */
struct slub_abi slub_abi_state = {
	.magic = SLUB_ABI_MAGIC,
	.version = SLUB_ABI_VERSION,
	.size = sizeof(struct slub_abi),
	.backend = SLUB_ABI_BACKEND_TID,
	.cpu_number = SLUB_ABI_CPU_GETCPU,
	.page_size = 4096,
	.layout = SLUB_ABI_LAYOUT_INNER56,
	.smp = 1,
	.nr_cpus_possible = 12,
	.nr_cpus_allowed = 7,
	.nr_nodes = NR_NODES,
	.membarrier = 1,
	.huge = SLUB_ABI_HUGE_BLOCK,
	.range_start = RANGE_START,
	.range_bytes = 0x8000000,
	.heap_start = HEAP_START,
	.heap_bytes = NR_PAGES * 4096ull,
	.retain_bytes = 3 << 20,
	.library_version = "7.8.9",
	.start_ns = 1600000000500000000,
	.map = MAP_START,
	.map_stride = 2,
	.page_bytes = 4096,
	.descriptors = DESCRIPTORS,
	.descriptor_stride = STRIDE,
	.descriptor_flags = 0,
	.descriptor_count = 4,
	.descriptor_holes = 8,
	.descriptor_state = 16,
	.descriptor_state_align = 16,
	.descriptor_owner = 16,
	.dummy_area = AREAS + 3 * AREA_ROOM,
	.shared_area = AREAS,
	.nr_areas = 4,
	.area_bytes = AREA_BYTES,
	.slot_bytes = 32,
	.slot_head = 0,
	.slot_room = 8,
	.slot_spare_head = 16,
	.nr_slots = NR_SLOTS,
	.cache_bytes = sizeof(struct made_cache),
	.cache_nodes = offsetof(struct made_cache, nodes),
	.node_bytes = sizeof(struct made_node),
	.cache_fields = {
#define CACHE_FIELD(field, member) FIELD(made_cache, member),
#include "features/inspect/field.def"
	},
	.node_fields = {
#define NODE_FIELD(field, member) FIELD(made_node, member),
#include "features/inspect/field.def"
	},
	.option_bytes = sizeof(struct slub_abi_option),
	.deferred_added = DEFERRED_AT,
	.far_entry = FAR_ENTRY,
	.nr_far_slots = NR_FAR,
	.refused_stride = 64,
};

/* Not in pages that a core leaves to the file. */
char made_names[NR_CACHES][24] = {
	"plain-64", "two-nodes", "far-1024", "idle-32", "watched", "watched:FZPU",
	"watched-long-na:T", "owned-128", "owned-page", "owned:U",
};

static struct slub_abi_alias aliases[] = { { 0, "plain-a" }, { 0, "plain\nb" } };

struct made_cache made_caches[NR_CACHES] = {
	{ .slot = 96, .list_slot = 96, .size = 64, .object_size = 60, .align = 8, .flags = 1,
	  .objects = 64, .capacity = 30, .capacity_now = 20, .min_partial = 5, .carve_batch = 9,
	  .users = 3, .stats = 0x1000, .slack = 4 * 256 + 129, .usersize = 24, .useroffset = 16,
	  .in_barns = 7 },
	{ .slot = 160, .list_slot = 160, .size = 256, .object_size = 256, .align = 128,
	  .flags = 4 | 16, .order = 1, .is_unguarded = 1, .objects = 32, .capacity = 8,
	  .capacity_now = 8, .users = 1, .stats = 0x1080 },
	{ .slot = FAR_ENTRY + 2, .list_slot = 0x1400, .size = 1024, .object_size = 1000,
	  .order = 3, .objects = 32, .capacity = 100, .capacity_now = 80, .users = 2,
	  .stats = 0x1100, .slack = 1 },
	{ .slot = 192, .list_slot = 192, .size = 32, .object_size = 32, .objects = 128,
	  .users = 1 },
	{ .slot = 224, .list_slot = 224, .size = 128, .object_size = 100, .objects = 32,
	  .users = 1 },
	{ .slot = 256, .size = 512, .object_size = 100, .order = 1, .letters = 15,
	  .objects = 16, .users = 1, .stats = 0x1180 },
	{ .slot = 288, .size = 512, .object_size = 400, .letters = 16, .objects = 8, .users = 1 },
	{ .slot = 320, .list_slot = 320, .size = 128, .object_size = 120, .flags = 8,
	  .is_accounted = 1, .objects = 31, .capacity = 4, .capacity_now = 4, .users = 1,
	  .owners = 3968, .owner_reciprocal = 1 },
	{ .slot = 352, .list_slot = 352, .size = 4096, .object_size = 4000, .flags = 8,
	  .order = 2, .is_accounted = 1, .objects = 4, .capacity = 4, .capacity_now = 4,
	  .users = 1 },
	{ .slot = 384, .size = 512, .object_size = 200, .letters = 40, .is_accounted = 1,
	  .objects = 8, .users = 1 },
};

struct made_node made_nodes[NR_CACHES][NR_NODES] = {
	{ { 4, 2, 6, 256, 225 }, { 1, 1, 2, 64, 33 } },
	{ { 1, 0, 1, 32, 32 }, { 1, 1, 3, 32, 1 } },
	{ { 1, 1, 1, 32, 32 }, { 0, 0, 0, 0, 0 } },
	{ { 0, 0, 4, 0, 0 }, { 0, 0, 0, 0, 0 } },
	{ { 0, 0, 0, 0, 0 }, { 0, 0, 0, 0, 0 } },
	{ { 1, 1, 1, 16, 16 }, { 0, 0, 0, 0, 0 } },
	{ { 1, 1, 1, 8, 8 }, { 0, 0, 0, 0, 0 } },
	{ { 1, 1, 1, 31, 8 }, { 0, 0, 0, 0, 0 } },
	{ { 1, 1, 1, 4, 4 }, { 0, 0, 0, 0, 0 } },
	{ { 1, 1, 1, 8, 8 }, { 0, 0, 0, 0, 0 } },
};

struct slub_abi_option made_options[] = {
	{ "fastpath", SLUB_ABI_OPTION_ENUM, 1, SLUB_ABI_BACKEND_TID, 0, 0, "tid" },
	{ "retain", SLUB_ABI_OPTION_SIZE, 2, 3 << 20, 0, 1 << 30, "" },
	{ "limit", SLUB_ABI_OPTION_SIZE, 0, SLUB_ABI_OPTION_AUTO, 0, 1ull << 40, "" },
	{ "guard", SLUB_ABI_OPTION_NUMBER, 1, 1000, 0, 1 << 20, "" },
	{ "stats_file", SLUB_ABI_OPTION_TEXT, 1, 0, 0, 0, "/tmp/a\033b" },
	{ "huge", SLUB_ABI_OPTION_ENUM, 0, SLUB_ABI_HUGE_BLOCK, 0, 0, "block" },
};
const uint32_t made_nr_options = sizeof(made_options) / sizeof(made_options[0]);

static uint64_t owners[NR_SLOTS], far_owners[NR_FAR], table[4];
static uint64_t deferred_freed[2] = { 4, 1000 };
static uint64_t limit_pages = 5000;
static uint64_t refused_superblocks = 1, moved_runs = 4;
static uint64_t refused_pages[2 * 8] = { [0] = 2, [8] = 3 };

__attribute__((noinline)) void made_ctor(void *object)
{
	memset(object, 0, 1);
}

/* ---- pages ---- */

uint64_t page_at(uint32_t n)
{
	return HEAP_START + n * 4096ull;
}

char *made_descriptor(uint32_t n)
{
	return (char *)(uintptr_t)(DESCRIPTORS + (uint64_t)n * STRIDE);
}

void put_map(uint32_t n, uint32_t entry)
{
	((uint16_t *)(uintptr_t)MAP_START)[16 + n] = (uint16_t)entry;
}

void put_page(uint32_t n, uint32_t flags, uint32_t count, uint64_t holes)
{
	memcpy(made_descriptor(n), &flags, 4);
	memcpy(made_descriptor(n) + 4, &count, 4);
	memcpy(made_descriptor(n) + 8, &holes, 8);
}

/* In what the state, which lies at a multiple of 16, leaves of the 24 bytes from 16 on. */
void put_owner(uint32_t n, uint32_t owner)
{
	memcpy(made_descriptor(n) + (n % 2 ? 16 : 32), &owner, 4);
}

void put_state(uint32_t n, uint64_t first, uint64_t second)
{
	char *at = made_descriptor(n) + (n % 2 ? 24 : 16);

	memcpy(at, &first, 8);
	memcpy(at + 8, &second, 8);
}

static void put_slab(uint32_t n, int cache, uint32_t node, uint64_t inuse, uint32_t carved)
{
	uint32_t pages = 1u << made_caches[cache].order;

	for (uint32_t i = 0; i < pages; i++)
		put_map(n + i, made_caches[cache].slot);
	put_page(n, SLUB_ABI_PAGE_SLAB | node << 16, carved, 0);
	put_state(n, 0, inuse | SLUB_ABI_STATE_LISTED);
}

static void put_large(uint32_t n, uint32_t pages, uint32_t owner)
{
	put_map(n, SLUB_ABI_MAP_LARGE);
	put_page(n, SLUB_ABI_PAGE_LARGE, pages, 0);
	put_owner(n, owner);
}

static void make_pages(void)
{
	put_slab(1, 0, 0, 64, 64);
	put_slab(2, 0, 0, 10, 64);
	put_slab(3, 0, 1, 20 | SLUB_ABI_STATE_FROZEN, 33);
	put_slab(4, 0, 0, 0, 64);
	put_slab(6, 1, 0, 32, 32);
	put_slab(8, 1, 1, 1 | SLUB_ABI_STATE_FROZEN, 1);
	put_slab(16, 2, 0, 20, 32);
	put_page(16, SLUB_ABI_PAGE_SLAB, 32, 1u << 1 | 1u << 5);
	put_slab(24, 5, 1, 8, 16);
	put_state(24, page_at(24) + 64 + 2 * 512, 8);
	put_slab(26, 6, 0, 3, 8);
	put_slab(28, 7, 0, 5, 8);
	put_slab(32, 8, 0, 3, 4);
	put_slab(36, 9, 0, 4, 8);
	put_large(40, 5, 2);
	put_large(48, 3, 0);
	put_large(16380, 40, 1);
	put_page(64, SLUB_ABI_PAGE_FREE | 4 << 8 | SLUB_ABI_PAGE_DIRTY, 0, 0);
	put_page(80, SLUB_ABI_PAGE_FREE | 4 << 8, 0, 0);
	put_page(96, SLUB_ABI_PAGE_FREE | 5 << 8 | SLUB_ABI_PAGE_DIRTY, 0, 0);
	put_map(130, 31 * 32);
	put_slab(131, 0, 0, 9, 9);
	put_page(131, SLUB_ABI_PAGE_FREE, 0, 0);
	put_slab(132, 0, 0, 70, 99);
}

/* ---- areas ---- */

static char *area(int n)
{
	return (char *)(uintptr_t)(AREAS + (uint64_t)n * AREA_ROOM);
}

static void put_list(int n, uint32_t slot, uint64_t head, int32_t room, uint64_t spare)
{
	memcpy(area(n) + slot, &head, 8);
	memcpy(area(n) + slot + 8, &room, 4);
	memcpy(area(n) + slot + 16, &spare, 8);
}

void put_spare(uint32_t slot, uint64_t head)
{
	memcpy(area(1) + slot + 16, &head, 8);
}

/* Area 0 is the shared one, 3 the dummy. */
static void make_areas(void)
{
	table[0] = AREAS + AREA_ROOM;
	table[1] = AREAS + 3 * AREA_ROOM;
	table[3] = AREAS + 2 * AREA_ROOM;
	put_list(1, 96, page_at(2), 5, page_at(2) + 64);
	put_list(2, 96, page_at(2) + 128, -1, 0);
	put_list(2, 160, page_at(6), 8, 0);
	put_list(1, 0x1400, page_at(16), 77, 0);
	put_list(3, 96, page_at(2), 0, page_at(2));
	put_list(1, 320, page_at(28) + 6 * 128, 2, 0);
	for (int n = 0; n < 4; n++) {
		uint64_t added[2] = { 10u + (unsigned int)n, 2000u * (unsigned int)n };

		for (uint32_t cache = 0; cache < 4; cache++) {
			uint32_t *words = (uint32_t *)(area(n) + 0x1000 + cache * 0x80);

			for (uint32_t i = 0; i < 30; i++)
				words[i] = cache * 1000 + i * 7 + (uint32_t)n * (i + 1) +
					   (i == 2 || i == 10 || i == 11 ? 9000 : 0);
		}
		memcpy(area(n) + DEFERRED_AT, added, sizeof(added));
	}
}

/* ---- all ---- */

static void make_caches(void)
{
	for (int i = 0; i < NR_CACHES; i++) {
		struct made_cache *cache = &made_caches[i];

		cache->name = (uintptr_t)made_names[i];
		for (int n = 0; n < NR_NODES; n++)
			cache->nodes[n] = (uintptr_t)&made_nodes[i][n];
		if (cache->slot >= FAR_ENTRY)
			far_owners[cache->slot - FAR_ENTRY] = (uintptr_t)cache;
		else
			owners[cache->slot / 32] = (uintptr_t)cache;
	}
	aliases[0].next = (uintptr_t)&aliases[1];
	made_caches[0].aliases = (uintptr_t)&aliases[0];
	made_caches[0].ctor = (uintptr_t)made_ctor;
	made_caches[1].ctor = 0x70000000abcd;
	made_caches[2].link = 8;
	made_caches[5].root = (uintptr_t)&made_caches[4];
	made_caches[9].root = (uintptr_t)&made_caches[7];
}

static int map_all(void)
{
	static const struct {
		uint64_t start;
		size_t bytes;
	} parts[] = {
		{ RANGE_START, (NR_PAGES + 16) * 4096ul },
		{ MAP_START, (NR_PAGES + 16) * 2ul },
		{ DESCRIPTORS, NR_PAGES * (size_t)STRIDE },
		{ AREAS, 4 * AREA_ROOM },
	};

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		void *at = (void *)(uintptr_t)parts[i].start;

		if (mmap(at, parts[i].bytes, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1,
			 0) != at)
			return -1;
	}
	/* Two mappings for the kernel. */
	return mprotect((void *)(uintptr_t)page_at(16390), 4096, PROT_NONE);
}

static void publish(void)
{
	struct slub_abi *abi = &slub_abi_state;

	abi->self = (uintptr_t)abi;
	abi->base_table = (uintptr_t)table;
	abi->slot_owners = (uintptr_t)owners;
	abi->far_owners = (uintptr_t)far_owners;
	abi->options = (uintptr_t)made_options;
	abi->nr_options = made_nr_options;
	abi->deferred = (uintptr_t)deferred_freed;
	abi->limit = (uintptr_t)&limit_pages;
	abi->refused_superblocks = (uintptr_t)&refused_superblocks;
	abi->refused_pages = (uintptr_t)refused_pages;
	abi->moved_runs = (uintptr_t)&moved_runs;
	for (int i = 0; i < SLUB_ABI_STATS; i++)
		abi->stat_words[i] = i < 30 && i != SLUB_ABI_STAT_WRONG_SIZE ? (uint8_t)i : 0xff;
	abi->ready = 1;
}

char *made_cache_at(unsigned long n)
{
	return (char *)&made_caches[n % NR_CACHES];
}

char *made_node_at(unsigned long n)
{
	return (char *)&made_nodes[n % NR_CACHES][0];
}

static int usage(void)
{
	fputs("usage: made wait, or made stats FILE; and NAME=VALUE...\n", stderr);
	return 2;
}

int main(int argc, char **argv)
{
	bool is_stats = argc > 2 && !strcmp(argv[1], "stats");

	if (argc < 2 || map_all())
		return usage();
	make_caches();
	make_pages();
	make_areas();
	make_guard();
	make_groups();
	make_watched();
	publish();
	make_stats();
	for (int i = is_stats ? 3 : 2; i < argc; i++) {
		if (made_change(argv[i]))
			return usage();
	}
	if (is_stats)
		return write_stats(argv[2]);
	puts("ready");
	fflush(stdout);
	while (getchar() != EOF)
		;
	return 0;
}
