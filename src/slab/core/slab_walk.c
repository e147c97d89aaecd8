/* SPDX-License-Identifier: MIT */
/*
 * A walk over all slabs by the page map.  Takes no lock: on a heap that changes
 * meanwhile it may miss slabs that come and go.
 *
 * How far it is to the next slab is what the descriptor says.  The cache that the
 * map names may be one that is just ending, whose place another one takes: by the
 * order of that one the walk would pass over slabs of others, which did not change.
 */
#include "slab/slab_internal.h"

bool slab_walk_on(char **at, size_t bytes,
		  void (*visit)(struct slub_cache *cache, struct page *slab,
				void *arg),
		  void *arg)
{
	char *end = (char *)heap_start + pagemap_committed();
	char *addr = *at ? *at : (char *)heap_start;
	char *stop = bytes < (size_t)(end - addr) ? addr + bytes : end;

	while (addr < stop) {
		struct slub_cache *cache = cache_of(addr);
		struct page *page = page_of(addr);
		uint32_t flags = page_flags_read(page);

		if (cache && page_flags_type(flags) == TYPE_SLAB) {
			visit(cache, page, arg);
			addr += PAGE_BYTES << page_flags_order(flags);
		} else {
			addr += PAGE_BYTES;
		}
	}
	*at = addr;
	return addr < end;
}

void slab_for_each(void (*visit)(struct slub_cache *cache, struct page *slab,
				 void *arg),
		   void *arg)
{
	char *at = NULL;

	slab_walk_on(&at, SIZE_MAX, visit, arg);
}

/* The holes of a slab that is a free block by now is any word. */
usual may_race uint64_t slab_holes_peek(const struct slub_cache *cache,
				  const struct page *slab)
{
	if (!link_is_in_object(cache->link) || cache->debug ||
	    cache->order > HOLES_ORDER_MAX)
		return 0;
	return __atomic_load_n(&slab->holes, __ATOMIC_RELAXED);
}
