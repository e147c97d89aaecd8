/* SPDX-License-Identifier: MIT */
/*
 * The fast paths of malloc() and free().  malloc: a table gives the slot for the size; pop.
 * free: the map gives the slot for the page; push.
 *
 * The thread's two limits turn away a size without a class, a foreign pointer, a library
 * that has not started and a thread that is not registered.  All other unusual cases (a
 * pointer without a slab, an empty or full list, a CPU that is stopped) find a slot that
 * is empty or has no room, and so take the slow path without a test of their own.  Two further
 * tests are for misuse: is the check word of the object right that is handed out
 * (core/slab/key.h), and does an object begin where one is freed that does not look free.
 * tests/golden holds the listings: no stack frame, no call.  The hardened build has others
 * (core/malloc/fast_hardened.c).
 */
#include "core/malloc/malloc.h"

#if !SLUB_CONFIG_HARDENED
#include "core/malloc/fast.h"

/* Pops an object for @bytes.  NULL: the list is empty, or the sequence was aborted. */
static always_inline void *class_pop(size_t bytes)
{
	struct front front = front_sizes();
	uintptr_t slot = front_slot(front, bytes), t;
	void *object;

	if (KEYS)
		RSEQ_POP_KEY_IN(front, object, slot, t, slub_key);
	else
		RSEQ_POP_IN(front, object, slot, t);
	/* Tells the compiler that the result is not NULL. */
	if (!object)
		__builtin_unreachable();
	if (KEYS)
		link_clear_keyed(object);
	return object;
failed:
aborted:
	return sequence_end(NULL);
}

/*
 * The slot that the map names for classes of a page or more has no room, so their frees
 * end up in free_paged(), like the frees of accounted objects.  Requests of threads in
 * groups end up in alloc_paged().
 */
static __attribute__((__noinline__)) void *alloc_paged(size_t bytes)
{
	void *object;

	if (unlikely(group_current()))
		return account_malloc(bytes);
	object = list_pop_if_paged(bytes);
	return likely(object) ? object : slow_alloc(bytes);
}

/*
 * A push of @ptr, an object of @cache, was aborted.  The push may have written the key,
 * and the object then looks free although it is not.  Without keys there is nothing to undo.
 * False: it is free, and that was reported.
 */
static bool push_undo(void *ptr, struct slub_cache *cache)
{
	return !cache_may_have_keys(cache) || suspect_aborted(cache, ptr);
}

static cold __attribute__((__noinline__)) void
free_behind(void *ptr, uintptr_t slot, struct slub_cache *cache)
{
	uintptr_t t;

	if (KEYS)
		RSEQ_PUSH_KEY_IN(SLUB_SEQ_SELF, ptr, slot, t, slub_key);
	else
		RSEQ_PUSH(ptr, slot, t);
	return;
aborted:
	if (!push_undo(ptr, cache))
		return;
failed:
	free_unpushed(ptr, cache);
}

static __attribute__((__noinline__)) void free_paged(void *ptr)
{
	uintptr_t slot = paged_slot(ptr), t;
	void **link;

	if (!slot)
		return;
	link = page_link(page_link_bias, ptr);
	/* Only whole pages: slow_free() knows where the objects of others begin. */
	if (KEYS && unlikely(*link != LINK_USED ||
			     (uintptr_t)ptr % PAGE_BYTES))
		goto refused;
	RSEQ_PUSH_PAGE(ptr, slot, t, link);
	return;
aborted:
	/* The link may have been written; the object is not free all the same. */
	if (KEYS)
		*link = LINK_USED;
failed:
refused:
	slow_free(ptr);
}

SLUB_HOT void *fast_pop(size_t bytes)
{
	size_t less = bytes - MALLOC_LIMIT_LESS;

	return likely(less < front_malloc_limit()) ? class_pop(bytes) : pop_paged(bytes);
}

static always_inline void *alloc_inline(size_t bytes)
{
	void *object;

	if (unlikely(bytes - MALLOC_LIMIT_LESS >= front_malloc_limit()))
		return alloc_paged(bytes);
	object = class_pop(bytes);
	return likely(object) ? object : slow_alloc(bytes);
}

static __attribute__((__noinline__)) void
free_sized_paged(void *ptr, size_t told)
{
	if (!ptr)
		return;
	sized_check(ptr, told, 0);
	free_paged(ptr);
}

static __attribute__((__noinline__)) void
free_sized_aborted(void *ptr, size_t told)
{
	sized_check(ptr, told, 0);
	free_aborted(ptr);
}

/* @is_told: the program has named a size, @told. */
static always_inline void free_inline(void *ptr, bool is_told, size_t told)
{
	struct front front = front_map();
	size_t place = front_place(front, ptr);
	uintptr_t slot, t;

	if (unlikely(place >= front_free_limit()))
		goto failed;
	slot = front_entry(front, place);
	if (KEYS && unlikely(!front_is_start(front, slot, ptr)))
		goto failed;
#if ARCH_HAS_LOCAL
	uintptr_t u, v;

	RSEQ_FREE_KEY_IN(front, ptr, slot, t, u, v, slub_key, local_bias);
	return;
#endif
	if (KEYS)
		RSEQ_PUSH_KEY_IN(front, ptr, slot, t, slub_key);
	else
		RSEQ_PUSH_IN(front, ptr, slot, t);
	return;
aborted:
	if (is_told)
		free_sized_aborted(ptr, told);
	else
		free_aborted(ptr);
	return;
failed:
	if (is_told)
		free_sized_paged(ptr, told);
	else
		free_paged(ptr);
}

SLUB_HOT void *fast_alloc(size_t bytes)
{
	return alloc_inline(bytes);
}

SLUB_HOT void fast_free(void *ptr)
{
	free_inline(ptr, false, 0);
}

SLUB_HOT void fast_free_sized(void *ptr, size_t told)
{
	free_inline(ptr, true, told);
}

/* The C functions are these, under their public names (interpose.c). */
SLUB_EXPORT SLUB_HOT void *malloc(size_t bytes)
{
	return alloc_inline(bytes);
}

SLUB_EXPORT SLUB_HOT void free(void *ptr)
{
	free_inline(ptr, false, 0);
}

#if defined(__GLIBC__)
/* glibc's internal names of the same functions. */
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wmissing-attributes"
#endif
SLUB_EXPORT void *__libc_malloc(size_t bytes) __attribute__((alias("malloc")));
SLUB_EXPORT void __libc_free(void *ptr) __attribute__((alias("free")));
#endif

#endif
