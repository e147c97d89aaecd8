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

/* Fills the tables of account.c anew, after sampling was switched on or off. */
void account_sizes_fill(void);

/* What a large block of @bytes is charged with. */
static inline size_t account_large_bytes(size_t bytes)
{
	return large_bytes_for(bytes);
}

#endif
