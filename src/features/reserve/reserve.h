/* SPDX-License-Identifier: MIT */
/*
 * The reserve: blocks kept aside for callers that must not be refused.  What the core asks of
 * it is in core/base/features.h.
 *
 * Tests: tests/unit/page/test_reserve.cc, tests/api/reserve_test.cc.
 * Page: docs/internals/memory.md.
 */
#ifndef SLUB_RESERVE_H
#define SLUB_RESERVE_H

#include "core/page/page.h"

#define RESERVE_ORDER 3
#define RESERVE_BYTES (PAGE_BYTES << RESERVE_ORDER)
/* Half a superblock: no larger block is cut from a zone. */
#define RESERVE_PAGES_MAX ((size_t)1 << BLOCK_ORDER_MAX)

/*
 * Keeps @bytes aside from now on, rounded up to RESERVE_BYTES; 0: none.  Their
 * memory is there, not only promised.  Returns 0, or -ENOMEM when there is not
 * enough; as much as before is kept then.
 */
int page_reserve_set(size_t bytes);
/* How much is there. */
size_t page_reserve_bytes(void);

/* ---- reserved.c: objects in slabs made of it ---- */

struct slub_cache;
/*
 * cache_alloc(), and if there is no memory, once more after reclaim; then from the reserve,
 * with the right.
 */
void *cache_alloc_reserve(struct slub_cache *cache, unsigned int flags);

#endif
