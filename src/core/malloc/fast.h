/* SPDX-License-Identifier: MIT */
/*
 * What the fast paths have in common with those of the hardened build (core/malloc/fast.c,
 * core/malloc/fast_hardened.c): classes of a page or more, and the objects of others.
 */
#ifndef SLUB_FAST_H
#define SLUB_FAST_H

#include "core/malloc/front.h"

/* Pops an object of a class of a page or more: their links lie in the table of pages. */
static always_inline void *list_pop_paged(size_t bytes)
{
	uintptr_t slot = malloc_slot[size_index(bytes)], t;
	void *object;

	RSEQ_POP_PAGE(object, slot, t, page_link_bias);
	if (!object)
		__builtin_unreachable();
	if (KEYS)
		*page_link(page_link_bias, object) = LINK_USED;
	return object;
failed:
aborted:
	return sequence_end(NULL);
}

/*
 * Is it a class of a page or more, with a list?  The size alone decides: a handler may
 * open the fast paths after malloc() has found them closed.
 */
static always_inline bool is_paged(size_t bytes)
{
	return bytes - (CLASS_WORD_MAX + 1) < CLASS_BYTES_MAX - CLASS_WORD_MAX;
}

static always_inline void *list_pop_if_paged(size_t bytes)
{
	return likely(is_paged(bytes) && slub_thread.malloc_limit) ?
		       list_pop_paged(bytes) : NULL;
}

static __attribute__((__noinline__)) void *pop_paged(size_t bytes)
{
	return list_pop_if_paged(bytes);
}

/* An object of @cache that no list here has taken. */
static always_inline void free_unpushed(void *ptr, struct slub_cache *cache)
{
	if (cache->account_path == ACCOUNT_SLOW)
		slow_free(ptr);
	else
		account_free_object(ptr, cache);
}

/*
 * Frees an object of @cache, whose slot is @slot.  It is what free() would have done, had the
 * thread known that the map reaches this page, or had the map room for the slot.  Cold: other
 * code has its place among what every program runs.
 */
static cold __attribute__((__noinline__)) void
free_behind(void *ptr, uintptr_t slot, struct slub_cache *cache);

/* @ptr belongs to @cache, in page @index of the map; no class of malloc from a page on. */
static always_inline void free_others(void *ptr, size_t index, uintptr_t slot,
				      struct slub_cache *cache)
{
	if (cache->account_path == ACCOUNT_PAGED) {
		account_free_object(ptr, cache);
	} else if (unlikely(cache->frees_far ||
			    free_limit_of(index) >= slub_thread.free_limit) &&
		   slub_thread.self.base == slub_cpu_base &&
		   cache_is_at_object(cache, ptr)) {
		fast_paths_open_now();
		free_behind(ptr, cache->frees_far ? cache->list_slot : slot, cache);
	} else {
		free_unpushed(ptr, cache);
	}
}

/*
 * The slot of the class of a page or more that @ptr is of.  0: it is of none, and was freed as what
 * it is.
 */
static always_inline uintptr_t paged_slot(void *ptr)
{
	size_t index = pagemap_index(ptr);
	struct slub_cache *cache = NULL;
	uintptr_t slot = 0;

	if (likely(index < __atomic_load_n(&pagemap_limit, __ATOMIC_RELAXED))) {
		slot = ((uint16_t *)pagemap_base)[index];
		if (slot - malloc_paged_slots < malloc_paged_slots_bytes)
			return slot + SLOT_BYTES;
		cache = cache_of_entry((uint32_t)slot);
	}
	if (cache)
		free_others(ptr, index, slot, cache);
	else
		slow_free(ptr);
	return 0;
}

/* An object of @cache looks free, and is not; false: it is, and that was reported. */
static bool push_undo(void *ptr, struct slub_cache *cache);
static __attribute__((__noinline__)) void free_paged(void *ptr);

static __attribute__((__noinline__)) void free_aborted(void *ptr)
{
	struct slub_cache *cache = cache_of(ptr);

	if (!cache || push_undo(ptr, cache))
		free_paged(ptr);
}

#endif
