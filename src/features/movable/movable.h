/* SPDX-License-Identifier: MIT */
/*
 * Objects that their program can move, so that slabs become empty; and slabs that nobody allocates
 * from for a while, isolated, which features/idle uses as well.
 *
 * Tests: tests/reclaim/test_defrag*.cc, tests/reclaim/test_lies.cc.
 * Page: docs/internals/reclaim.md.
 */
#ifndef SLUB_MOVABLE_H
#define SLUB_MOVABLE_H

#include "core/slab/slab_internal.h"

/* ---- defrag.c ---- */

/* Empties sparse slabs of all caches that allow it, until @deadline_ns. */
size_t defrag_until(uint64_t deadline_ns);

/* In a forked child: slabs that other threads had isolated. */
void defrag_after_fork(void);

/* ---- isolated slabs ---- */

struct cache_hold;
/* Pins @cache; 0 or an error; -EOPNOTSUPP where it @moves and its user does not say how. */
int movers_enter(struct slub_cache *cache, struct cache_hold *pin, bool moves);
void movers_leave(struct cache_hold *pin);
/* Under the lock, not while node_has_raw(): takes @slab off the partial list. */
void slab_isolate(struct cache_node *node, struct page *slab);
bool node_has_raw(const struct cache_node *node);
/* To the list's end, or where its fill says; true: it was empty and is gone. */
bool slab_put_back(struct slub_cache *cache, struct cache_node *node, struct page *slab,
		   bool at_end);
/* What is free of an isolated slab goes back: holes_make(), or objects_purge(). */
size_t slab_purge_free(struct slub_cache *cache, struct page *slab, struct purge *purge);
/* May the bytes of its free objects be lost? */
bool cache_bytes_may_go(const struct slub_cache *cache);
/* As slab_purge_objects(), of one cache. */
void cache_purge_objects(struct slub_cache *cache);

#endif
