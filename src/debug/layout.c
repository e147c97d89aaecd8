/* SPDX-License-Identifier: MIT */
/* Where in a place everything lies; the kernel's calculate_sizes(). */
#include "debug/debug.h"

#define WORD sizeof(void *)

/* Behind the object: the link, the tracks, the size, the owner. */
static size_t lay_behind(struct debug_layout *layout, size_t size,
			 uint32_t flags)
{
	bool behind = flags & (SLUB_CACHE_POISON | SLUB_CACHE_RED_ZONE | DEBUG_KEPT) ||
		      size < 2 * WORD;

	layout->inuse = (uint32_t)size;
	if (!behind) {
		/* Small overruns of a neighbour miss the middle. */
		layout->link = (uint32_t)round_down(layout->object_size / 2,
						    WORD);
	} else {
		layout->link = (uint32_t)size;
		size += WORD;
	}
	if (layout->link >= LINK_OFFSET_MAX)
		layout->link = DEBUG_LINK_OUTSIDE;
	/* Atomic: has_tracks() glances at a layout that is made anew. */
	__atomic_store_n(&layout->track,
			 flags & SLUB_CACHE_STORE_USER ? (uint32_t)size : 0,
			 __ATOMIC_RELAXED);
	layout->size = 0;
	if (flags & SLUB_CACHE_STORE_USER)
		size += 2 * sizeof(struct track);
	if (flags & DEBUG_SIZED && flags & (SLUB_CACHE_STORE_USER | SLUB_CACHE_RED_ZONE)) {
		layout->size = (uint32_t)size;
		size += sizeof(uint64_t);
	}
	layout->owner = 0;
	if (flags & DEBUG_OWNED) {
		layout->owner = (uint32_t)size;
		size += WORD;
	}
	return size;
}

bool debug_layout_make(struct debug_layout *layout, const char *name,
		       size_t size, size_t align, uint32_t flags, size_t most)
{
	size_t end;

	if (size > most)
		return false;
	align = max_size(align, WORD);
	layout->name = name;
	layout->flags = flags;
	layout->object_size = (uint32_t)size;
	layout->align = (uint32_t)align;
	layout->left = flags & SLUB_CACHE_RED_ZONE ? (uint32_t)align : 0;
	size = round_up(size, WORD);
	/* At least one byte of the right zone. */
	if (flags & SLUB_CACHE_RED_ZONE && size == layout->object_size)
		size += WORD;
	end = lay_behind(layout, size, flags);
	layout->end = (uint32_t)end;
	/* Padding that an underrun of the next object would hit. */
	if (flags & SLUB_CACHE_RED_ZONE)
		end += WORD;
	end = round_up(end + layout->left, align);
	layout->stride = (uint32_t)end;
	return end <= most;
}
