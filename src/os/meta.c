/* SPDX-License-Identifier: MIT */
/*
 * Memory for the library's own structures: a bump allocator over a region of
 * its own, so that nothing low ever calls something high.  Never freed.
 */
#include "os/os.h"

#define META_ALIGN 64

struct lock meta_lock = LOCK_INIT;

/* Under meta_lock. */
static char *next;
static char *end;
static char *start;
static size_t later_bytes;	/* taken from the end */

void meta_init(void *region, size_t bytes)
{
	start = region;
	next = start;
	end = start + bytes;
	later_bytes = 0;
}

void *meta_alloc(size_t bytes)
{
	void *ptr = NULL;

	bytes = round_up(bytes, META_ALIGN);
	lock_acquire(&meta_lock);
	if ((size_t)(end - next) >= bytes) {
		ptr = next;
		next += bytes;
	}
	lock_release(&meta_lock);
	return ptr;
}

void *meta_alloc_for_later(size_t bytes)
{
	void *ptr = NULL;

	bytes = round_up(bytes, META_ALIGN);
	lock_acquire(&meta_lock);
	if ((size_t)(end - next) >= bytes) {
		end -= bytes;
		later_bytes += bytes;
		ptr = end;
	}
	lock_release(&meta_lock);
	return ptr;
}

size_t meta_used_bytes(void)
{
	return (size_t)(next - start) + later_bytes;
}
