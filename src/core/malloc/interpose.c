/* SPDX-License-Identifier: MIT */
/*
 * The C library's allocation functions, with its semantics; malloc() and free() themselves are
 * in fast.c.  Threads, fork children and signal handlers may call them at any time.  On
 * failure NULL is returned and errno is ENOMEM, but where noted.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "core/malloc/malloc.h"

static void *no_memory(void)
{
	errno = ENOMEM;
	return NULL;
}

/* From a class of a page or more, whose fresh objects nobody has written to. */
static void *calloc_pages(size_t bytes, bool *is_zero)
{
	void *ptr = SLUB_CONFIG_HARDENED ? NULL : fast_pop(bytes);

	if (ptr)
		return ptr;
	ptr = slow_alloc_fresh(bytes);
	*is_zero = ptr != NULL;
	return ptr ? ptr : fast_alloc(bytes);
}

SLUB_EXPORT void *calloc(size_t n, size_t size)
{
	bool is_zero = false;
	size_t bytes;
	void *ptr;

	if (unlikely(sanitizer.owns_malloc))
		return sanitizer_calloc(n, size);
	if (unlikely(__builtin_mul_overflow(n, size, &bytes)))
		return no_memory();
	if (likely(bytes <= CLASS_WORD_MAX)) {
		ptr = fast_alloc(bytes);
	} else if (bytes <= CLASS_BYTES_MAX) {
		ptr = calloc_pages(bytes, &is_zero);
		if (is_zero)
			return ptr;
	} else {
		ptr = slow_alloc_aligned(bytes, MALLOC_ALIGN, &is_zero);
		if (unlikely(!ptr))
			return no_memory();
		if (!is_zero)
			large_zero(ptr, bytes);
		return ptr;
	}
	if (ptr)
		memset(ptr, 0, bytes);
	return ptr;
}

static void *alloc_with_room(size_t bytes)
{
	size_t more = size_with_room(bytes);
	void *ptr = hardened_sealed(fast_alloc(more), bytes);

	if (ptr && bytes > CLASS_BYTES_MAX && pagemap_get(ptr) == MAP_LARGE)
		large_has_room(ptr, bytes);
	return ptr;
}

/* The general case: another block, a copy, and the old one is freed. */
static void *realloc_move(void *ptr, size_t old, size_t bytes, bool may_room)
{
	void *to = NULL;

	if (unlikely(sanitizer.is_there))
		to = hardened_sealed(slow_alloc_own(bytes), bytes);
	else if (may_room && size_grows_on(old, bytes))
		to = alloc_with_room(bytes);
	if (!to)
		to = fast_alloc(bytes);
	if (!to)
		return NULL;
	memcpy(to, ptr, min_size(old, bytes));
	sanitizer_written(to, min_size(old, bytes));
	fast_free(ptr);
	return to;
}

/* What is not an object of a cache that stays where it is. */
static cold void *realloc_slow(void *ptr, size_t bytes)
{
	void *same;

	if (unlikely(sanitizer.owns_malloc) && ptr_is_foreign(ptr))
		return sanitizer_realloc(ptr, bytes);
	if (!ptr_is_block(ptr, "realloc"))
		return no_memory();	/* how much could be copied is not known */
	if (bytes == 0) {	/* as glibc does */
		fast_free(ptr);
		return NULL;
	}
	if (bytes > PTRDIFF_MAX)
		return no_memory();
	same = slow_resize(ptr, bytes);
	if (same)
		return same;
	/* The end of a watched one shows what is written beyond: no room behind it. */
	return realloc_move(ptr, block_bytes(ptr), bytes,
			    !ptr_is_watched(ptr));
}

/* An object of @cache that is allocated, as far as free() looks, and not watched. */
static always_inline bool is_plain_object(const struct slub_cache *cache,
					  const void *ptr)
{
	return cache && !cache->debug &&
	       (!KEYS || free_is_plain(cache, ptr));
}

SLUB_EXPORT void *realloc(void *ptr, size_t bytes)
{
	struct slub_cache *cache;

	/* Lua and others allocate by realloc() alone. */
	if (!ptr)
		return fast_alloc(bytes);
	cache = cache_of(ptr);
	if (SLUB_CONFIG_HARDENED &&
	    ((cache && !hardened_check(cache, ptr, "realloc")) ||
	     !hardened_may_realloc(cache, ptr)))
		return no_memory();
	if (likely(bytes && is_plain_object(cache, ptr))) {
		if (size_is_worth_keeping(cache->object_size, bytes))
			return hardened_sealed(ptr, bytes);
		if (likely(bytes <= CLASS_BYTES_MAX))
			return realloc_move(ptr, SLUB_CONFIG_HARDENED ?
						 hardened_bytes(cache, ptr) :
						 cache->object_size,
					    bytes, true);
	} else if (!cache && block_stays(ptr, bytes)) {
		return ptr;
	}
	return realloc_slow(ptr, bytes);
}

SLUB_EXPORT void *reallocarray(void *ptr, size_t n, size_t size)
{
	size_t bytes;

	if (unlikely(__builtin_mul_overflow(n, size, &bytes)))
		return no_memory();
	return realloc(ptr, bytes);
}

static void *aligned(size_t align, size_t bytes)
{
	void *ptr;

	if (align <= MALLOC_ALIGN)
		return fast_alloc(bytes);
	if (unlikely(sanitizer.owns_malloc))
		return sanitizer_memalign(align, bytes);
	ptr = alloc_aligned(bytes, align);
	return likely(ptr) ? ptr : no_memory();
}

/* Any power of two will do, and any size (C17); EINVAL otherwise. */
SLUB_EXPORT void *aligned_alloc(size_t align, size_t bytes)
{
	if (!is_power_of_two(align)) {
		errno = EINVAL;
		return NULL;
	}
	return aligned(align, bytes);
}

/* Like glibc's, rounds an odd alignment up to a power of two. */
SLUB_EXPORT void *memalign(size_t align, size_t bytes)
{
	if (align > (size_t)PTRDIFF_MAX + 1) {
		errno = EINVAL;
		return NULL;
	}
	return aligned(round_up_power_of_two(align ? align : 1), bytes);
}

/*
 * Returns EINVAL or ENOMEM, and leaves *@out alone then.  Like glibc's, it sets errno to
 * ENOMEM too, and leaves it alone with EINVAL.
 */
SLUB_EXPORT int posix_memalign(void **out, size_t align, size_t bytes)
{
	void *ptr;

	if (!is_power_of_two(align) || align % sizeof(void *))
		return EINVAL;
	ptr = aligned(align, bytes);
	if (!ptr)
		return ENOMEM;
	*out = ptr;
	return 0;
}

SLUB_EXPORT void *valloc(size_t bytes)
{
	return aligned(os_page_size(), bytes);
}

SLUB_EXPORT void *pvalloc(size_t bytes)
{
	size_t page = os_page_size();

	if (bytes > PTRDIFF_MAX)
		return no_memory();
	return aligned(page, round_up(bytes ? bytes : 1, page));
}

static cold size_t usable_slow(void *ptr)
{
	size_t bytes;

	if (!ptr)
		return 0;
	if (unlikely(sanitizer.owns_malloc) && ptr_is_foreign(ptr))
		return sanitizer_usable_size(ptr);
	if (!ptr_is_block(ptr, "malloc_usable_size"))
		return 0;
	if (SLUB_CONFIG_HARDENED) {
		struct slub_cache *cache = cache_of(ptr);

		if (cache && !hardened_check(cache, ptr, "malloc_usable_size"))
			return 0;
	}
	bytes = block_bytes(ptr);
	/* All of them may be used from here on, whatever was asked for. */
	sanitizer_use(ptr, bytes, bytes);
	return bytes;
}

/*
 * Stays the same for the block's life; all of it may be written.  Servers that count
 * their memory (redis) ask at each malloc and each free, so the way for an ordinary
 * object reads what free() reads, and no descriptor.
 */
SLUB_EXPORT size_t malloc_usable_size(void *ptr)
{
	const struct slub_cache *cache = cache_of(ptr);

	if (!SLUB_CONFIG_HARDENED && likely(is_plain_object(cache, ptr)))
		return cache->object_size;
	return usable_slow(ptr);
}

/* C23.  The size and alignment are not needed; see watch/sized.c. */
SLUB_EXPORT void free_sized(void *ptr, size_t bytes);
SLUB_EXPORT void free_sized(void *ptr, size_t bytes)
{
	fast_free_sized(ptr, bytes);
}

SLUB_EXPORT void free_aligned_sized(void *ptr, size_t align, size_t bytes);
SLUB_EXPORT void free_aligned_sized(void *ptr, size_t align, size_t bytes)
{
	free_aligned_told(ptr, bytes, align ? align : 1);
}

/* Empties every list and gives idle memory back, but for @pad bytes. */
SLUB_EXPORT int malloc_trim(size_t pad)
{
	if (slub_thread.locks_held || !slub_start())
		return 0;
	slab_shrink_all();
	slab_purge_objects(0, SLUB_NODE_ANY);
	return (pad ? page_purge(pad) : page_purge_all()) > 0;
}

#if defined(__GLIBC__)
/* glibc's knobs are accepted; none of them means anything here. */
SLUB_EXPORT int mallopt(int param, int value)
{
	(void)value;
	return param == M_MXFAST || (param <= M_TRIM_THRESHOLD &&
				     param >= M_ARENA_MAX);
}

/* glibc's internal names for the same, which some programs call. */
#define LIBC_NAME(type, name, target, ...)				\
	SLUB_EXPORT type name(__VA_ARGS__)				\
		__attribute__((alias(#target)));

#ifndef __clang__
#pragma GCC diagnostic ignored "-Wmissing-attributes"
#endif
LIBC_NAME(void *, __libc_calloc, calloc, size_t, size_t)
LIBC_NAME(void *, __libc_realloc, realloc, void *, size_t)
LIBC_NAME(void *, __libc_memalign, memalign, size_t, size_t)
LIBC_NAME(void *, __libc_valloc, valloc, size_t)
LIBC_NAME(void *, __libc_pvalloc, pvalloc, size_t)
LIBC_NAME(int, __posix_memalign, posix_memalign, void **, size_t, size_t)
#endif
