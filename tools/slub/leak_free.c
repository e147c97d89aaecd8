/* SPDX-License-Identifier: MIT */
/*
 * Free objects: those of a slab's two lists, of the CPUs' lists, and of the barns.  Of a process
 * that runs a list may change while it is followed; it ends where it makes no sense.  What is lost
 * so the check word still tells of malloc's, and the second look of the others.
 */
#include "leak.h"
#include "slots.h"
#include "slub.h"

#include <stdlib.h>
#include <string.h>

#define KEY_TOP 0x86f9u
#define KEY_TOP_SHIFT 48
#define LINK_USED UINT64_MAX
#define BARN_BYTES_MAX 512u

static const struct leak_shape *shape_of(const struct leaks *leaks, uint64_t object)
{
	const struct leak_slab *slab = &leaks->slabs[leak_block_of(leaks, object)->slab];

	return slab->cache < 0 ? NULL : &leaks->shapes[slab->cache];
}

/* All check words are made with one key: the one that most free objects have. */
static void vote(struct leaks *leaks, uint64_t address, const uint64_t words[2])
{
	uint64_t key = words[0] ^ words[1] ^ address;

	if (key >> KEY_TOP_SHIFT != KEY_TOP)
		return;
	if (!leaks->key_votes)
		leaks->key = key;
	if (key == leaks->key)
		leaks->key_votes++;
	else
		leaks->key_votes--;
}

/* What follows the free object at @address; 0: nothing. */
static uint64_t next_of(struct leaks *leaks, const struct leak_shape *shape, uint64_t address)
{
	uint64_t words[2] = { 0, 0 };

	if (shape->link >= 4096) {
		leak_copy(leaks, shape->link + (address >> 12) * 8, words, 8);
		return words[0];
	}
	if (shape->is_malloc && shape->object_size >= sizeof(words)) {
		if (leak_copy(leaks, address, words, sizeof(words)))
			vote(leaks, address, words);
		return words[0];
	}
	leak_copy(leaks, address + shape->link, words, 8);
	return words[0];
}

/* Of a list that begins with @address, wherever its objects lie. */
static void follow(struct leaks *leaks, uint64_t address)
{
	while (address && !leaks->error) {
		uint64_t object = leak_object_in(leaks, address), bytes;
		struct leak_block *block;
		const struct leak_shape *shape;

		if (object == LEAK_NONE || leak_object_at(leaks, object, &bytes) != address)
			return;
		block = leak_block_of(leaks, object);
		shape = shape_of(leaks, object);
		if (!shape || !(block->allocated & leak_bit(object)))
			return;
		block->allocated &= ~leak_bit(object);
		address = next_of(leaks, shape, address);
	}
}

/* A list within a slab, whose memory is a copy. */
static void follow_copy(struct leaks *leaks, const struct leak_slab *slab, uint64_t bytes,
			uint64_t address)
{
	const struct leak_shape *shape = &leaks->shapes[slab->cache];

	while (address - slab->address < bytes) {
		uint64_t offset = address - slab->address - shape->left;
		uint64_t n = offset / shape->size, words[2];
		struct leak_block *block = &leaks->blocks[slab->block + n / LEAK_BLOCK_OBJECTS];

		if (offset % shape->size || n >= shape->nr || !(block->allocated & leak_bit(n)) ||
		    shape->left + offset + shape->link + 8 > bytes)
			return;
		block->allocated &= ~leak_bit(n);
		memcpy(words, leaks->buffer + shape->left + offset, sizeof(words));
		if (shape->is_malloc && shape->object_size >= sizeof(words))
			vote(leaks, address, words);
		memcpy(&address, leaks->buffer + shape->left + offset + shape->link,
		       sizeof(address));
	}
}

/*
 * malloc's objects of a page or more: a word in the table of links says of each whether it is
 * allocated.  Only of a library that keeps it: @found is set where one is.
 */
static void look_at_links(struct leaks *leaks, const struct leak_slab *slab, bool *found)
{
	const struct leak_shape *shape = &leaks->shapes[slab->cache];
	bool clear = *found;

	for (uint64_t n = 0; n < shape->nr; n++) {
		struct leak_block *block = &leaks->blocks[slab->block + n / LEAK_BLOCK_OBJECTS];
		uint64_t address = slab->address + n * shape->size, link = LINK_USED;

		if (!(block->allocated & leak_bit(n)) ||
		    !leak_copy(leaks, shape->link + (address >> 12) * 8, &link, sizeof(link)))
			continue;
		*found |= link == LINK_USED;
		if (clear && link != LINK_USED)
			block->allocated &= ~leak_bit(n);
	}
}

static void look_at_all_links(struct leaks *leaks)
{
	bool found = false;

	for (int round = 0; round < 2; round++) {
		for (size_t i = 0; i < leaks->nr_slabs && !leaks->error; i++) {
			const struct leak_slab *slab = &leaks->slabs[i];
			const struct leak_shape *shape = slab->cache < 0 ? NULL :
							 &leaks->shapes[slab->cache];

			/* One is enough to know. */
			if (shape && shape->is_malloc && shape->link >= 4096 && (round || !found))
				look_at_links(leaks, slab, &found);
		}
		if (!found)
			return;
	}
}

void leak_free_of_slab(struct leaks *leaks, const struct piece *piece,
		       const struct leak_slab *slab)
{
	const struct leak_shape *shape = &leaks->shapes[slab->cache];
	uint64_t bytes = piece->carved * shape->size + shape->left;
	bool has_list = piece->free_first || piece->local_first;

	if (!has_list)
		return;
	if (shape->link < 4096 && !piece->holes && bytes + 16 <= LEAK_BUFFER_BYTES &&
	    leak_copy(leaks, piece->address, leaks->buffer, bytes)) {
		follow_copy(leaks, slab, bytes, piece->free_first);
		follow_copy(leaks, slab, bytes, piece->local_first);
		return;
	}
	follow(leaks, piece->free_first);
	follow(leaks, piece->local_first);
}

/* ---- CPUs ---- */

static void free_of_slot(struct leaks *leaks, const char *slot)
{
	const struct slub_abi *abi = &leaks->snapshot.abi;
	uint64_t head;

	memcpy(&head, slot + abi->slot_head, sizeof(head));
	follow(leaks, head);
	memcpy(&head, slot + abi->slot_spare_head, sizeof(head));
	follow(leaks, head);
}

static void free_of_barn(struct leaks *leaks, uint64_t at)
{
	const struct slub_abi *abi = &leaks->snapshot.abi;
	char barn[BARN_BYTES_MAX];
	size_t bytes = abi->barn_chains + 8u * SLUB_ABI_BARN_CHAINS;
	uint32_t oldest, newest;

	if (bytes > sizeof(barn) || abi->barn_oldest + 4u > bytes ||
	    abi->barn_newest + 4u > bytes ||
	    !leak_copy(leaks, at, barn, bytes))
		return;
	memcpy(&oldest, barn + abi->barn_oldest, sizeof(oldest));
	memcpy(&newest, barn + abi->barn_newest, sizeof(newest));
	for (uint32_t i = oldest; i != newest && newest - i <= SLUB_ABI_BARN_CHAINS; i++) {
		uint64_t chain;

		memcpy(&chain, barn + abi->barn_chains + 8 * (i % SLUB_ABI_BARN_CHAINS),
		       sizeof(chain));
		follow(leaks, chain & ((1ull << SLUB_ABI_BARN_SHIFT) - 1));
	}
}

/* Slots that belong to a cache lie where they are; a slot of none is nothing but zeros. */
static void free_of_area(struct leaks *leaks, uint64_t area, char *copy)
{
	const struct slub_abi *abi = &leaks->snapshot.abi;
	uint64_t near_bytes = (uint64_t)abi->nr_slots * abi->slot_bytes;
	char slot[256];

	if (!leak_copy(leaks, area, copy, abi->area_bytes))
		return;
	for (uint64_t at = abi->slot_bytes; at + abi->slot_bytes <= near_bytes &&
	     at + abi->slot_bytes <= abi->area_bytes; at += abi->slot_bytes)
		free_of_slot(leaks, copy + at);
	for (size_t i = 0; i < leaks->snapshot.nr_caches; i++) {
		const struct cache_view *cache = &leaks->snapshot.caches[i];
		uint64_t list = cache_field(cache, SLUB_ABI_CACHE_LIST_SLOT);
		uint64_t barn = cache_field(cache, SLUB_ABI_CACHE_BARN);

		if (list >= near_bytes && leak_copy(leaks, area + list, slot, abi->slot_bytes))
			free_of_slot(leaks, slot);
		if (barn)
			free_of_barn(leaks, area + barn);
	}
}

void leak_free_of_cpus(struct leaks *leaks)
{
	const struct slub_abi *abi = &leaks->snapshot.abi;
	uint64_t *table = must_have(calloc(abi->nr_areas, sizeof(*table)));
	char *copy = must_have(malloc(abi->area_bytes));

	if (leak_copy(leaks, abi->base_table, table, abi->nr_areas * sizeof(*table))) {
		for (uint32_t i = 0; i < abi->nr_areas && !leaks->error; i++) {
			if (table[i] && table[i] != abi->dummy_area)
				free_of_area(leaks, table[i], copy);
		}
	}
	free_of_area(leaks, abi->shared_area, copy);
	look_at_all_links(leaks);
	free(table);
	free(copy);
}
