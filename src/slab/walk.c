/* SPDX-License-Identifier: MIT */
/*
 * A walk over all slabs by the page map.  Takes no lock: on a heap that changes
 * meanwhile it may miss slabs that come and go.
 */
#include "slab/slab_internal.h"

void slab_for_each(void (*visit)(struct slub_cache *cache, struct page *slab,
				 void *arg),
		   void *arg)
{
	char *addr = (char *)heap_start;
	char *end = addr + pagemap_committed();

	while (addr < end) {
		struct slub_cache *cache = cache_of(addr);
		struct page *page = page_of(addr);

		if (cache && page_type(page) == TYPE_SLAB) {
			visit(cache, page, arg);
			addr += PAGE_BYTES << cache->order;
		} else {
			addr += PAGE_BYTES;
		}
	}
}
