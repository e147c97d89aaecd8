/* SPDX-License-Identifier: MIT */
/*
 * slub/malloc.h: the C library's functions under names that no other malloc has.
 *
 * Tests: tests/api/malloc_test.cc, tests/api/jemalloc_test.cc, tests/contract.
 * Page: docs/api/c.md.
 */
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "core/malloc/malloc.h"

#include <slub/malloc.h>

/*
 * A sanitizer's runtime may own malloc().  It does from the library's start on: what is asked
 * for before that takes the long way as well, and is this library's.
 */
SLUB_EXPORT void *slub_malloc(size_t bytes)
{
	return own_alloc(bytes);
}

static cold void *calloc_own(size_t nr, size_t bytes)
{
	size_t all;
	void *block;

	if (__builtin_mul_overflow(nr, bytes, &all))
		return fail_with(ENOMEM);
	block = slub_malloc(all);
	if (block)
		memset(block, 0, all);
	sanitizer_written(block, block ? all : 0);
	return block;
}

SLUB_EXPORT void *slub_calloc(size_t nr, size_t bytes)
{
	if (unlikely(sanitizer.owns_malloc))
		return calloc_own(nr, bytes);
	return calloc(nr, bytes);
}

SLUB_EXPORT void *slub_realloc(void *block, size_t bytes)
{
	return block ? realloc(block, bytes) : slub_malloc(bytes);
}

static cold void *aligned_own(size_t align, size_t bytes)
{
	void *block;

	if (!is_power_of_two(align))
		return fail_with(EINVAL);
	block = alloc_aligned(bytes, max_size(align, MALLOC_ALIGN));
	return block ? block : fail_with(ENOMEM);
}

SLUB_EXPORT void *slub_aligned_alloc(size_t align, size_t bytes)
{
	if (unlikely(sanitizer.owns_malloc))
		return aligned_own(align, bytes);
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
