/* SPDX-License-Identifier: MIT */
/* inspect: what can be said about the library's state. */
#ifndef SLUB_INSPECT_H
#define SLUB_INSPECT_H

#include "inspect/abi.h"
#include "malloc/malloc.h"

/* What one cache holds, found by walking its slabs. */
struct cache_census {
	size_t slabs;
	size_t objects;		/* capacity */
	size_t carved;
	size_t active;		/* not on a slab's freelist */
};

/* What all of the heap holds. */
struct heap_census {
	size_t slab_bytes;
	size_t object_bytes;	/* active objects at their size */
	size_t objects;
	size_t large_bytes;
	size_t dirty_bytes;
	size_t committed_bytes;
};

/* census.c: walks the heap without a lock; a moving heap gives estimates */
void census_cache(const struct slub_cache *cache, struct cache_census *out);
void census_heap(struct heap_census *out);

/* slabinfo.c */
/* Writes the table of caches, /proc/slabinfo 2.1, to @path. */
int slabinfo_write(const char *path);

/* state.c */
void abi_publish(const struct os_cpus *cpus, uint32_t nr_nodes);
void abi_update(void);

#endif
