/* SPDX-License-Identifier: MIT */
/*
 * The hardened build (-DSLUB_HARDENED=ON): what is checked when objects come and
 * go, also on the fast paths.  Links are encoded (arch/slot.h), and an object
 * that is handed out loses its link.
 *
 *   at alloc   the link of the head must decode to an address; what is behind
 *              a link that does not is given up (leaked), and that is reported
 *   at free    the pointer is that of an object, by the geometry of its slab;
 *              the object has no link, or it is free already
 *   in chains  as at alloc, and what follows lies in a slab of the same cache
 *   new slabs  objects are linked in random order
 *
 * An object whose link is in its page's descriptor has HARDENED_MARK there while
 * it is allocated.
 *
 * Nothing of this is compiled otherwise: callers ask SLUB_CONFIG_HARDENED.
 */
#ifndef SLUB_HARDENED_H
#define SLUB_HARDENED_H

#include "slab/slab_internal.h"

#define HARDENED_MARK ((void *)-1)

/* Option zero_on_free. */
extern bool hardened_zeroes SLUB_INTERNAL;

/* Before any cache is made. */
void hardened_init(void);
void hardened_cache_made(const struct slub_cache *cache);
void hardened_cache_unmade(const struct slub_cache *cache);
/* Lists at @slot will have objects of @cache. */
void hardened_slot_made(const struct slub_cache *cache, uint32_t slot);

/*
 * struct slot_check (arch/slot.h), of the slabs whose pages name the slot: is an
 * offset that of an object?  Of a cache with two slots the second, its lists', says
 * what to fill.
 */

/* A multiple of the size times 2^64 / size has no fraction to speak of.  Magic 0: never. */
static always_inline bool is_at_object(const struct slot_check *g,
				       const void *ptr)
{
	uint64_t offset = (uint32_t)(uintptr_t)ptr & g->mask;

	return offset * g->magic < g->magic;
}

/* May a free push @ptr, whose link is its first word, without a closer look? */
static always_inline bool hardened_may_push(void *ptr, uintptr_t slot)
{
	const struct slot_check *g = slot_check(slot);

	if (unlikely(!is_at_object(g, ptr) ||
		     link_is_plausible(link_decode(slot, ptr,
						   *(void **)ptr))))
		return false;
	if (unlikely(hardened_zeroes))
		__builtin_memset(ptr, 0, g->zero_bytes);
	return true;
}

/* The same for one whose link is in its page's descriptor. */
static always_inline bool hardened_may_push_page(void *ptr, uintptr_t slot)
{
	const struct slot_check *g = slot_check(slot);

	if (unlikely(!is_at_object(g, ptr) ||
		     *page_link(page_link_bias, ptr) != HARDENED_MARK))
		return false;
	if (unlikely(hardened_zeroes))
		__builtin_memset(ptr, 0, g->zero_bytes);
	return true;
}

/* Before @object of @cache goes to a list; false: it must not, and was reported. */
bool hardened_free(struct slub_cache *cache, void *object);
/* Option zero_on_free: nobody uses @object of @cache any more. */
static inline void hardened_zero(const struct slub_cache *cache, void *object)
{
	if (SLUB_CONFIG_HARDENED && unlikely(hardened_zeroes))
		__builtin_memset(object, 0,
				 slot_check(cache->list_slot)->zero_bytes);
}
/*
 * What follows @object of @cache where objects of a cache and of what stands for it,
 * watched or sampled, are linked to each other: in what is put aside (prefill).
 */
void *hardened_next_aside(struct slub_cache *cache, void *object);
/* @object is freed with a size that cannot be: reported only. */
void hardened_free_size(const struct slub_cache *cache, const void *object);
/* @slot of this CPU has a list that nothing can be popped off: takes it away. */
void hardened_mend(struct slub_cache *cache, uint32_t slot);
/* Links @nr new objects in random order; returns the first. */
void *hardened_link(struct slub_cache *cache, char *first, uint32_t nr);

#endif
