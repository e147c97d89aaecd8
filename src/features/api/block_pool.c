/* SPDX-License-Identifier: MIT */
/* Memory pools (features/mempool/mempool.h) of blocks from malloc. */
#include <errno.h>

#include "core/malloc/malloc.h"
#include "features/mempool/mempool.h"

/*
 * The size stands where the pool keeps a pointer for its functions.  malloc() has no
 * flags: the thread has the right to the reserve meanwhile, or has it not.
 */
static void *block_alloc_fn(unsigned int flags, void *data)
{
	uint32_t had = slub_thread.flags & THREAD_RESERVE;
	void *block;

	if (flags & SLUB_ALLOC_NO_RESERVE)
		slub_thread.flags &= ~(uint32_t)THREAD_RESERVE;
	else if (flags & SLUB_ALLOC_RESERVE)
		slub_thread.flags |= THREAD_RESERVE;
	compiler_barrier();
	block = own_alloc((size_t)data);
	compiler_barrier();
	slub_thread.flags &= ~(uint32_t)THREAD_RESERVE;
	slub_thread.flags |= (uint16_t)had;
	return block;
}

static void block_free_fn(void *element, void *data)
{
	(void)data;
	fast_free(element);
}

static bool block_owns_fn(const void *element, void *data)
{
	return block_bytes(element) >= (size_t)data;
}

SLUB_EXPORT struct slub_mempool *slub_mempool_create_malloc(size_t min_nr,
							    size_t size)
{
	struct slub_mempool_args args = {
		.min_nr = min_nr, .alloc_fn = block_alloc_fn,
		.free_fn = block_free_fn, .owns_fn = block_owns_fn,
		.data = (void *)size,
	};
	struct slub_mempool *pool;

	if (!size || size > PTRDIFF_MAX) {
		log_message("slub_mempool_create_malloc: a block has 1 to %zu "
			    "bytes", (size_t)PTRDIFF_MAX);
		return fail_with(EINVAL);
	}
	pool = slub_mempool_create_args(&args);
	if (pool)
		pool->known_bytes = size;
	return pool;
}
