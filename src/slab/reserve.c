/* SPDX-License-Identifier: MIT */
#include "slab/slab_internal.h"

void *cache_alloc_reserve(struct slub_cache *cache, unsigned int flags)
{
	(void)flags;
	return cache_alloc_or_reclaim(cache);
}
