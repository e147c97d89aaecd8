/* SPDX-License-Identifier: MIT */
/*
 * Queued pools: a per-CPU queue before a shared queue before a cache, with
 * objects moved between the queues in bulk.
 *
 * qmempool was the network developers' answer to a slab allocator whose fast
 * path was too dear for a packet.  Its three stages are what every cache of
 * this library has by itself:
 *
 *   qmempool           here
 *   localq, per CPU    the CPU's list of the cache (a sheaf), no atomics
 *   sharedq            the CPUs' barns of full lists
 *   bulk of 16         a whole list, in one step
 *   kmem_cache         the slabs
 *
 * so a queued pool is a view of a cache with qmempool's calls: alloc and free
 * are slub_cache_alloc() and slub_cache_free(), and objects may as well be
 * freed by these.  A pool sees to it that the cache has @prealloc objects at
 * hand; how many its barns hold follows from the budget for free memory.
 *
 * The original has variants for callers that have disabled preemption or softirqs
 * themselves (__qmempool_alloc, _softirq, _preempt).  A restartable sequence needs
 * neither disabled, so here is one alloc and one free, for every context.
 *
 * From: qmempool, with its calls; measured in the library's
 * src/features/mempool/qmempool.c.
 */
#ifndef SLUB_INCLUDE_QMEMPOOL_H
#define SLUB_INCLUDE_QMEMPOOL_H

#include <slub/cache.h>

#ifdef __cplusplus
SLUB_C_BEGIN
extern "C" {
#endif

/* The bounds of what slub_qmempool_create() takes. */
#define SLUB_QMEMPOOL_LOCALQ_MIN 16
#define SLUB_QMEMPOOL_LOCALQ_MAX 4096
#define SLUB_QMEMPOOL_SHAREDQ_MIN 32
#define SLUB_QMEMPOOL_SHAREDQ_MAX (1u << 20)

/* A queued pool; made by slub_qmempool_create(), const after that. */
struct slub_qmempool {
	uint64_t reserved;
	struct slub_cache *cache;
	uint32_t magic;
	uint32_t localq;
	uint32_t sharedq;
	uint32_t prealloc;
};

/*
 * slub_qmempool_create - a queued pool of objects of @cache.
 *
 * @localq: objects that a CPU is to hold, a power of two from 16 to 4096.  The
 * cache's sheaf length stands for it; give a cache that is made for the pool a
 * sheaf_length (slub_cache_args) of @localq.  One that is shorter is used as it
 * is, and told in a message.
 * @sharedq: a power of two from 32 to 2^20.  It bounds @prealloc; the barns take as many
 * as the budget for free memory allows (docs/operate/memory.md).
 * @prealloc: objects to have at hand now, at most @sharedq.
 * @flags: enum slub_alloc_flag, for the preallocation.
 * The cache stays the caller's and must outlive the pool.
 *
 * Returns the pool, which the caller owns until slub_qmempool_destroy(), or
 * NULL with errno set:
 *   EINVAL  a size out of its range or not a power of two; @prealloc above
 *           @sharedq; no cache, or one that cannot be made; an unknown flag;
 *   ENOMEM  no memory.
 * Context: any thread, not from a signal handler.
 * Cost: @prealloc allocations in bulk.  From: qmempool_create().
 */
SLUB_API struct slub_qmempool *
slub_qmempool_create(unsigned int localq, unsigned int sharedq,
		     unsigned int prealloc, struct slub_cache *cache,
		     unsigned int flags);
#ifdef SLUB_CHECK_FLAGS
#define slub_qmempool_create(localq, sharedq, prealloc, cache, flags)	\
	slub_qmempool_create(localq, sharedq, prealloc, cache,		\
			     SLUB_ALLOC_FLAGS(flags))
#endif

/*
 * slub_qmempool_destroy - give the pool back.
 *
 * NULL is allowed.  Objects that are out remain objects of the cache: free them
 * to it.  What lies in the queues is the cache's too; slub_cache_shrink() gives
 * it back.  Returns 0, or -EINVAL: not a pool, or destroyed already.
 * Context: any thread, not from a signal handler.  From: qmempool_destroy().
 */
SLUB_API int slub_qmempool_destroy(struct slub_qmempool *pool);

#ifndef SLUB_LIBRARY
/*
 * slub_qmempool_alloc - an object of the pool.
 *
 * @flags: enum slub_alloc_flag; 0 takes the inline path.
 * Returns, errors, context and cost: as slub_cache_alloc_flags(), and with @flags
 * 0 as slub_cache_alloc() after one load.  From: qmempool_alloc().
 */
SLUB_INLINE void *slub_qmempool_alloc(struct slub_qmempool *pool,
				      unsigned int flags)
{
	if (flags)
		return slub_cache_alloc_flags(pool->cache, flags);
	return slub_cache_alloc(pool->cache);
}

/*
 * slub_qmempool_free - give an object back.
 *
 * NULL is allowed.  An object of another cache, one freed twice in a row and a
 * foreign pointer are found as by slub_cache_free().
 * Context and cost: as slub_cache_free().  From: qmempool_free().
 */
SLUB_INLINE void slub_qmempool_free(struct slub_qmempool *pool, void *object)
{
	slub_cache_free(pool->cache, object);
}
#endif

#ifdef __cplusplus
}
SLUB_C_END
#endif

#endif
