/* SPDX-License-Identifier: MIT */
/*
 * malloc for threads in groups (slub/group.h).
 *
 * Such a thread has no malloc_limit (base/thread.h), so what it asks for leaves
 * the fast path at the first comparison and comes here.  Each class has a second
 * cache, "malloc-cg-SIZE", made when it is first needed, whose objects have
 * owners (slab/shadow/owned.h); a large block has its owner in its descriptor.
 */
#ifndef SLUB_MALLOC_ACCOUNT_H
#define SLUB_MALLOC_ACCOUNT_H

#include "malloc/malloc.h"
#include "slab/shadow/owned.h"

/*
 * The class for accounted objects that goes with @cache, one of malloc's; NULL:
 * it cannot be made.
 */
struct slub_cache *sizeclass_accounted(struct slub_cache *cache);

/* Fills it anew, after sampling was switched on or off. */
void account_sizes_fill(void);

/* What allocations beyond malloc_limit are, in a group and outside. */
void *slow_alloc_beyond(size_t bytes);

/* slow_alloc_aligned() for a thread that is in a group. */
void *account_alloc(size_t bytes, size_t align, bool *is_zero);

/* What a large block of @bytes is charged with. */
static inline size_t account_large_bytes(size_t bytes)
{
	return large_bytes_for(bytes);
}

/*
 * Charges @ptr, a large block just taken, to this thread's owner.  False: that takes
 * more than an attempt, and the block is free again.
 */
bool account_large(void *ptr);

/* free() of an object of @cache that is none of the usual ones of malloc. */
void account_free_object(void *ptr, struct slub_cache *cache);

#endif
