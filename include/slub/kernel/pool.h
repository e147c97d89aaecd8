/* SPDX-License-Identifier: MIT */
/* The kernel's names of pools; part of slub/kernel.h. */
#ifndef SLUB_INCLUDE_KERNEL_POOL_H
#define SLUB_INCLUDE_KERNEL_POOL_H

#ifndef SLUB_INCLUDE_KERNEL_H
#error "include <slub/kernel.h>"
#endif

#ifdef __cplusplus
SLUB_C_BEGIN
extern "C" {
#endif

/* ---- mempool ---- */

typedef struct slub_mempool mempool_t;
typedef void *(mempool_alloc_t)(gfp_t gfp, void *pool_data);
typedef void (mempool_free_t)(void *element, void *pool_data);

static inline mempool_t *mempool_create(int min_nr,
					mempool_alloc_t *alloc_fn,
					mempool_free_t *free_fn,
					void *pool_data)
{
	return slub_mempool_create(min_nr > 0 ? (size_t)min_nr : 0, alloc_fn,
				   free_fn, pool_data);
}

static inline mempool_t *mempool_create_node(int min_nr,
					     mempool_alloc_t *alloc_fn,
					     mempool_free_t *free_fn,
					     void *pool_data, gfp_t gfp,
					     int node)
{
	(void)gfp, (void)node;
	return mempool_create(min_nr, alloc_fn, free_fn, pool_data);
}

static inline mempool_t *mempool_create_slab_pool(int min_nr,
						  struct kmem_cache *cache)
{
	return slub_mempool_create_slab(min_nr > 0 ? (size_t)min_nr : 0,
					cache);
}

static inline mempool_t *mempool_create_kmalloc_pool(int min_nr, size_t size)
{
	return slub_mempool_create_malloc(min_nr > 0 ? (size_t)min_nr : 0,
					  size);
}

static inline void mempool_destroy(mempool_t *pool)
{
	slub_mempool_destroy(pool);
}

static inline int mempool_resize(mempool_t *pool, int min_nr)
{
	return slub_mempool_resize(pool, min_nr > 0 ? (size_t)min_nr : 0);
}

/* Waits with GFP_KERNEL, GFP_NOIO, GFP_NOFS; fails with GFP_ATOMIC, GFP_NOWAIT. */
static inline void *mempool_alloc(mempool_t *pool, gfp_t gfp)
{
	return slub_mempool_alloc(pool, slub_kernel_pool_flags(gfp));
}

static inline void *mempool_alloc_preallocated(mempool_t *pool)
{
	return slub_mempool_alloc_reserved(pool);
}

static inline void mempool_free(void *element, mempool_t *pool)
{
	slub_mempool_free(pool, element);
}

/* For mempool_create() with a cache, or a size, as pool_data. */
static inline void *mempool_alloc_slab(gfp_t gfp, void *pool_data)
{
	return kmem_cache_alloc((struct kmem_cache *)pool_data, gfp);
}

static inline void mempool_free_slab(void *element, void *pool_data)
{
	kmem_cache_free((struct kmem_cache *)pool_data, element);
}

static inline void *mempool_kmalloc(gfp_t gfp, void *pool_data)
{
	return kmalloc((size_t)pool_data, gfp);
}

static inline void mempool_kfree(void *element, void *pool_data)
{
	(void)pool_data;
	kfree(element);
}

/* ---- qmempool ---- */

#define qmempool slub_qmempool

static inline struct qmempool *
qmempool_create(uint32_t localq_sz, uint32_t sharedq_sz, uint32_t prealloc,
		struct kmem_cache *kmem, gfp_t gfp)
{
	return slub_qmempool_create(localq_sz, sharedq_sz, prealloc, kmem,
				    gfp & SLUB_KERNEL_ALLOC_FLAGS);
}

static inline void qmempool_destroy(struct qmempool *pool)
{
	slub_qmempool_destroy(pool);
}

static inline void *qmempool_alloc(struct qmempool *pool, gfp_t gfp)
{
	return kmem_cache_alloc(pool->cache, gfp);
}

static inline void qmempool_free(struct qmempool *pool, void *object)
{
	slub_qmempool_free(pool, object);
}

/* Nothing has to be disabled around a restartable sequence: all the same. */
#define __qmempool_alloc qmempool_alloc
#define __qmempool_alloc_softirq qmempool_alloc
#define __qmempool_alloc_preempt qmempool_alloc
#define __qmempool_free qmempool_free
#define __qmempool_free_softirq qmempool_free
#define __qmempool_free_preempt qmempool_free

#ifdef __cplusplus
}
SLUB_C_END
#endif

#endif
