/* SPDX-License-Identifier: MIT */
/*
 * mempool: elements that are there whatever happens.
 *
 * Words
 *   element   what a pool hands out: whatever alloc_fn() returned, which need
 *             not be memory; the pool stores its pointer and nothing in it
 *   reserve   the elements a pool holds back, a stack of at most min_nr
 *
 *      alloc_fn() ------------------------------------> user
 *                        reserve [e e e e . . ] --take-->
 *                                 nr     min_nr <--keep--
 *      free_fn() <-------------------------------------
 *
 * Invariants
 *   POOL-1  functions of the user are called without a lock held;
 *   POOL-2  the stack has room for min_nr, and grows no further than that;
 *   POOL-3  a thread that sleeps has read `frees` before it saw too few elements, both
 *           under the lock that every addition to the stack changes `frees` under: an
 *           element that comes in between is not slept through;
 *   POOL-4  nor one that goes to free_fn() instead: a thread that sleeps has counted as
 *           a waiter, had all CPUs execute a fence (membarrier), and asked alloc_fn()
 *           after that; a free looks for waiters after free_fn().  So one of the
 *           two sees the other.
 *
 * Locks: a pool's own lock; pools_lock protects the list of pools (for fork).
 *
 * Tests: tests/unit/mempool, tests/pool/mempool*_test.cc, tests/pool/qmempool_test.cc.
 * Page: docs/api/c.md.
 */
#ifndef SLUB_MEMPOOL_H
#define SLUB_MEMPOOL_H

#include "core/base/turn.h"
#include "core/slab/slab.h"

#include <slub/mempool.h>

/* Reserves of so many elements lie in the structure itself. */
#define RESERVE_INLINE 32

struct slub_mempool {
	void *free_link;	/* the cache's, while this is free */
	uint64_t magic;		/* MEMPOOL_MAGIC: a pool */
	/* const */
	struct slub_mempool_args args;
	size_t known_bytes;	/* of an element; 0: only its owner may know what it is */
	struct list list;	/* under pools_lock */
	struct lock lock;
	/* under lock; the counts are also read without it */
	_Atomic uint32_t frees;	/* changes with each addition; a futex */
	uint32_t nr_waiters;
	uint32_t nr_bulk_waiters;
	size_t nr;
	size_t min_nr;
	size_t capacity;	/* what `elements` has room for */
	void **elements;
	struct turn resizing;	/* one at a time; without the lock */
	uint64_t nr_taken;
	uint64_t nr_waits;
	uint64_t nr_timeouts;
	_Atomic uint64_t nr_refused;	/* without the lock */
	void *space[RESERVE_INLINE];
};

#define MEMPOOL_MAGIC 0x6c6f6f706d656d73ull

static inline bool pool_is_live(const struct slub_mempool *pool)
{
	return pool && __atomic_load_n(&pool->magic, __ATOMIC_RELAXED) ==
			       MEMPOOL_MAGIC;
}

/* pool.c */
/*
 * Moves elements to the reserve, from the last one down, as long as it is not
 * full, and wakes waiters; returns how many remain.
 */
size_t pool_keep(struct slub_mempool *pool, size_t nr, void **elements);
void *pool_slab_alloc(unsigned int flags, void *data);
void pool_slab_free(void *element, void *data);

void mempool_fork_prepare(void);
void mempool_fork_finish(bool in_child);

#endif
