/* SPDX-License-Identifier: MIT */
/*
 * slab: caches of objects of one size.
 *
 * Words
 *   object   what a cache hands out
 *   slab     a block of pages holding objects of one cache
 *   carve    to take the next objects that were never used out of a slab; an
 *            object that was not carved has touched no memory
 *   chain    objects linked through their link word, owned by whoever holds
 *            the pointer to the first
 *   slot     a cache's two chains on one CPU: main and spare
 *   barn     a node's store of full chains
 *   partial  slabs of a node with free or uncarved objects, not being carved
 *
 * The life of an object:
 *
 *   slab --carve, refill--> chain --put--> slot --pop--> user
 *    ^                        |  ^           |             |
 *    |                      barn (full chains)            push
 *    +------- flush ----------+  +--- take --+<------------+
 *
 * A slab's state word changes as one with its freelist:
 *
 *   63       62       61 .............. 30 29 ............... 0
 * +--------+--------+---------------------+--------------------+
 * | frozen | listed |  objects (capacity) |  inuse             |
 * +--------+--------+---------------------+--------------------+
 *
 *   inuse    carved objects that are not on the slab's freelist
 *   frozen   the slab is its node's carving slab
 *   listed   the slab is on its node's partial list
 *
 * Invariants
 *   SLAB-1  listed and frozen change under the node's lock, and never both set;
 *   SLAB-2  neither set: the freelist is empty and all objects are carved
 *           ("full"), but for the moments in which a holder of the node's
 *           lock moves the slab;
 *   SLAB-3  an object is on one list at most: its slab's freelist, a slot's
 *           chain, a barn's chain;
 *   SLAB-4  a slab goes back to the page layer only when inuse is 0 and it has
 *           been taken off the list.
 */
#ifndef SLUB_SLAB_H
#define SLUB_SLAB_H

#include "page/page.h"

#define CACHE_NAME_MAX 32

struct barn {
	void *chains;		/* stack, linked through chain_next() */
	uint32_t nr;
	uint32_t nr_max;	/* const */
	uint32_t credit;	/* chains it may still take, see barn.c */
	uint32_t refused;	/* chains it could have taken */
};

struct cache_node {
	struct lock lock;
	uint32_t node;		/* const */
	/* under lock */
	struct barn barn;
	struct page *carve;
	struct list partial;
	size_t nr_partial;
	/* statistics; written under lock */
	size_t nr_slabs;
	size_t nr_objects;	/* capacity of all slabs */
	size_t nr_carved;
	size_t nr_slabs_peak;
} align_to(64);

struct slub_cache {
	/* const after create */
	uint32_t slot;		/* offset of the slot that the page map names */
	uint32_t list_slot;	/* offset of the slot in use */
	uintptr_t bias;		/* descriptor_bias, or 0: link in the object */
	uint32_t size;		/* bytes from one object to the next */
	uint32_t object_size;	/* bytes the user may use */
	uint32_t order;
	uint32_t objects;	/* per slab */
	int32_t capacity;	/* of a slot's chain at the most, objects */
	uint32_t min_partial;
	uint32_t carve_batch;
	const char *name;
	struct slub_cache *next;
	/* atomic, an estimate: how long a chain may get now, see slab_internal.h */
	_Atomic int32_t capacity_now;
	struct cache_node *nodes[OS_NODES_MAX];
};

/* cache.c */
/*
 * A cache of objects of @size bytes (a multiple of 16).  Returns 0 or -errno.
 * Caches of the library's own are never destroyed.
 */
int cache_create(struct slub_cache *cache, const char *name, uint32_t size);
extern struct slub_cache *cache_slot_owner[AREA_BYTES / SLOT_BYTES]
	SLUB_INTERNAL;

/* The cache whose slot has offset @slot; NULL: none. */
static inline struct slub_cache *cache_of_slot(uint32_t slot)
{
	return cache_slot_owner[slot / SLOT_BYTES];
}

/* The cache of the object at @ptr, NULL if it lies in no slab. */
static inline struct slub_cache *cache_of(const void *ptr)
{
	return cache_of_slot(pagemap_get(ptr));
}

struct slub_cache *cache_first(void);
void slab_init(uint32_t nr_nodes, const struct os_cpus *cpus);

/* alloc.c, free.c: the slow paths, which try the fast one first */
void *cache_alloc(struct slub_cache *cache);
/* False: a signal handler that may take no lock; the object is untouched. */
bool cache_free(struct slub_cache *cache, void *object);

/* walk.c */
/* Calls @visit with @arg for each slab, from the lowest address up. */
void slab_for_each(void (*visit)(struct slub_cache *cache, struct page *slab,
				 void *arg),
		   void *arg);

/* shrink.c */
/* Empties the lists of every CPU and every barn; frees empty slabs. */
void slab_shrink_all(void);
/* Gives memory back if a burst of frees left much of it idle. */
void slab_reclaim_if_needed(void);

void slab_fork_prepare(void);
void slab_fork_finish(bool in_child);

#endif
