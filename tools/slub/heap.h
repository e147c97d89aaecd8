/* SPDX-License-Identifier: MIT */
/* A walk over the heap of a process, from its lowest address up. */
#ifndef SLUB_TOOL_HEAP_H
#define SLUB_TOOL_HEAP_H

#include "snapshot.h"

enum piece_kind {
	PIECE_SLAB,
	PIECE_LARGE,
	PIECE_IDLE,		/* free, memory is behind it */
	PIECE_FREE,		/* free, no memory behind it, as far as is known */
	PIECE_UNREADABLE,	/* not in the core file */
};

/* One slab or block; neighbours of the last kinds come as they come. */
struct piece {
	enum piece_kind kind;
	uint64_t address;
	uint64_t pages;
	size_t cache;		/* of a slab: index in the snapshot */
	uint64_t inuse;		/* of a slab */
	uint64_t local;		/* of these: free, in its local list */
	uint64_t carved;
	uint64_t holes;		/* a bit for each page; `carved` has no object on them */
	bool frozen;
	uint32_t node;		/* of a slab */
	/* of a slab: its free objects, the first of either list, or 0; not checked */
	uint64_t free_first, local_first;
};

typedef void piece_visitor(const struct piece *piece, void *arg);

/* Does object @n of a slab, of @size bytes, touch a page without memory? */
bool piece_is_hole(const struct piece *piece, uint64_t page_bytes, uint64_t n,
		   uint64_t size);

/* Of a slab: its pages up to the last object that was carved; those behind were never used. */
uint64_t piece_carved_bytes(const struct piece *piece, const struct snapshot *snapshot);

/*
 * Calls @visit for each piece.  Takes no lock; on a heap that changes meanwhile
 * pieces may be missed or seen as they were.
 */
void heap_walk(const struct process *process, const struct snapshot *snapshot,
	       piece_visitor *visit, void *arg);

#endif
