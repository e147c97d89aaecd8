/* SPDX-License-Identifier: MIT */
/*
 * Queued pools: qmempool's calls on a cache's own lists and barns, which do what its two
 * queues do.  docs/notes.md compares them with queues of the pool's own.
 */
#include "features/mempool/mempool.h"
#include "features/typed/typed.h"

#include <errno.h>

#include <slub/qmempool.h>

#define QMEMPOOL_MAGIC 0x716d706fu

static const struct slub_cache_args cache_args = {
	.name = "slub_qmempool",
	.size = sizeof(struct slub_qmempool),
	.flags = SLUB_CACHE_NO_MERGE,
};
static struct slub_cache pool_cache = { .args = &cache_args };

static bool size_is_valid(unsigned int n, unsigned int least,
			  unsigned int most)
{
	return is_power_of_two(n) && n >= least && n <= most;
}

static int sizes_check(unsigned int localq, unsigned int sharedq,
		       unsigned int prealloc, const struct slub_cache *cache)
{
	const char *what = NULL;

	if (!size_is_valid(localq, SLUB_QMEMPOOL_LOCALQ_MIN,
			   SLUB_QMEMPOOL_LOCALQ_MAX))
		what = "localq must be a power of two from 16 to 4096";
	else if (!size_is_valid(sharedq, SLUB_QMEMPOOL_SHAREDQ_MIN,
				SLUB_QMEMPOOL_SHAREDQ_MAX))
		what = "sharedq must be a power of two from 32 to 1048576";
	else if (prealloc > sharedq)
		what = "prealloc must not be above sharedq";
	else if (!cache)
		what = "no cache";
	if (!what)
		return 0;
	log_message("slub_qmempool_create(%u, %u, %u): %s", localq, sharedq,
		    prealloc, what);
	return EINVAL;
}

/*
 * Has @nr objects allocated and freed once, so that they lie in the lists.
 * At least one, which makes a cache that is a program's variable.
 */
static int preallocate(struct slub_cache *cache, unsigned int nr,
		       unsigned int flags)
{
	struct slub_prefill prefill = SLUB_PREFILL_INIT;
	void *object = slub_cache_alloc_flags(cache, flags);
	int err;

	if (!object)
		return errno;
	err = nr > 1 ? slub_cache_prefill(cache, &prefill, nr - 1) : 0;
	slub_prefill_return(&prefill);
	slub_cache_free(cache, object);
	return -err;
}

static int create(struct slub_qmempool *pool, unsigned int flags)
{
	const struct slub_cache *cache;
	int err = preallocate(pool->cache, pool->prealloc, flags);

	if (err)
		return err;
	cache = cache_real(pool->cache);
	if ((uint32_t)cache->capacity < pool->localq)
		log_message("slub_qmempool_create: cache %s holds %u objects "
			    "per CPU, not %u; its sheaf_length says how many",
			    cache->name, (uint32_t)cache->capacity,
			    pool->localq);
	return 0;
}

SLUB_EXPORT struct slub_qmempool *
slub_qmempool_create(unsigned int localq, unsigned int sharedq,
		     unsigned int prealloc, struct slub_cache *cache,
		     unsigned int flags)
{
	int err = sizes_check(localq, sharedq, prealloc, cache);
	struct slub_qmempool *pool;

	if (!err)
		err = -slub_begin();
	if (err)
		return fail_with(err);
	pool = slub_cache_zalloc(&pool_cache);
	if (!pool)
		return NULL;
	pool->cache = cache;
	pool->localq = localq;
	pool->sharedq = sharedq;
	pool->prealloc = prealloc;
	err = create(pool, flags);
	if (err) {
		slub_cache_free(&pool_cache, pool);
		return fail_with(err);
	}
	pool->magic = QMEMPOOL_MAGIC;
	return pool;
}

SLUB_EXPORT int slub_qmempool_destroy(struct slub_qmempool *pool)
{
	if (!pool)
		return 0;
	if (pool->magic != QMEMPOOL_MAGIC) {
		log_message("slub_qmempool_destroy: %p is not a pool",
			    (void *)pool);
		return -EINVAL;
	}
	pool->magic = 0;
	slub_cache_free(&pool_cache, pool);
	return 0;
}
