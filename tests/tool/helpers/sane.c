/* SPDX-License-Identifier: MIT */
/* snapshot.c: which descriptions of a heap are followed, on both sides of each bound, what is
 * computed, what goes on from one look to the next, names, and holes. */
#include <string.h>

#include "expect.h"
#include "heap.h"
#include "least.h"
#include "slots.h"

/* ---- which descriptions make sense ---- */

/* What a description says is changed alone, and has to lie within these. */
#define WITHIN(member, low, high) do {						\
	struct slub_abi abi_ = least();						\
										\
	for (int side_ = 0; side_ < 4; side_++) {				\
		unsigned long long bound_ = side_ < 2 ? (low) : (high);		\
										\
		abi_.member = (__typeof__(abi_.member))				\
			      (bound_ - (side_ == 0) + (side_ == 3));		\
		if (side_ == 0 && bound_ == 0)					\
			continue;						\
		EXPECT(abi_is_sane(&abi_), side_ == 1 || side_ == 2);		\
	}									\
} while (0)

/* It is one of these, and nothing beside them. */
#define ONE_OF(member, ...) do {						\
	const unsigned long long good_[] = { __VA_ARGS__ };			\
	struct slub_abi abi_ = least();						\
										\
	for (unsigned int i_ = 0; i_ < 2 * sizeof(good_) / sizeof(*good_); i_++) {	\
		abi_.member = (__typeof__(abi_.member))(good_[i_ / 2] + i_ % 2);	\
		EXPECT(abi_is_sane(&abi_), i_ % 2 == 0);			\
	}									\
} while (0)

static void test_numbers_within_bounds(void)
{
	struct slub_abi abi = least();

	EXPECT(abi_is_sane(&abi), true);
	ONE_OF(page_bytes, 4096, 16384, 65536);
	ONE_OF(map_stride, 2);
	ONE_OF(descriptor_state_align, 8, 16);
	WITHIN(descriptor_flags, 0, 28);
	WITHIN(descriptor_count, 0, 28);
	WITHIN(descriptor_holes, 0, 24);
	WITHIN(descriptor_state, 0, 16);
	WITHIN(descriptor_stride, 32, 1024);
	WITHIN(slot_head, 0, 8);
	WITHIN(slot_room, 0, 12);
	WITHIN(slot_spare_head, 0, 8);
	WITHIN(slot_bytes, 16, 256);
	WITHIN(nr_areas, 0, 8192);
	WITHIN(area_bytes, 0, 65536);
	WITHIN(cache_nodes, 0, 8);
	WITHIN(cache_bytes, 16, 8192);
	WITHIN(node_bytes, 8, 8192);
	WITHIN(nr_options, 0, 256);
	WITHIN(nr_slots, 0, SLOT_NUMBERS_MAX);
	WITHIN(far_entry, 0, SLOT_NUMBERS_MAX);
	WITHIN(nr_far_slots, 0, SLOT_NUMBERS_MAX);
	abi.nr_far_slots = 10;
	abi.far_entry = SLOT_NUMBERS_MAX - 10;
	EXPECT(abi_is_sane(&abi), true);
	abi.far_entry++;
	EXPECT(abi_is_sane(&abi), false);
}

/* What is smaller than its least, though all that lies in it would find room. */
static void test_least_sizes(void)
{
	struct slub_abi abi = least();

	abi.descriptor_flags = abi.descriptor_count = abi.descriptor_holes = 0;
	abi.descriptor_state = 0;
	abi.descriptor_stride = 31;
	EXPECT(abi_is_sane(&abi), false);
	abi.descriptor_stride = 32;
	abi.slot_head = abi.slot_room = abi.slot_spare_head = 0;
	abi.slot_bytes = 15;
	EXPECT(abi_is_sane(&abi), false);
	abi.slot_bytes = 16;
	EXPECT(abi_is_sane(&abi), true);
}

static void test_nodes(void)
{
	struct slub_abi abi = least();

	abi.nr_nodes = 0;
	EXPECT(abi_is_sane(&abi), false);
	abi.nr_nodes = 2;
	EXPECT(abi_is_sane(&abi), false);
	abi.cache_bytes = 24;
	EXPECT(abi_is_sane(&abi), true);
	abi.nr_nodes = NR_NODES_MAX;
	abi.cache_bytes = 8 + 8 * NR_NODES_MAX;
	EXPECT(abi_is_sane(&abi), true);
	abi.nr_nodes++;
	abi.cache_bytes += 8;
	EXPECT(abi_is_sane(&abi), false);
}

static void test_heap_in_its_range(void)
{
	struct slub_abi abi = least();

	abi.heap_bytes = RANGE;
	EXPECT(abi_is_sane(&abi), true);
	abi.heap_bytes++;
	EXPECT(abi_is_sane(&abi), false);
	abi.heap_bytes = 1;
	abi.heap_start = RANGE - 1;
	EXPECT(abi_is_sane(&abi), false);
	/* The most that a heap has. */
	abi = least();
	abi.range_bytes = abi.heap_bytes = 1ull << 43;
	EXPECT(abi_is_sane(&abi), true);
	abi.range_bytes++;
	abi.heap_bytes++;
	EXPECT(abi_is_sane(&abi), false);
	/* Neither has its end behind the last address. */
	abi = least();
	abi.range_bytes = UINT64_MAX - RANGE;
	EXPECT(abi_is_sane(&abi), true);
	abi.range_bytes++;
	EXPECT(abi_is_sane(&abi), false);
	abi.range_bytes--;
	abi.heap_start = UINT64_MAX - 4096;
	abi.heap_bytes = 4096;
	EXPECT(abi_is_sane(&abi), true);
	abi.heap_bytes++;
	EXPECT(abi_is_sane(&abi), false);
}

static void test_fields(void)
{
	struct slub_abi_field fields[2] = { { 0, 8 }, { 0, 8 } };
	struct slub_abi abi;

	for (int bytes = 0; bytes < 20; bytes++) {
		fields[1].bytes = (uint16_t)bytes;
		EXPECT(fields_are_sane(fields, 2, 64),
		       bytes == 0 || bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8);
	}
	EXPECT(fields_are_sane(fields, 1, 64), true);
	fields[0].bytes = 3;
	EXPECT(fields_are_sane(fields, 1, 64), false);
	fields[0].bytes = 8;
	fields[1] = (struct slub_abi_field){ 57, 8 };
	EXPECT(fields_are_sane(fields, 2, 65), true);
	EXPECT(fields_are_sane(fields, 2, 64), false);
	fields[1] = (struct slub_abi_field){ UINT16_MAX, 8 };
	EXPECT(fields_are_sane(fields, 2, UINT16_MAX + 8), true);
	EXPECT(fields_are_sane(fields, 2, UINT16_MAX + 7), false);
	/* The last of each kind counts. */
	abi = least();
	abi.cache_fields[SLUB_ABI_CACHE_FIELDS - 1].offset++;
	EXPECT(abi_is_sane(&abi), false);
	abi = least();
	abi.node_fields[SLUB_ABI_NODE_FIELDS - 1].offset++;
	EXPECT(abi_is_sane(&abi), false);
}

static void test_numbers_of_each_size(void)
{
	static const unsigned char from[] = {
		0xff, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88,
	};
	const char *bytes = (const char *)from;

	EXPECT(field_get(bytes, (struct slub_abi_field){ 1, 0 }), 0);
	EXPECT(field_get(bytes, (struct slub_abi_field){ 1, 1 }), 0x81);
	EXPECT(field_get(bytes, (struct slub_abi_field){ 1, 2 }), 0x8281);
	EXPECT(field_get(bytes, (struct slub_abi_field){ 1, 4 }), 0x84838281);
	EXPECT(field_get(bytes, (struct slub_abi_field){ 1, 8 }), (long long)0x8887868584838281);
}

/* ---- what is computed ---- */

static void test_computed(void)
{
	struct snapshot snapshot = { .abi = { .page_bytes = 16384, .nr_nodes = 3 } };
	struct cache_view cache = { .slabs = 5, .guarded = 2, .active = 9, .cached = 4 };

	for (int users = 0; users < 4; users++) {
		cache.fields[SLUB_ABI_CACHE_USERS] = (uint64_t)users;
		EXPECT(cache_aliases(&cache), users < 2 ? 0 : users - 1);
	}
	cache.fields[SLUB_ABI_CACHE_ORDER] = 3;
	cache.fields[SLUB_ABI_CACHE_OBJECTS] = 10;
	EXPECT(cache_slab_bytes(&snapshot, &cache), 16384 * 8);
	EXPECT(cache_bytes(&snapshot, &cache), 5 * 16384 * 8);
	EXPECT(cache_capacity(&cache), 52);
	EXPECT(cache_used(&cache), 5);
	cache.cached = 9;
	EXPECT(cache_used(&cache), 0);
	cache.cached = 10;
	EXPECT(cache_used(&cache), 0);
	EXPECT(cache_partial(&cache), 5);
	cache.full = 2;
	cache.empty = 1;
	EXPECT(cache_partial(&cache), 2);
	cache.full = 4;
	EXPECT(cache_partial(&cache), 0);
	cache.full = 5;
	EXPECT(cache_partial(&cache), 0);
	for (int n = 0; n < 4; n++)
		cache.nodes[n][SLUB_ABI_NODE_NR_SLABS] = 1u << n;
	EXPECT(cache_node_sum(&snapshot, &cache, SLUB_ABI_NODE_NR_SLABS), 7);
}

static void test_finish(void)
{
	struct cache_view caches[2] = { { .slot = 16, .slabs = 2, .active = 3, .cached = 4 },
					{ .slot = 32, .slabs = 1, .active = 3, .cached = 2 } };
	struct snapshot snapshot = { .abi = { .page_bytes = 4096, .nr_slots = 4, .slot_bytes = 16 },
				     .caches = caches, .nr_caches = 2, .slab_bytes = 77 };

	memset(snapshot.abi.library_version, '\a', sizeof(snapshot.abi.library_version));
	snapshot_finish(&snapshot);
	EXPECT(strcmp(snapshot.abi.library_version, "???????????????"), 0);
	EXPECT(snapshot.slab_bytes, 3 * 4096);
	EXPECT(caches[0].cached, 3);
	EXPECT(caches[1].cached, 2);
	EXPECT(cache_by_slot(&snapshot, 16) == &caches[0], true);
	EXPECT(cache_by_slot(&snapshot, 32) == &caches[1], true);
	EXPECT(cache_by_slot(&snapshot, 48) == NULL, true);
	EXPECT(cache_by_slot(NULL, 16) == NULL, true);
	/* In another order they are found all the same. */
	caches[0].slot = 32;
	caches[1].slot = 16;
	EXPECT(cache_by_slot(&snapshot, 16) == &caches[1], true);
	EXPECT(cache_by_slot(&snapshot, 32) == &caches[0], true);
	snapshot.caches = NULL;
	snapshot.nr_caches = 0;
	snapshot_free(&snapshot);
	EXPECT(snapshot.places == NULL, true);
}

static void test_slots(void)
{
	struct slub_abi abi = { .slot_bytes = 16, .nr_slots = 10, .far_entry = 1000,
				.nr_far_slots = 5 };

	EXPECT(slots_nr(&abi), 15);
	EXPECT(slot_number(&abi, 15), 0);
	EXPECT(slot_number(&abi, 144), 9);
	EXPECT(slot_number(&abi, 999), 62);
	EXPECT(slot_number(&abi, 1000), 10);
	EXPECT(slot_number(&abi, 1004), 14);
	EXPECT(slot_entry(&abi, 9), 144);
	EXPECT(slot_entry(&abi, 10), 1000);
	EXPECT(slot_entry(&abi, 14), 1004);
	abi.nr_far_slots = 0;
	EXPECT(slot_number(&abi, 1600), 100);
}

/* ---- from one look to the next ---- */

#define AT SLUB_ABI_STAT_ALLOC_REFILL

/* What the counter says in the second look, after @before in the first. */
static uint64_t counted(uint64_t before, uint64_t now, int changed)
{
	struct cache_view old = { .name = "a", .slot = 16, .address = 7 }, new = old;
	struct snapshot first = { .abi = { .slot_bytes = 16, .nr_slots = 4, .start_ns = 5 },
				  .caches = &old, .nr_caches = 1, .nr_areas = 3 };
	struct snapshot second = first;

	second.caches = &new;
	for (int i = 0; i < SLUB_ABI_STATS; i++) {
		old.stats[i] = before;
		new.stats[i] = now;
	}
	new.slot += changed == 1 ? 16 : 0;
	new.address += changed == 2;
	new.name[0] += changed == 3;
	second.abi.start_ns += changed == 4;
	second.nr_areas += changed == 5;
	second.nr_areas -= changed == 6;
	snapshot_continue(&second, &first);
	EXPECT(second.nr_areas, changed == 5 ? 4 : 3);
	EXPECT(new.stats[0], new.stats[AT]);
	EXPECT(new.stats[SLUB_ABI_STATS - 1], new.stats[AT]);
	return new.stats[AT];
}

static void test_goes_on(void)
{
	EXPECT(counted(100, 107, 0), 107);
	/* Counters have 32 bits; what is told of them has more. */
	EXPECT(counted((5ull << 32) + 100, 107, 0), (5ll << 32) + 107);
	EXPECT(counted(UINT32_MAX, 6, 0), UINT32_MAX + 7ll);
	EXPECT(counted(0, INT32_MAX, 0), INT32_MAX);
	EXPECT(counted((5ull << 32), INT32_MAX, 0), (5ll << 32) + INT32_MAX);
	EXPECT(counted((5ull << 32), 1ull << 31, 0), 1ll << 31);
	EXPECT(counted((5ull << 32) + 100, 99, 0), 99);
	/* Of another cache, or of another process, nothing goes on. */
	for (int changed = 1; changed <= 4; changed++)
		EXPECT(counted((5ull << 32) + 100, 107, changed), 107);
	EXPECT(counted((5ull << 32) + 100, 107, 5), (5ll << 32) + 107);
	/* The counters of a CPU that was stopped just then are missing. */
	EXPECT(counted((5ull << 32) + 100, 50, 6), (5ll << 32) + 100);
}

/* ---- names ---- */

static void test_names(void)
{
	char text[6] = "a\033b c", whole[4] = { 'a', 'b', 'c', 'd' };

	clean_text(text, sizeof(text));
	EXPECT(strcmp(text, "a?b c"), 0);
	clean_text(whole, sizeof(whole));
	EXPECT(strcmp(whole, "abc"), 0);
}

/* As many names as there is room for, then "..." once. */
static void test_aliases(void)
{
	struct cache_view cache = { .name = "" };
	char longest[ALIASES_SIZE];

	aliases_add(&cache, "one");
	aliases_add(&cache, "two");
	EXPECT(strcmp(cache.aliases, "one two"), 0);
	for (size_t length = ALIASES_SIZE - 20; length < ALIASES_SIZE + 5; length++) {
		/* "one two" and " ..." behind it, with the end. */
		bool fits = 7 + length + sizeof(" ...") < ALIASES_SIZE;

		strcpy(cache.aliases, "one two");
		memset(longest, 'x', sizeof(longest));
		longest[length < sizeof(longest) ? length : sizeof(longest) - 1] = '\0';
		aliases_add(&cache, longest);
		EXPECT(strlen(cache.aliases), fits ? 8 + length : strlen("one two ..."));
		EXPECT(strcmp(cache.aliases + strlen(cache.aliases) - 3, "...") == 0, !fits);
		aliases_add(&cache, "more than four bytes");
		EXPECT(strcmp(cache.aliases + strlen(cache.aliases) - 4, " ..."), 0);
		EXPECT(strlen(cache.aliases), fits ? 12 + length : strlen("one two ..."));
	}
	cache.aliases[0] = '\0';
	aliases_add(&cache, "..");
	aliases_add(&cache, "b");
	EXPECT(strcmp(cache.aliases, ".. b"), 0);
}

/* ---- holes ---- */

static void test_holes(void)
{
	struct piece piece = { .holes = 1u << 1 | 1u << 3 };
	/* Of 1000 bytes: which of the first 17 touch pages 1 and 3. */
	static const char first[] = "00001111100011111";

	for (uint64_t n = 0; n < sizeof(first) - 1; n++)
		EXPECT(piece_is_hole(&piece, 4096, n, 1000), first[n] == '1');
	/* The last byte counts, and none behind it. */
	piece.holes = 1u << 1;
	EXPECT(piece_is_hole(&piece, 4096, 1, 2048), false);
	EXPECT(piece_is_hole(&piece, 4096, 2, 2048), true);
	EXPECT(piece_is_hole(&piece, 4096, 0, 4096), false);
	EXPECT(piece_is_hole(&piece, 4096, 0, 4097), true);
	/* There are bits for 64 pages. */
	piece.holes = 1ull << 63 | 1;
	EXPECT(piece_is_hole(&piece, 4096, 63, 4096), true);
	EXPECT(piece_is_hole(&piece, 4096, 64, 4096), false);
	EXPECT(piece_is_hole(&piece, 4096, 128, 4096), false);
	EXPECT(piece_is_hole(&piece, 4096, 31, 8192), true);
	EXPECT(piece_is_hole(&piece, 4096, 32, 8192), false);
}

int main(void)
{
	test_numbers_within_bounds();
	test_least_sizes();
	test_nodes();
	test_heap_in_its_range();
	test_fields();
	test_numbers_of_each_size();
	test_computed();
	test_finish();
	test_slots();
	test_goes_on();
	test_names();
	test_aliases();
	test_holes();
	return failures != 0;
}
