/* SPDX-License-Identifier: MIT */
/*
 * Guarded objects: one allocation in N is placed alone on pages of its own
 * between pages that nobody may touch, and what was freed is kept so for a while
 * (the kernel's KFENCE).  Which allocation it is, features/profile/sample.h draws.
 *
 *   | guard | place 0            | guard | place 1            | guard | ...
 *           |####      (freed)   |       |            [object]|
 *
 * An object lies at the left end of its place or at the right one, by chance or as option
 * guard_side says.  The pages that it needs can be touched while it is allocated, nothing
 * else of the place.  So the first wrong access ends the program with SIGSEGV, and
 * `slub explain` reads from the core, or from the stopped process, whose object it was.
 * The rest of the object's pages is filled, and looked at when it is freed.
 *
 * Each large block that letters watch (SLUB_DEBUG) lies in a place as well, and each block
 * of no size, in the hardened build always: nothing of it can be touched.  Letters report
 * and go on: where no guard is asked for, a page on both sides of a watched block is a
 * zone, which can be written and is looked at.
 *
 * A reader without a lock may look at an object of a SLUB_CACHE_TYPESAFE_BY_RCU cache after
 * it was freed.  So its pages stay as they are until all readers that were inside have left
 * (grace.c), and its place takes no other object meanwhile.
 *
 * The range lies outside the heap, so free() takes a pointer into it for a foreign one, and
 * leaves the fast path by the test that it makes anyway.
 *
 * Words
 *   place     pages for one object, and what is known of it
 *   turn      a number for each guarded allocation
 *
 * Invariants
 *   GUARD-1  a thread that changed a place's state to TAKEN owns the place until
 *            it changes it again; there are no locks, so also in signal handlers;
 *   GUARD-2  object, bytes and tracks of a place stay as they are until it is
 *            taken for the next object.
 *
 * Tests: tests/unit/slab/test_guard*.cc, tests/debug/guard_*test.cc,
 * tests/debug/nowhere_test.cc.
 * Page: docs/operate/debugging.md.
 */
#ifndef SLUB_GUARD_H
#define SLUB_GUARD_H

#include "features/debug/debug.h"
#include "core/slab/switches.h"
#include "features/guard/guard_place.h"
#include "core/slab/slab.h"

/* Of an object; large blocks have a pool of their own, with fewer places. */
#define GUARD_BYTES_MAX ((size_t)32 << 10)
#define GUARD_LARGE_MAX ((size_t)1 << 20)
/* ... while letters watch them; what is larger is not watched. */
#define GUARD_WATCHED_MAX ((size_t)16 << 20)

/* The hardened build has one for blocks of no size by themselves: each lies in a place. */
enum { GUARD_OBJECTS, GUARD_LARGE, GUARD_EMPTY, GUARD_POOLS };

extern struct guard_pool guard_pools[GUARD_POOLS] SLUB_INTERNAL;

static inline bool pool_owns(const struct guard_pool *pool, const void *ptr)
{
	return (uintptr_t)ptr - pool->base < pool->bytes;
}

/* Is @ptr in a range of the guarded ones? */
static inline bool guard_owns(const void *ptr)
{
	for (int i = 0; i < GUARD_POOLS; i++) {
		if (unlikely(pool_owns(&guard_pools[i], ptr)))
			return true;
	}
	return false;
}

/* By malloc, while the process runs; 0 or -errno, EBUSY while another thread switches. */
extern int (*guard_switch)(uint64_t every) SLUB_INTERNAL;

/* For blocks of no size. */
void guard_open_for_empty(void);
/* For other processes: one allocation in @every is guarded, or none. */
void guard_say_every(uint64_t every);
/* Makes the pools; 0 or -ENOMEM. */
int guard_open(uint64_t every);
/* Makes them for what SLUB_DEBUG watches: @letters of malloc-large. */
void guard_watch(uint32_t letters);
/* At exit: looks at what is beside the objects that are allocated. */
void guard_finish(void);
/*
 * @cache NULL: a large block.  @align divides a page, or there is none.  NULL:
 * no object of the cache can be guarded, or none now.
 */
void *guard_alloc(struct slub_cache *cache, size_t bytes, size_t align);
/* @cache: through which it is freed; NULL: free(). */
void guard_free(void *ptr, const struct slub_cache *cache);
/* It is about to be freed as one of another size. */
void guard_free_size(void *ptr);
/*
 * It is about to be freed by the operator delete that belongs to @call.  False: it is to be
 * left alone.
 */
bool guard_free_call(void *ptr, enum alloc_call call);
/* What was asked for; 0: that is no object. */
size_t guard_bytes(const void *ptr);
/* Is it an operator delete that frees it? */
bool guard_was_looked_at(const void *ptr);
/* @call was asked about it, and it is none: reported.  False: @call is to do nothing. */
bool guard_ask(const void *ptr, const char *call);
/* NULL: that is no object of a cache, nor memory that readers may take for one. */
struct slub_cache *guard_cache_of(const void *ptr);
/* The same of a pointer into it, @offset bytes behind its start. */
struct slub_cache *guard_cache_inside(const void *ptr, size_t *offset);
/* @bytes: of the pages that the object takes. */
typedef int guard_visitor(struct guard_place *place, size_t bytes, void *arg);
/* All objects that are allocated, large blocks too; until @visit returns what is not 0. */
int guard_visit(guard_visitor *visit, void *arg);
/* Objects of @cache that are allocated; until @call returns what is not 0. */
int guard_for_each_object(const struct slub_cache *cache,
			  int (*call)(void *object, void *arg), void *arg);
/* How many those are; adds to *@bytes, if it is not NULL, what their pages take. */
size_t guard_nr_objects(const struct slub_cache *cache, size_t *bytes);
/* Reports those of @cache, watched as @twin, that keep it from being destroyed. */
void guard_report_left(struct slub_cache *cache, struct slub_cache *twin);
/* Takes leave of those whose readers have left; without locks. */
bool guard_poll(void);
/* Waits for all of them. */
void guard_flush(void);
void guard_fork(enum fork_step step);

#endif
