/* SPDX-License-Identifier: MIT */
/* Memory pools (mempool/mempool.h) of blocks from malloc. */
#include <errno.h>

#include "malloc/malloc.h"
#include "mempool/mempool.h"

/* The size stands where the pool keeps a pointer for its functions. */
static void *block_alloc_fn(unsigned int flags, void *data)
{
	(void)flags;
	return fast_alloc((size_t)data);
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

	if (!size || size > PTRDIFF_MAX) {
		log_message("slub_mempool_create_malloc: a block has 1 to %zu "
			    "bytes", (size_t)PTRDIFF_MAX);
		errno = EINVAL;
		return NULL;
	}
	return slub_mempool_create_args(&args);
}
