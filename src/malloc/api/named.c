/* SPDX-License-Identifier: MIT */
/* slub/malloc.h: the C library's functions under names that no other malloc has. */
#include <malloc.h>
#include <stdlib.h>

#include "malloc/malloc.h"

#include <slub/malloc.h>

SLUB_EXPORT void *slub_malloc(size_t bytes)
{
	return fast_alloc(bytes);
}

SLUB_EXPORT void *slub_calloc(size_t nr, size_t bytes)
{
	return calloc(nr, bytes);
}

SLUB_EXPORT void *slub_realloc(void *block, size_t bytes)
{
	return realloc(block, bytes);
}

SLUB_EXPORT void *slub_aligned_alloc(size_t align, size_t bytes)
{
	return aligned_alloc(align, bytes);
}

SLUB_EXPORT size_t slub_usable_size(const void *block)
{
	return malloc_usable_size((void *)block);
}

SLUB_EXPORT size_t slub_good_size(size_t bytes)
{
	if (bytes > PTRDIFF_MAX || !slub_start())
		return 0;
	return bytes <= CLASS_BYTES_MAX ?
		       sizeclass_bytes(sizeclass_number(sizeclass_cache(bytes))) :
		       large_bytes_for(bytes);
}
