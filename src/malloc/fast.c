/* SPDX-License-Identifier: MIT */
/*
 * The fast paths of malloc() and free(), and nothing else.
 *
 * malloc: size -> slot by a table, pop.  free: page -> slot by the map, push.
 * Whatever is out of the ordinary (a size without a class, a pointer without a
 * slab, a list that is empty or full, a library that has not started, a
 * thread that is not registered, a CPU that is stopped) meets a slot that is
 * empty or has no room and leaves for the slow path; there is no test for it
 * here.  tests/golden holds the listings: at most 22 instructions each, no
 * stack frame, no call.
 */
#include "malloc/malloc.h"

#if ARCH_HAS_RSEQ

static always_inline void *alloc_inline(size_t bytes)
{
	uintptr_t slot, t;
	void *object;

	if (unlikely(bytes >= malloc_limit))
		goto failed;
	slot = malloc_slot[(bytes + CLASS_STEP - 1) / CLASS_STEP];
	RSEQ_POP(object, slot, t);
	return object;
failed:
aborted:
	return slow_alloc(bytes);
}

static always_inline void free_inline(void *ptr)
{
	size_t index = pagemap_index(ptr);
	uintptr_t slot, t;

	if (unlikely(index >= pagemap_limit))
		goto failed;
	slot = ((uint16_t *)pagemap_base)[index];
	RSEQ_PUSH(ptr, slot, t);
	return;
failed:
aborted:
	slow_free(ptr);
}

#else

static always_inline void *alloc_inline(size_t bytes)
{
	return slow_alloc(bytes);
}

static always_inline void free_inline(void *ptr)
{
	slow_free(ptr);
}

#endif

SLUB_HOT void *fast_alloc(size_t bytes)
{
	return alloc_inline(bytes);
}

SLUB_HOT void fast_free(void *ptr)
{
	free_inline(ptr);
}

/* The C functions are these, under their public names (interpose.c). */
SLUB_EXPORT SLUB_HOT void *malloc(size_t bytes)
{
	return alloc_inline(bytes);
}

SLUB_EXPORT SLUB_HOT void free(void *ptr)
{
	free_inline(ptr);
}
