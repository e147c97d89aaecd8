/* SPDX-License-Identifier: MIT */
/*
 * Memory for the library's own structures: a bump allocator over a place of its own, so
 * that nothing low ever calls something high.  Never freed.
 *
 * How much it takes varies with the machine (nodes x CPUs x caches), so it grows, by pieces.
 */
#include "core/os/os.h"

#define META_ALIGN 64
/* A start on a small machine takes one. */
#define PIECE_BYTES ((size_t)256 << 10)
#define PIECE_ALIGN ((size_t)65536)	/* any system's page size */

struct lock meta_lock fork_writes = LOCK_INIT;

/* Under meta_lock. */
static struct {
	char *start;
	char *end;		/* of what is not taken */
} piece;
static char *mapped_start;	/* from here to the end of the place */
static char *mapped_end;
static size_t room_bytes;	/* of the place, not mapped */
static size_t used_bytes;

void meta_init(void *end, size_t bytes)
{
	mapped_start = mapped_end = end;
	room_bytes = bytes;
	used_bytes = 0;
}

cold void meta_exit(void)
{
	if (mapped_start < mapped_end)
		os_unreserve(mapped_start,
			     (size_t)(mapped_end - mapped_start));
	piece.start = piece.end = NULL;
	mapped_start = mapped_end = NULL;
	room_bytes = 0;
}

/* A new piece, which holds @bytes; the rest of the old one is lost. */
static bool meta_refill(size_t bytes)
{
	bytes = round_up(max_size(bytes, PIECE_BYTES), PIECE_ALIGN);
	if (bytes > room_bytes || os_map_at(mapped_start - bytes, bytes))
		return false;
	room_bytes -= bytes;
	piece.end = mapped_start;
	mapped_start -= bytes;
	piece.start = mapped_start;
	return true;
}

void *meta_alloc(size_t bytes)
{
	void *ptr = NULL;

	bytes = round_up(bytes, META_ALIGN);
	lock_acquire(&meta_lock);
	if ((size_t)(piece.end - piece.start) >= bytes || meta_refill(bytes)) {
		piece.end -= bytes;
		used_bytes += bytes;
		ptr = piece.end;
	}
	lock_release(&meta_lock);
	return ptr;
}

size_t meta_used_bytes(void)
{
	return used_bytes;
}
