/* SPDX-License-Identifier: MIT */
/* How the heap of a process stands at one moment. */
#include "mappings.h"
#include "slub.h"
#include "snapshot.h"
#include "heap.h"
#include "slots.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define STRUCT_BYTES_MAX 8192u
#define NR_AREAS_MAX	 8192u
#define AREA_BYTES_MAX	 65536u
#define SLOT_BYTES_MAX	 256u
#define NR_OPTIONS_MAX	 256u
#define NR_ALIASES_MAX	 (1u << 16)
#define HEAP_BYTES_MAX	 (1ull << 43)

/* ---- what is computed ---- */

uint64_t cache_aliases(const struct cache_view *cache)
{
	uint64_t users = cache_field(cache, SLUB_ABI_CACHE_USERS);

	return users > 1 ? users - 1 : 0;
}

uint64_t cache_slab_bytes(const struct snapshot *snapshot,
			  const struct cache_view *cache)
{
	return (uint64_t)snapshot->abi.page_bytes
	       << cache_field(cache, SLUB_ABI_CACHE_ORDER);
}

uint64_t cache_bytes(const struct snapshot *snapshot,
		     const struct cache_view *cache)
{
	return cache->slabs * cache_slab_bytes(snapshot, cache);
}

uint64_t cache_capacity(const struct cache_view *cache)
{
	return cache->slabs * cache_field(cache, SLUB_ABI_CACHE_OBJECTS) +
	       cache->guarded;
}

uint64_t cache_used(const struct cache_view *cache)
{
	return cache->active > cache->cached ? cache->active - cache->cached
					     : 0;
}

uint64_t cache_partial(const struct cache_view *cache)
{
	uint64_t rest = cache->full + cache->empty;

	return cache->slabs > rest ? cache->slabs - rest : 0;
}

uint64_t cache_node_sum(const struct snapshot *snapshot,
			const struct cache_view *cache,
			enum slub_abi_node_field field)
{
	uint64_t sum = 0;

	for (uint32_t n = 0; n < snapshot->abi.nr_nodes; n++)
		sum += cache->nodes[n][field];
	return sum;
}

void clean_text(char *text, size_t size)
{
	text[size - 1] = '\0';
	for (; *text; text++) {
		if (!isprint((unsigned char)*text))
			*text = '?';
	}
}

void snapshot_finish(struct snapshot *snapshot)
{
	clean_text(snapshot->abi.library_version,
		   sizeof(snapshot->abi.library_version));
	snapshot->slab_bytes = 0;
	for (size_t i = 0; i < snapshot->nr_caches; i++) {
		struct cache_view *cache = &snapshot->caches[i];

		if (cache->cached > cache->active)
			cache->cached = cache->active;
		snapshot->slab_bytes += cache_bytes(snapshot, cache);
	}
	snapshot_index(snapshot);
}

/*
 * From one look to the next a counter moves by less than 2^31, or the cache is another
 * one by now, and its counters began anew.
 */
static uint64_t counter_after(uint64_t before, uint64_t now)
{
	uint32_t more = (uint32_t)now - (uint32_t)before;

	return more >> 31 ? now : before + more;
}

static void stats_continue(struct cache_view *cache,
			   const struct cache_view *old, bool all)
{
	for (int s = 0; s < SLUB_ABI_STATS; s++)
		cache->stats[s] = all ? counter_after(old->stats[s],
						      cache->stats[s]) :
					old->stats[s];
}

void snapshot_continue(struct snapshot *now, const struct snapshot *before)
{
	/* A CPU that was stopped just then: its part of each counter is missing. */
	bool all = now->nr_areas >= before->nr_areas;

	if (now->abi.start_ns != before->abi.start_ns)
		return;
	if (!all)
		now->nr_areas = before->nr_areas;
	for (size_t i = 0; i < now->nr_caches; i++) {
		struct cache_view *cache = &now->caches[i];

		const struct cache_view *old = cache_by_slot(before, cache->slot);

		if (old && old->address == cache->address &&
		    !strcmp(old->name, cache->name))
			stats_continue(cache, old, all);
	}
}

void snapshot_free(struct snapshot *snapshot)
{
	free(snapshot->caches);
	free(snapshot->places);
	free(snapshot->options);
	free(snapshot->groups);
	*snapshot = (struct snapshot){ .pid = 0 };
}

/* ---- is the description one to follow? ---- */

bool fields_are_sane(const struct slub_abi_field *fields, int nr,
		     uint32_t bytes)
{
	for (int i = 0; i < nr; i++) {
		uint16_t n = fields[i].bytes;

		if (n && n != 1 && n != 2 && n != 4 && n != 8)
			return false;
		if ((uint32_t)fields[i].offset + n > bytes)
			return false;
	}
	return true;
}

static bool heap_is_sane(const struct slub_abi *abi)
{
	uint64_t range_end, heap_end;

	return (abi->page_bytes == 4096 || abi->page_bytes == 16384 ||
		abi->page_bytes == 65536) &&
	       !__builtin_add_overflow(abi->range_start, abi->range_bytes,
				       &range_end) &&
	       !__builtin_add_overflow(abi->heap_start, abi->heap_bytes,
				       &heap_end) &&
	       abi->heap_start >= abi->range_start && heap_end <= range_end &&
	       abi->heap_bytes <= HEAP_BYTES_MAX;
}

bool abi_is_sane(const struct slub_abi *abi)
{
	uint32_t stride = abi->descriptor_stride;
	uint32_t align = abi->descriptor_state_align;

	return heap_is_sane(abi) && abi->map_stride == 2 && stride >= 32 &&
	       stride <= 1024 && abi->descriptor_flags + 4u <= stride &&
	       abi->descriptor_count + 4u <= stride &&
	       abi->descriptor_holes + 8u <= stride &&
	       abi->descriptor_state + 16u <= stride &&
	       (align == 8 || align == 16) && abi->slot_bytes >= 16 &&
	       abi->slot_bytes <= SLOT_BYTES_MAX && abi->slot_head + 8u <= abi->slot_bytes &&
	       abi->slot_room + 4u <= abi->slot_bytes &&
	       abi->slot_spare_head + 8u <= abi->slot_bytes &&
	       slots_are_sane(abi) && abi->nr_areas <= NR_AREAS_MAX &&
	       abi->area_bytes <= AREA_BYTES_MAX &&
	       abi->nr_nodes >= 1 && abi->nr_nodes <= NR_NODES_MAX &&
	       abi->cache_bytes <= STRUCT_BYTES_MAX &&
	       abi->cache_nodes + abi->nr_nodes * 8ull <= abi->cache_bytes &&
	       abi->node_bytes <= STRUCT_BYTES_MAX &&
	       abi->nr_options <= NR_OPTIONS_MAX &&
	       fields_are_sane(abi->cache_fields, SLUB_ABI_CACHE_FIELDS,
			       abi->cache_bytes) &&
	       fields_are_sane(abi->node_fields, SLUB_ABI_NODE_FIELDS,
			       abi->node_bytes);
}

/* ---- caches ---- */

uint64_t field_get(const char *from, struct slub_abi_field field)
{
	uint64_t value = 0;

	/* Little-endian, as every machine this runs on. */
	memcpy(&value, from + field.offset, field.bytes);
	return value;
}

static void read_name(const struct process *process, uint64_t address,
		      char *name)
{
	size_t n = CACHE_NAME_SIZE - 1;

	/* It may end just before the end of what is mapped. */
	while (n && process_read(process, address, name, n))
		n--;
	name[n] = '\0';
	clean_text(name, CACHE_NAME_SIZE);
}

void aliases_add(struct cache_view *cache, const char *name)
{
	static const char rest[] = " ...";
	size_t used = strlen(cache->aliases);
	bool fits = used + strlen(name) + sizeof(rest) < ALIASES_SIZE;

	if (used >= 3 && !strcmp(cache->aliases + used - 3, rest + 1))
		return;
	snprintf(cache->aliases + used, ALIASES_SIZE - used, "%s%s",
		 used ? " " : "", fits ? name : rest + 1);
}

/* @room: for all caches together, so that lists that bite their tails have an end. */
static void read_aliases(const struct process *process,
			 struct cache_view *cache, uint32_t *room)
{
	uint64_t at = cache_field(cache, SLUB_ABI_CACHE_ALIASES);
	uint64_t left = cache_aliases(cache);
	struct slub_abi_alias alias;

	/* As many as it has users. */
	for (; at && left && *room; left--, --*room) {
		if (process_read(process, at, &alias, sizeof(alias)))
			return;
		clean_text(alias.name, sizeof(alias.name));
		aliases_add(cache, alias.name);
		at = alias.next;
	}
}

static bool cache_is_sane(const struct cache_view *cache)
{
	return cache_field(cache, SLUB_ABI_CACHE_ORDER) <= 16 &&
	       cache_field(cache, SLUB_ABI_CACHE_OBJECTS) >= 1 &&
	       cache_field(cache, SLUB_ABI_CACHE_OBJECTS) < 1u << 24 &&
	       cache_field(cache, SLUB_ABI_CACHE_SIZE) >= 1 &&
	       cache_field(cache, SLUB_ABI_CACHE_SIZE) < 1ull << 40 &&
	       cache_field(cache, SLUB_ABI_CACHE_OBJECT_SIZE) < 1ull << 40 &&
	       cache_field(cache, SLUB_ABI_CACHE_CAPACITY) < 1u << 24 &&
	       cache_field(cache, SLUB_ABI_CACHE_CAPACITY_NOW) < 1u << 24;
}

static bool read_nodes(const struct process *process,
		       const struct slub_abi *abi, const char *bytes,
		       struct cache_view *cache)
{
	char node[STRUCT_BYTES_MAX];

	for (uint32_t n = 0; n < abi->nr_nodes; n++) {
		uint64_t address;

		memcpy(&address, bytes + abi->cache_nodes + 8 * n,
		       sizeof(address));
		if (process_read(process, address, node, abi->node_bytes))
			return false;
		for (int i = 0; i < SLUB_ABI_NODE_FIELDS; i++)
			cache->nodes[n][i] = field_get(node,
						       abi->node_fields[i]);
	}
	return true;
}

/* False: it has just gone, or makes no sense. */
static bool read_cache(const struct process *process,
		       const struct slub_abi *abi, uint64_t address,
		       uint32_t slot, uint32_t *room, struct cache_view *cache)
{
	char bytes[STRUCT_BYTES_MAX];

	*cache = (struct cache_view){ .slot = slot, .address = address };
	if (process_read(process, address, bytes, abi->cache_bytes))
		return false;
	for (int i = 0; i < SLUB_ABI_CACHE_FIELDS; i++)
		cache->fields[i] = field_get(bytes, abi->cache_fields[i]);
	if (cache_field(cache, SLUB_ABI_CACHE_SLOT) != slot ||
	    !cache_is_sane(cache))
		return false;
	read_name(process, cache_field(cache, SLUB_ABI_CACHE_NAME),
		  cache->name);
	read_aliases(process, cache, room);
	return read_nodes(process, abi, bytes, cache);
}

static int read_caches(struct snapshot *snapshot,
		       const struct process *process)
{
	const struct slub_abi *abi = &snapshot->abi;
	uint32_t room = NR_ALIASES_MAX;
	size_t nr = 0;
	int error;
	uint64_t *owners = slots_read_owners(process, abi, &error);

	if (!owners)
		return error;
	for (uint32_t i = 0; i < slots_nr(abi); i++)
		nr += owners[i] != 0;
	snapshot->caches = must_have(calloc(nr, sizeof(*snapshot->caches)));
	for (uint32_t i = 0; i < slots_nr(abi); i++) {
		if (owners[i] && read_cache(process, abi, owners[i],
					    slot_entry(abi, i), &room,
					    &snapshot->caches
						    [snapshot->nr_caches]))
			snapshot->nr_caches++;
	}
	free(owners);
	return 0;
}

/* ---- objects in lists ---- */

/* Objects in a chain that has left a main list, about. */
static uint64_t chain_length(const struct cache_view *cache)
{
	uint64_t capacity = cache_field(cache, SLUB_ABI_CACHE_CAPACITY_NOW);
	uint64_t kept = capacity / SLUB_ABI_KEPT_SHARE;

	return capacity - (kept < SLUB_ABI_KEPT_MAX ? kept : SLUB_ABI_KEPT_MAX);
}

static void count_slot(const struct slub_abi *abi, const char *slot,
		       struct cache_view *cache)
{
	int64_t capacity = (int64_t)cache_field(cache,
						SLUB_ABI_CACHE_CAPACITY_NOW);
	bool is_short, spare_is_counted = abi->slot_room < abi->slot_spare_head;
	uint64_t head, spare;
	int32_t room, limit, nr;

	memcpy(&head, slot + abi->slot_head, sizeof(head));
	memcpy(&room, slot + abi->slot_room, sizeof(room));
	memcpy(&spare, slot + abi->slot_spare_head, sizeof(spare));
	memcpy(&nr, slot + abi->slot_spare_head + SLUB_ABI_SPARE_NR, sizeof(nr));
	memcpy(&limit, slot + abi->slot_spare_head + SLUB_ABI_SPARE_LIMIT, sizeof(limit));
	if (limit > 0)
		capacity = limit;
	is_short = cache_field(cache, SLUB_ABI_CACHE_LOCAL) && room <= SLUB_ABI_ROOM_SHORT;
	if (head && is_short)
		cache->cached += (uint64_t)(SLUB_ABI_ROOM_SHORT - (int64_t)room);
	else if (head)
		cache->cached += room >= 0 && room < capacity ?
				 (uint64_t)(capacity - room) : 1;
	if (spare && is_short)
		cache->cached += (uint64_t)(SLUB_ABI_LOCAL_FOREIGN - nr);
	else if (spare)
		cache->cached += spare_is_counted && nr > 0 ? (uint64_t)nr : chain_length(cache);
}

/* @area is a copy of the first area_bytes of what lies at @address. */
static void count_area(struct snapshot *snapshot, const struct process *process,
		       uint64_t address, const char *area)
{
	const struct slub_abi *abi = &snapshot->abi;
	char far[SLOT_BYTES_MAX];

	for (size_t i = 0; i < snapshot->nr_caches; i++) {
		struct cache_view *cache = &snapshot->caches[i];
		uint64_t at = cache_field(cache, SLUB_ABI_CACHE_LIST_SLOT);

		if (at && at <= abi->area_bytes &&
		    abi->slot_bytes <= abi->area_bytes - at)
			count_slot(abi, area + at, cache);
		else if (at && !process_read(process, address + at, far, abi->slot_bytes))
			count_slot(abi, far, cache);
	}
}

/* How many words a cache's counters are: what lies behind them may be nothing. */
static size_t nr_stat_words(const struct slub_abi *abi)
{
	size_t nr = 0;

	for (int s = 0; s < SLUB_ABI_STATS; s++) {
		size_t word = abi->stat_words[s];

		if (word < SLUB_ABI_STATS && word >= nr)
			nr = word + 1;
	}
	return nr;
}

/* Adds the counters that the caches have in one area: modulo 2^32, as each of them is. */
static void count_stats(struct snapshot *snapshot,
			const struct process *process, uint64_t area)
{
	uint32_t words[SLUB_ABI_STATS];
	size_t nr = nr_stat_words(&snapshot->abi);

	for (size_t i = 0; i < snapshot->nr_caches; i++) {
		struct cache_view *cache = &snapshot->caches[i];
		uint64_t at = cache_field(cache, SLUB_ABI_CACHE_STATS);

		if (!at || process_read(process, area + at, words,
					nr * sizeof(words[0])))
			continue;
		for (int s = 0; s < SLUB_ABI_STATS; s++) {
			uint8_t word = snapshot->abi.stat_words[s];

			if (word < nr)
				cache->stats[s] = (uint32_t)
					(cache->stats[s] + words[word]);
		}
	}
}

/* Adds what one area has of what was freed deferred. */
static void count_deferred(struct snapshot *snapshot,
			   const struct process *process, uint64_t area)
{
	uint64_t added[2];

	if (!snapshot->abi.deferred ||
	    process_read(process, area + snapshot->abi.deferred_added, added,
			 sizeof(added)))
		return;
	snapshot->deferred_objects += added[0];
	snapshot->deferred_bytes += added[1];
}

static uint64_t difference(uint64_t more, uint64_t less)
{
	return more > less ? more - less : 0;
}

/* Of what was added, and what has been freed of it.  Of a stopped CPU nothing is known. */
static void end_deferred(struct snapshot *snapshot, const struct process *process)
{
	uint64_t freed[2] = { UINT64_MAX, UINT64_MAX };

	if (snapshot->abi.deferred)
		process_read(process, snapshot->abi.deferred, freed, sizeof(freed));
	snapshot->deferred_objects = difference(snapshot->deferred_objects, freed[0]);
	snapshot->deferred_bytes = difference(snapshot->deferred_bytes, freed[1]);
}

static void count_areas(struct snapshot *snapshot,
			const struct process *process)
{
	const struct slub_abi *abi = &snapshot->abi;
	static uint64_t table[NR_AREAS_MAX];
	static char area[AREA_BYTES_MAX];

	count_stats(snapshot, process, abi->shared_area);
	count_deferred(snapshot, process, abi->shared_area);
	if (process_read(process, abi->base_table, table,
			 abi->nr_areas * sizeof(table[0])))
		return;
	for (uint32_t i = 0; i < abi->nr_areas; i++) {
		if (!table[i] || table[i] == abi->dummy_area ||
		    process_read(process, table[i], area, abi->area_bytes))
			continue;
		count_area(snapshot, process, table[i], area);
		count_stats(snapshot, process, table[i]);
		count_deferred(snapshot, process, table[i]);
		snapshot->nr_areas++;
	}
	end_deferred(snapshot, process);
}

static void count_barns(struct snapshot *snapshot)
{
	for (size_t i = 0; i < snapshot->nr_caches; i++) {
		struct cache_view *cache = &snapshot->caches[i];

		cache->cached += cache_field(cache, SLUB_ABI_CACHE_IN_BARNS);
	}
}

/* ---- slabs ---- */

static void count_slab(struct snapshot *snapshot, const struct piece *piece)
{
	struct cache_view *cache = &snapshot->caches[piece->cache];

	if (piece->inuse)
		snapshot->active_bytes += piece_carved_bytes(piece, snapshot);
	cache->slabs++;
	cache->active += piece->inuse;
	cache->cached += piece->local;
	cache->carved += piece->carved;
	cache->carving += piece->frozen;
	cache->empty += !piece->inuse;
	cache->full += piece->inuse ==
		       cache_field(cache, SLUB_ABI_CACHE_OBJECTS);
}

static void count_piece(const struct piece *piece, void *arg)
{
	struct snapshot *snapshot = arg;
	uint64_t bytes = piece->pages * snapshot->abi.page_bytes;

	switch (piece->kind) {
	case PIECE_SLAB:
		count_slab(snapshot, piece);
		break;
	case PIECE_LARGE:
		snapshot->large_blocks++;
		snapshot->large_bytes += bytes;
		break;
	case PIECE_IDLE:
		snapshot->idle_bytes += bytes;
		break;
	case PIECE_FREE:
	case PIECE_UNREADABLE:
		break;
	}
}

static void read_options(struct snapshot *snapshot,
			 const struct process *process)
{
	const struct slub_abi *abi = &snapshot->abi;
	size_t size = sizeof(*snapshot->options);

	snapshot->options = must_have(calloc(abi->nr_options, size));
	for (uint32_t i = 0; i < abi->nr_options; i++) {
		struct slub_abi_option *option = &snapshot->options[i];

		if (process_read(process, abi->options +
				 (uint64_t)i * abi->option_bytes, option,
				 abi->option_bytes < size ?
				 abi->option_bytes : size))
			break;
		clean_text(option->name, sizeof(option->name));
		clean_text(option->text, sizeof(option->text));
		snapshot->nr_options++;
	}
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int snapshot_of_process(struct snapshot *snapshot,
			const struct process *process,
			const struct slub_abi *abi)
{
	int error;

	*snapshot = (struct snapshot){ .abi = *abi };
	if (!abi_is_sane(abi))
		return -EBADMSG;
	snapshot->process = process;
	snapshot->pid = (uint32_t)process->pid;
	memcpy(snapshot->name, process->name, sizeof(snapshot->name));
	clean_text(snapshot->name, sizeof(snapshot->name));
	if (!process->core)
		snapshot->time_ns = snapshot->census_ns = now_ns();
	snapshot->committed_bytes = abi->heap_bytes;
	error = read_caches(snapshot, process);
	if (!error) {
		count_areas(snapshot, process);
		count_barns(snapshot);
		heap_walk(process, snapshot, count_piece, snapshot);
		mappings_count(snapshot, process);
		read_options(snapshot, process);
		snapshot_finish(snapshot);
	} else {
		snapshot_free(snapshot);
	}
	return error;
}
