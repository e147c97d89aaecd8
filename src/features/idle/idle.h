/* SPDX-License-Identifier: MIT */
/*
 * Giving unused memory back: free pages of slabs that are in use (holes, sparse), what a program
 * has left in lists (left), and what is done when memory is short (reclaimer).
 *
 * Tests: tests/unit/slab/test_holes.cc, tests/unit/slab/test_left.cc,
 * tests/unit/slab/test_sparse.cc, tests/unit/malloc/test_trim.cc.
 * Pages: docs/internals/memory.md, docs/operate/memory.md.
 */
#ifndef SLUB_IDLE_H
#define SLUB_IDLE_H

#include "core/slab/slab_internal.h"

/* left.c */
/* Objects in the lists of the CPUs and in the barns, about. */
size_t cache_nr_in_lists(const struct slub_cache *cache);
/* ... and in the local lists of slabs, which are as many as slabs, and each is looked at. */
size_t cache_nr_cached(const struct slub_cache *cache);

/* holes.c */
/* How many objects touch @holes. */
uint32_t holes_objects(const struct slub_cache *cache, uint64_t holes);
/* May @cache have some? */
bool holes_are_allowed(const struct slub_cache *cache);
/*
 * What is free of an isolated slab goes back, in whole pages, with some of what @purge may
 * spend.  Returns how many pages.
 */
size_t holes_make(struct slub_cache *cache, struct page *slab, struct purge *purge);
/* The same of one whose objects have no link in them; each goes back once. */
size_t objects_purge(struct slub_cache *cache, struct page *slab, struct purge *purge);

/* sparse.c: @cache has given, or taken, objects; how many more to wait for before the next look */
size_t sparse_look(struct slub_cache *cache);
/* page_set_sparse_hook() */
size_t sparse_purge(size_t pages, struct purge *purge);

/* reclaimer.c: what reclaim asks of this layer and the one below. */
void slab_reclaimer_init(void);

#endif
