/* SPDX-License-Identifier: MIT */
/*
 * The hardened build (-DSLUB_HARDENED=ON): what is checked when objects come and
 * go, also on the fast paths.  Links are encoded (arch/slot.h), objects end in a
 * tail (hardened_tail.h), and an object that is handed out loses its link.
 *
 *   at alloc   the link of the head must decode to an address; what is behind
 *              a link that does not is given up (leaked), and that is reported;
 *              what a free has filled with zeros is so still
 *   at free    the pointer is that of an object, by the geometry of its slab;
 *              the object has no link, or it is free already; its tail, and that
 *              of the object before it, are as they were written; it is the
 *              call that belongs to the one that allocated
 *   at exit    the tails are as they were written
 *   in chains  as at alloc, and what follows lies in a slab of the same cache
 *   new slabs  objects are linked in random order
 *
 * An object whose link is in its page's descriptor has LINK_USED there while
 * it is allocated.
 *
 * Nothing of this is compiled otherwise: callers ask SLUB_CONFIG_HARDENED.
 */
#ifndef SLUB_HARDENED_H
#define SLUB_HARDENED_H

#include "debug/misuse.h"
#include "slab/slab_internal.h"

/* Before any cache is made. */
void hardened_init(void);
void hardened_cache_made(const struct slub_cache *cache);
void hardened_cache_unmade(const struct slub_cache *cache);
/* Lists at @slot will have objects of @cache. */
void hardened_slot_made(const struct slub_cache *cache, uint32_t slot);

/* ---- free ---- */

/*
 * What is so of every object that is allocated and has a tail; then it is filled.  @call:
 * TAIL_CALL() of what must have allocated it, or TAIL_CALL_ANY.
 */
static always_inline bool may_push(const struct slot_check *g, char *ptr,
				   uint64_t call)
{
	size_t bytes = __builtin_constant_p(call) && call == TAIL_CALL_ANY ?
			       tail_read(g, tail_of(g, ptr)) :
			       tail_read_all(g, tail_of(g, ptr)) ^ call;

	if (unlikely(bytes > g->tail || !pad_is_right(g, ptr, bytes) ||
		     !tail_before_is_right(g, ptr)))
		return false;
	fill_write(ptr, min_size(bytes, g->fill));
	return true;
}

/* May a free push @ptr, whose link is its first word, without a closer look? */
static always_inline bool hardened_may_push(void *ptr, uintptr_t slot,
					    uint64_t call)
{
	const struct slot_check *g = slot_check(slot);

	return likely(is_at_object(g, ptr) &&
		      !link_is_plausible(link_decode(slot, ptr,
						     *(void **)ptr))) &&
	       may_push(g, ptr, call);
}

/* The same for one whose link is in its page's descriptor. */
static always_inline bool hardened_may_push_page(void *ptr, uintptr_t slot)
{
	const struct slot_check *g = slot_check(slot);

	return likely(is_at_object(g, ptr) &&
		      *page_link(page_link_bias, ptr) == LINK_USED) &&
	       may_push(g, ptr, TAIL_CALL_ANY);
}

/*
 * A push was aborted, and @ptr, whose link is its first word, is in no list: it has to be
 * as it was, but for the fill.
 */
static always_inline void hardened_unlinked(void *ptr, uintptr_t slot)
{
	const struct slot_check *g = slot_check(slot);
	size_t bytes = tail_read(g, tail_of(g, ptr));

	word_store(ptr, bytes < 8 ? TAIL_PAD << 8 * bytes : 0);
}

/* @object of @cache was in a list of frees that had to wait, as its user left it. */
static inline void hardened_postponed(const struct slub_cache *cache,
				      void *object)
{
	if (!link_is_in_object(cache->link))
		*link_of(cache, object) = LINK_USED;
	else if (!cache->link && slot_check(cache->list_slot)->tail)
		hardened_unlinked(object, cache->list_slot);
	else
		*link_of(cache, object) = NULL;
}

/*
 * Is @object of @cache one that a program may have, and nothing written around it?  False:
 * it is not, and was reported as what @call has found.
 */
bool hardened_check(const struct slub_cache *cache, void *object,
		    const char *call);
/*
 * May @call (TAIL_CALL()) free @ptr, as far as what allocated it is known?  False: it may not,
 * and was reported as what @name has found, or the function of @call if that is NULL.  What
 * else may be wrong with @ptr is for others to see.
 */
bool hardened_may_call(const void *ptr, uint64_t call, const char *name);
/* The same of realloc(), and @ptr, an object of @cache or of none, that was looked at. */
static inline bool hardened_may_realloc(const struct slub_cache *cache,
					const void *ptr)
{
	const struct slot_check *g;

	if (likely(cache)) {
		g = slot_check(cache->list_slot);
		if (likely(!g->tail ||
			   tail_read_all(g, tail_of(g, ptr)) <= g->tail))
			return true;
	}
	return !ptr || hardened_may_call(ptr, TAIL_CALL(CALL_MALLOC), "realloc");
}
/* What allocated @ptr, as a TAIL_CALL(); that of CALL_UNKNOWN: it is not said. */
uint64_t hardened_call(const void *ptr);
/* The same before it goes to a list; then it is filled. */
bool hardened_free(struct slub_cache *cache, void *object);
/* @object of @cache is nobody's any more: fills it. */
static inline void hardened_fill(const struct slub_cache *cache, void *object)
{
	const struct slot_check *g = slot_check(cache->list_slot);
	size_t bytes;

	if (!SLUB_CONFIG_HARDENED || !g->tail)
		return;
	bytes = tail_read(g, tail_of(g, object));
	if (bytes <= g->tail)
		fill_write(object, min_size(bytes, g->fill));
}

/* ---- alloc ---- */

/* @ptr, which malloc() is about to return, is what @bytes were asked for. */
static always_inline void *hardened_sealed(void *ptr, size_t bytes)
{
	if (SLUB_CONFIG_HARDENED && likely(ptr)) {
		uint32_t entry = pagemap_get(ptr);
		const struct slot_check *g = slot_check(entry);

		if (likely(g->tail))
			tail_write(g, ptr, bytes);
		else if (entry == MAP_LARGE && large_asked(ptr) != bytes)
			large_ask(ptr, bytes);
	}
	return ptr;
}

/* @ptr, which malloc() has just returned, was asked for by @call, a TAIL_CALL(). */
static always_inline void hardened_called(void *ptr, uint64_t call)
{
	uint32_t entry = pagemap_get(ptr);
	const struct slot_check *g = slot_check(entry);

	if (likely(g->tail))
		tail_call_add(g, ptr, call);
	else if (entry == MAP_LARGE)
		large_call_add(ptr, call);
}

/* @from of @cache has moved to @to, byte by byte. */
static inline void hardened_moved(const struct slub_cache *cache,
				  const void *from, void *to)
{
	const struct slot_check *g = slot_check(cache->list_slot);
	size_t bytes;

	if (!SLUB_CONFIG_HARDENED || !g->tail)
		return;
	bytes = tail_read_all(g, tail_of(g, from));
	if ((bytes & ~TAIL_CALL_MASK) > g->tail)
		return;
	tail_write(g, to, bytes & ~TAIL_CALL_MASK);
	tail_call_add(g, to, bytes & TAIL_CALL_MASK);
}

/* What of @object, of @cache, was asked for. */
static inline size_t hardened_bytes(const struct slub_cache *cache,
				    const void *object)
{
	const struct slot_check *g = slot_check(cache->list_slot);

	if (!g->tail)
		return cache->object_size;
	return min_size(tail_read(g, tail_of(g, object)), cache->object_size);
}

/*
 * What follows @object of @cache where objects of a cache and of what stands for it,
 * watched or sampled, are linked to each other: in what is put aside (prefill).
 */
void *hardened_next_aside(struct slub_cache *cache, void *object);
/* @slot of this CPU has a list that nothing can be popped off: takes it away. */
void hardened_mend(struct slub_cache *cache, uint32_t slot);
/* Where @cache has what it hands out; hardened_quarantine.c. */
uint32_t hardened_alloc_slot(const struct slub_cache *cache);
/* Option quarantine is not 0. */
bool hardened_has_quarantine(void);
/* malloc's caches get such a slot each, if there is a quarantine; 0 or -ENOSPC. */
int hardened_caches_prepare(struct slub_cache *caches, uint32_t nr);
/* That slot, not the cache's own, is empty: fills it; an object, or NULL: no memory. */
void *hardened_alloc_slow(struct slub_cache *cache);
/* At exit: are the tails of all objects as they were written?  One that is not is reported. */
void hardened_finish(void);
/* Puts @nr pointers in random order. */
void hardened_shuffle(void **objects, uint32_t nr);
/* @nr objects from @first on are carved; under the node's lock. */
void hardened_carved(const struct slub_cache *cache, char *first, uint32_t nr);
/* Links @nr new objects in random order; returns the first. */
void *hardened_link(struct slub_cache *cache, char *first, uint32_t nr);

#endif
