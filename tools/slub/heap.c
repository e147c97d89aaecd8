/* SPDX-License-Identifier: MIT */
/* A walk over the heap of a process. */
#include "core.h"
#include "heap.h"
#include "progress.h"
#include "slots.h"
#include "slub.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW_PAGES 16384u	/* read at once; a multiple of 2 MiB */

struct walk {
	const struct process *process;
	const struct snapshot *snapshot;
	const struct slub_abi *abi;
	piece_visitor *visit;
	void *arg;
	int32_t owners[SLOT_NUMBERS_MAX]; /* slot number: index of the cache, or -1 */
	/* the window */
	uint64_t first;			/* number of its first page */
	uint64_t nr;
	uint16_t *map;
	char *descriptors;
};

static void index_owners(struct walk *walk)
{
	memset(walk->owners, 0xff, sizeof(walk->owners));
	for (size_t i = 0; i < walk->snapshot->nr_caches; i++) {
		uint32_t number = slot_number(walk->abi, walk->snapshot->caches[i].slot);

		if (number < SLOT_NUMBERS_MAX)
			walk->owners[number] = (int32_t)i;
	}
}

static const char *descriptor(const struct walk *walk, uint64_t i)
{
	return walk->descriptors + i * walk->abi->descriptor_stride;
}

static uint32_t number32(const char *at, uint16_t offset)
{
	uint32_t number;

	memcpy(&number, at + offset, sizeof(number));
	return number;
}

/* A word of the state, which is aligned where the process had it: 0, the freelist, or 1. */
static uint64_t slab_state(const struct walk *walk, uint64_t i, int word)
{
	const struct slub_abi *abi = walk->abi;
	uint64_t there = abi->descriptors +
			 (walk->first + i) * abi->descriptor_stride;
	uint64_t at = there + abi->descriptor_state, state;

	at = (at + abi->descriptor_state_align - 1) &
	     -(uint64_t)abi->descriptor_state_align;
	if (at - there + 16 > abi->descriptor_stride)
		return 0;
	memcpy(&state, descriptor(walk, i) + (at - there) + 8 * word, sizeof(state));
	return state;
}

/*
 * Pages without memory between others; in the link of the descriptor, which
 * objects with the link in themselves do not need.  See src/features/idle/holes.c.
 */
static uint64_t slab_holes(const struct walk *walk,
			   const struct cache_view *cache, uint64_t i)
{
	uint64_t holes;

	if (!snapshot_has(walk->snapshot, SLUB_ABI_CACHE_LINK) ||
	    cache_field(cache, SLUB_ABI_CACHE_LINK) >= 4096 ||
	    cache_field(cache, SLUB_ABI_CACHE_WATCH))
		return 0;
	memcpy(&holes, descriptor(walk, i) + walk->abi->descriptor_holes,
	       sizeof(holes));
	return holes;
}

static uint64_t page_start(const struct walk *walk, uint64_t i)
{
	return walk->abi->heap_start + (walk->first + i) * walk->abi->page_bytes;
}

/* Objects in the local list of the slab at page @i; *@first is the first one. */
static uint64_t slab_local(const struct walk *walk,
			   const struct cache_view *cache, uint64_t i, uint64_t *first)
{
	uint64_t word, start;

	if (!snapshot_has(walk->snapshot, SLUB_ABI_CACHE_LOCAL) ||
	    !cache_field(cache, SLUB_ABI_CACHE_LOCAL))
		return 0;
	memcpy(&word, descriptor(walk, i + 1) + walk->abi->descriptor_state,
	       sizeof(word));
	start = number32(descriptor(walk, i + 1), walk->abi->descriptor_count);
	if (start <= (word & SLUB_ABI_LOCAL_ROOM))
		return 0;
	*first = page_start(walk, i) + ((word >> SLUB_ABI_LOCAL_HEAD_SHIFT & SLUB_ABI_LOCAL_HEAD)
					<< SLUB_ABI_LOCAL_UNIT_SHIFT);
	return start - (word & SLUB_ABI_LOCAL_ROOM);
}

bool piece_is_hole(const struct piece *piece, uint64_t page_bytes, uint64_t n,
		   uint64_t size)
{
	uint64_t first = n * size / page_bytes;
	uint64_t last = ((n + 1) * size - 1) / page_bytes;

	return last < 64 && (piece->holes >> first | piece->holes >> last) & 1;
}

uint64_t piece_carved_bytes(const struct piece *piece, const struct snapshot *snapshot)
{
	const struct cache_view *cache = &snapshot->caches[piece->cache];
	uint64_t page = snapshot->abi.page_bytes;
	uint64_t bytes = piece->carved * cache_field(cache, SLUB_ABI_CACHE_SIZE);
	uint64_t pages = (bytes + page - 1) / page;

	return (pages < piece->pages ? pages : piece->pages) * page;
}

static void visit(struct walk *walk, struct piece *piece, uint64_t i)
{
	piece->address = page_start(walk, i);
	walk->visit(piece, walk->arg);
}

/* A slab at page @i of the window; how many pages it has, 0: there is none. */
static uint64_t visit_slab(struct walk *walk, uint64_t i, int32_t owner)
{
	const struct cache_view *cache = &walk->snapshot->caches[owner];
	uint64_t pages = 1ull << cache_field(cache, SLUB_ABI_CACHE_ORDER);
	uint64_t state = slab_state(walk, i, 1);
	uint32_t flags = number32(descriptor(walk, i),
				  walk->abi->descriptor_flags);
	struct piece piece = { .kind = PIECE_SLAB, .pages = pages };
	uint64_t most = cache_field(cache, SLUB_ABI_CACHE_OBJECTS);

	if ((walk->first + i) % pages || i + pages > walk->nr ||
	    (flags & 0xff) != SLUB_ABI_PAGE_SLAB)
		return 0;
	piece.cache = (size_t)owner;
	piece.inuse = state & SLUB_ABI_STATE_INUSE;
	piece.carved = number32(descriptor(walk, i),
				walk->abi->descriptor_count);
	piece.holes = slab_holes(walk, cache, i);
	piece.frozen = state & SLUB_ABI_STATE_FROZEN;
	piece.node = flags >> 16 & 0xff;
	if (piece.inuse > most)
		piece.inuse = most;
	piece.free_first = slab_state(walk, i, 0);
	piece.local = pages > 1 ? slab_local(walk, cache, i, &piece.local_first) : 0;
	if (piece.local > piece.inuse)
		piece.local = piece.inuse;
	if (piece.carved > most)
		piece.carved = most;
	visit(walk, &piece, i);
	return pages;
}

static uint64_t visit_large(struct walk *walk, uint64_t i)
{
	struct piece piece = { .kind = PIECE_LARGE };
	uint64_t left = walk->abi->heap_bytes / walk->abi->page_bytes -
			(walk->first + i);

	piece.pages = number32(descriptor(walk, i),
			       walk->abi->descriptor_count);
	if (!piece.pages || piece.pages > left)
		piece.pages = 1;
	visit(walk, &piece, i);
	return piece.pages;
}

static uint64_t visit_none(struct walk *walk, uint64_t i)
{
	uint32_t flags = number32(descriptor(walk, i),
				  walk->abi->descriptor_flags);
	struct piece piece = { .kind = PIECE_FREE, .pages = 1 };
	uint32_t order = flags >> 8 & 0xff;

	if ((flags & 0xff) == SLUB_ABI_PAGE_FREE && order < 20 &&
	    i + (1ull << order) <= walk->nr) {
		piece.pages = 1ull << order;
		if (flags & SLUB_ABI_PAGE_DIRTY)
			piece.kind = PIECE_IDLE;
	}
	visit(walk, &piece, i);
	return piece.pages;
}

static uint64_t visit_page(struct walk *walk, uint64_t i)
{
	uint32_t entry = walk->map[i], number = slot_number(walk->abi, entry);
	struct piece piece = { .kind = PIECE_FREE, .pages = 1 };
	uint64_t pages = 0;

	if (entry == SLUB_ABI_MAP_NONE)
		return visit_none(walk, i);
	if (entry == SLUB_ABI_MAP_LARGE)
		return visit_large(walk, i);
	if (number < SLOT_NUMBERS_MAX && walk->owners[number] >= 0)
		pages = visit_slab(walk, i, walk->owners[number]);
	if (pages)
		return pages;
	/* It is just coming or going. */
	visit(walk, &piece, i);
	return 1;
}

static uint64_t window_map(const struct walk *walk)
{
	const struct slub_abi *abi = walk->abi;
	uint64_t page = (abi->heap_start - abi->range_start) /
			abi->page_bytes + walk->first;

	return abi->map + page * 2;
}

/* A core may name more heap than anybody could look through, if nothing is in it. */
static bool window_is_empty(const struct walk *walk)
{
	const struct core *core = walk->process->core;

	return core && core_is_untouched(core, window_map(walk),
					 walk->nr * 2) &&
	       core_is_untouched(core, walk->abi->descriptors + walk->first *
				 walk->abi->descriptor_stride,
				 walk->nr * walk->abi->descriptor_stride);
}

static bool read_window(struct walk *walk)
{
	const struct slub_abi *abi = walk->abi;

	return !process_read(walk->process, window_map(walk), walk->map,
			     walk->nr * 2) &&
	       !process_read(walk->process, abi->descriptors + walk->first *
			     abi->descriptor_stride, walk->descriptors,
			     walk->nr * abi->descriptor_stride);
}

static void walk_windows(struct walk *walk)
{
	uint64_t pages = walk->abi->heap_bytes / walk->abi->page_bytes;
	uint64_t at = 0;

	while (at < pages) {
		struct piece hole = { .kind = PIECE_UNREADABLE };
		bool is_empty;
		uint64_t i = at % WINDOW_PAGES;

		walk->first = at - i;
		walk->nr = pages - walk->first < WINDOW_PAGES ?
			   pages - walk->first : WINDOW_PAGES;
		is_empty = window_is_empty(walk);
		if (is_empty)
			hole.kind = PIECE_FREE;
		if (!is_empty && read_window(walk)) {
			while (i < walk->nr)
				i += visit_page(walk, i);
		} else {
			hole.pages = walk->nr - i;
			visit(walk, &hole, i);
			i = walk->nr;
		}
		/* A large block may reach beyond the window. */
		at = walk->first + i;
		progress("reading the heap", at, pages);
	}
	progress_end();
}

void heap_walk(const struct process *process, const struct snapshot *snapshot,
	       piece_visitor *visit, void *arg)
{
	struct walk *walk = must_have(calloc(1, sizeof(*walk)));

	walk->process = process;
	walk->snapshot = snapshot;
	walk->abi = &snapshot->abi;
	walk->visit = visit;
	walk->arg = arg;
	index_owners(walk);
	walk->map = must_have(malloc(WINDOW_PAGES * sizeof(*walk->map)));
	walk->descriptors = must_have(malloc((size_t)WINDOW_PAGES *
					     snapshot->abi.descriptor_stride));
	walk_windows(walk);
	free(walk->map);
	free(walk->descriptors);
	free(walk);
}
