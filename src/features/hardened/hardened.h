/* SPDX-License-Identifier: MIT */
/*
 * The hardened build (-DSLUB_HARDENED=ON): the checks of objects that come and
 * go, also on the fast paths.  Links are encoded (core/arch/slot.h), objects end in a
 * tail, and an object that is handed out loses its link.
 *
 *   at alloc   the link of the head must decode to an address.  A list ends at a
 *              link that does not: the rest of it is given up (leaked), and
 *              reported.  The head lies in a slab of the list's cache, its tail says that it
 *              is free, and the bytes that a free has filled are zeros still; else it is
 *              reported, and left out of use
 *   at free    the tail behind the pointer says that an object begins there, for the
 *              address is a part of its key; and that it is allocated, by a call that the
 *              free belongs to.  The pad, and the tail of the object before it, are as they
 *              were written.  The slow paths look at the geometry of the slab, too, and at
 *              the link: an object with one is free already
 *   at exit    the tails are as they were written, and what is free in this CPU's lists is as at
 *              alloc
 *   in chains  as at alloc, and the next object lies in a slab of the same cache
 *   new slabs  objects are linked in random order
 *
 * An object whose link is in its page's descriptor has LINK_USED there while
 * it is allocated.
 *
 * Other builds compile none of this: callers ask SLUB_CONFIG_HARDENED.
 *
 * Tests: tests/debug/hardened_*, tests/attack, tests/misuse.
 * Page: docs/operate/hardening.md.
 */
#ifndef SLUB_HARDENED_H
#define SLUB_HARDENED_H

#include "features/hardened/fence.h"
#include "core/slab/key.h"
#include "features/hardened/tail.h"

/*
 * New objects that change places among each other: more, and neighbours lie on other pages.
 * (json: 2.5 of the default build's time with 128, 1.7 with 16.)  No fewer are carved, but for the
 * last of a slab: of a page's worth of 2 KiB the second lay beside the first each time.
 */
#define HARDENED_SHUFFLED 16

/* ---- from a list to a program ---- */

/*
 * hardened.c: what is not as hardened_is_sound() wants it: a new object, a long fill, or one
 * that was written to, or its tail, or the link to it.  That is reported; false: so nobody is to
 * get it, for it may be another's.
 */
bool hardened_look(const struct slot_check *g, void *object);
/*
 * @object of @cache leaves its chain for the program: it has no link any more.  Or another in its
 * place, if it is damaged; NULL: there is no memory.
 */
void *hardened_unchained(struct slub_cache *cache, void *object);

/*
 * Does @object, which was popped, lie where the map has the cache of the list?  A secret is a
 * cache's.  False: it does not, or the entry is that of a far slot (core/arch/slot.h).
 */
static always_inline bool is_of_cache(const struct slot_check *g, const void *object)
{
	return likely(slot_check(pagemap_get(object))->secret == g->secret);
}

/* Is @object, which was free, as a free leaves it?  Its tail, at @tail in it, and its fill tell. */
static always_inline bool is_sound(const struct slot_check *g,
				   const void *object, size_t tail,
				   uint64_t key)
{
	const uint64_t *place = (const uint64_t *)((const char *)object + tail);
	uint64_t bits = tail_rotated(tail_word(place) ^ key) ^ TAIL_FREE;

	return likely(bits <= tail &&
		      fill_is_right(g, (const char *)object));
}

static inline bool hardened_is_sound(const struct slot_check *g,
				     const void *object)
{
	return is_of_cache(g, object) && is_sound(g, object, g->tail, tail_key(g, object));
}

/*
 * Writes the tail, at @tail, and the pad of @object, which a program is about to get for a
 * request of @bytes, and whose bytes may be anything.  The last of them become zeros.
 */
static always_inline void seal_new(void *object, size_t bytes, size_t tail,
				   uint64_t key)
{
	size_t at = pad_at(tail, bytes);

	word_store((char *)object + at, TAIL_PAD & words_behind[bytes - at]);
	tail_set_by(key, (uint64_t *)((char *)object + tail), bytes);
}

/*
 * May a program have @object, which was popped?  Its tail and the bytes that were filled are as a
 * free has left them.  False: it is to be left out of use.
 */
static inline bool hardened_may_hand_out(const struct slot_check *g, void *object)
{
	return hardened_is_sound(g, object) || hardened_look(g, object);
}

/* ---- caches ---- */

/* Before any cache is made. */
void hardened_init(void);
void hardened_cache_made(const struct slub_cache *cache);
void hardened_cache_unmade(const struct slub_cache *cache);
/* Lists at @slot will have objects of @cache. */
void hardened_slot_made(const struct slub_cache *cache, uint32_t slot);

/* ---- free ---- */

/*
 * Is @ptr as an allocated object with a tail must be?  If so, it is filled, and its tail says
 * that it is free; hardened_unpush() takes that back.  The mark comes first: is_intact() must
 * not find a filled pad behind a tail without it.  @call: TAIL_CALL() of the call that must
 * have allocated it, or TAIL_CALL_ANY.  @is_far: fill_is_far().  Leaves the key of its link.
 */
static always_inline bool may_push(const struct slot_check *g, void *ptr,
				   uint64_t call, bool is_far, uint64_t *link)
{
	bool any = __builtin_constant_p(call) && call == TAIL_CALL_ANY;
	uint64_t key, word;
	size_t bytes;

	/* First, for the offset in the slab is in a register now. */
	if (unlikely(!tail_before_is_right(g, ptr)))
		return false;
	key = g->secret ^ __builtin_bswap64((uintptr_t)ptr);
	/* In one piece, for the link. */
	__asm__("" : "+r"(key));
	*link = key;
	key = tail_key_by(key);
	word = tail_word(tail_of(g, ptr));
	bytes = any ? tail_rotated(word ^ key) << 2 >> 2 :
		      tail_rotated(word ^ key) ^ call;
	if (unlikely(bytes > g->tail || !pad_is_right(g, (char *)ptr, bytes)))
		return false;
	word = any ? key ^ (uint64_t)bytes << TAIL_SIZE_SHIFT : word ^ call >> 16;
	/* To load the offset again is cheaper than a register that has to be saved. */
	__asm__("" : "+r"(g));
	__atomic_store_n(tail_of(g, ptr), word ^ TAIL_FREE >> 16,
			 __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	if (is_far)
		hardened_fill_far(ptr, g->fill);
	else
		fill_write(g, ptr);
	return true;
}

/*
 * May a free push @ptr, whose link is its first word, without a closer look?  Nothing asks
 * whether an object begins there: behind any other address no tail decodes, and at the start
 * of a slab one begins.  Slots whose pages may be unreadable are far.  If so, *@link is the key
 * of the link.
 */
static always_inline bool hardened_may_push(void *ptr, uintptr_t slot,
					    uint64_t call, uint64_t *link)
{
	const struct slot_check *g = slot_check(slot);

	return !fill_is_far(g) && may_push(g, ptr, call, false, link);
}

/* The same where fill_is_far(), or may be. */
static inline bool hardened_may_push_far(void *ptr, uintptr_t slot,
					 uint64_t call)
{
	const struct slot_check *g = slot_check(slot);
	uint64_t link;

	return likely(is_at_object(g, ptr)) &&
	       may_push(g, ptr, call, fill_is_far(g), &link);
}

/* The same for an object whose link is in the descriptor of its page. */
static always_inline bool hardened_may_push_page(void *ptr, uintptr_t slot)
{
	const struct slot_check *g = slot_check(slot);
	uint64_t link;

	return likely(is_at_object(g, ptr) &&
		      *page_link(page_link_bias, ptr) == LINK_USED) &&
	       may_push(g, ptr, TAIL_CALL_ANY, fill_is_far(g), &link);
}

/*
 * @ptr was to be pushed, and is in no list.  If it was marked as free it is an allocated object
 * again, of malloc; the fill stays.
 */
static inline void hardened_unmark(const struct slot_check *g, void *ptr)
{
	size_t bytes = tail_read(g, ptr) ^ TAIL_FREE;

	if (bytes <= g->tail)
		tail_write(g, ptr, bytes);
}

/* The same for an object that may have a link in its first word, which is a part of its pad. */
static inline void hardened_unpush(const struct slot_check *g, void *ptr)
{
	size_t bytes;

	hardened_unmark(g, ptr);
	bytes = tail_read(g, ptr);
	if (!tail_is_far(g))
		word_store(ptr, bytes < 8 ? TAIL_PAD << 8 * bytes : 0);
}

/* @object of @cache comes from a list of frees that had to wait: takes that link away. */
static inline void hardened_postponed(const struct slub_cache *cache,
				      void *object)
{
	const struct slot_check *g = slot_check(cache->list_slot);

	if (g->tail && !cache->link) {
		hardened_unpush(g, object);
		return;
	}
	*object_link(cache->link, object) =
		link_is_in_object(cache->link) ? NULL : LINK_USED;
	if (g->tail)
		hardened_unmark(g, object);
}

/*
 * May a program have @object of @cache, and was nothing written around it?  False: no, and
 * it was reported as a finding of @call.
 */
bool hardened_check(const struct slub_cache *cache, void *object,
		    const char *call);
/*
 * May @call (TAIL_CALL()) free @ptr, if the call that allocated it is known?  False: no, and
 * it was reported as a finding of @name, or of the function of @call if @name is NULL.  Other
 * checks look at everything else that may be wrong with @ptr.
 */
bool hardened_may_call(const void *ptr, uint64_t call, const char *name);
/* The same for realloc(), of @ptr, an object of @cache or of none, that was checked. */
static inline bool hardened_may_realloc(const struct slub_cache *cache,
					const void *ptr)
{
	const struct slot_check *g;

	if (likely(cache)) {
		g = slot_check(cache->list_slot);
		if (likely(!g->tail ||
			   tail_read_all(g, ptr) <= g->tail))
			return true;
	}
	return hardened_may_call(ptr, TAIL_CALL(CALL_MALLOC), "realloc");
}
/* The call that allocated @ptr, as a TAIL_CALL(); that of CALL_UNKNOWN: not known. */
uint64_t hardened_call(const void *ptr);
/* hardened_check() of an object that is freed; then fills it. */
bool hardened_free(struct slub_cache *cache, void *object);
/* Fills @object of @cache, which was freed, and marks it as free. */
static inline void hardened_fill(const struct slub_cache *cache, void *object)
{
	const struct slot_check *g = slot_check(cache->list_slot);
	size_t bytes;

	if (!SLUB_CONFIG_HARDENED || !g->tail)
		return;
	bytes = tail_read(g, object);
	if (bytes > g->tail)
		return;
	tail_set(g, object, bytes | TAIL_FREE);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	if (fill_is_far(g))
		hardened_fill_far(object, g->fill);
	else
		fill_write(g, object);
}

/* ---- alloc ---- */

/* Writes the tail of @ptr, which malloc() is about to return for a request of @bytes. */
static always_inline void *hardened_sealed(void *ptr, size_t bytes)
{
	if (SLUB_CONFIG_HARDENED && likely(ptr)) {
		uint32_t entry = pagemap_get(ptr);
		const struct slot_check *g = entry_check(entry);

		if (likely(g->tail))
			tail_write(g, ptr, bytes);
		else if (entry == MAP_LARGE && large_asked(ptr) != bytes)
			large_ask(ptr, bytes);
	}
	return ptr;
}

/* Enters @call, a TAIL_CALL(), for @ptr, which malloc() has just returned. */
static always_inline void hardened_called(void *ptr, uint64_t call)
{
	uint32_t entry = pagemap_get(ptr);
	const struct slot_check *g = entry_check(entry);

	if (likely(g->tail))
		tail_call_add(g, ptr, call);
	else if (entry == MAP_LARGE)
		large_call_add(ptr, call);
}

/* @from of @cache was copied to @to, byte by byte: writes the tail of @to. */
static inline void hardened_moved(const struct slub_cache *cache,
				  const void *from, void *to)
{
	const struct slot_check *g = slot_check(cache->list_slot);
	size_t bytes;

	if (!SLUB_CONFIG_HARDENED || !g->tail)
		return;
	bytes = tail_read_all(g, from);
	if ((bytes & ~TAIL_CALL_MASK) > g->tail)
		return;
	tail_write(g, to, bytes & ~TAIL_CALL_MASK);
	tail_call_add(g, to, bytes & TAIL_CALL_MASK);
}

/* The requested bytes of @object, of @cache. */
static inline size_t hardened_bytes(const struct slub_cache *cache,
				    const void *object)
{
	const struct slot_check *g = slot_check(cache->list_slot);

	if (!g->tail)
		return cache->object_size;
	return min_size(tail_read(g, object), cache->object_size);
}

/*
 * The object behind @object of @cache in a prefill.  Objects of a cache and of its shadows,
 * watched or sampled, are linked to each other there.
 */
void *hardened_next_aside(struct slub_cache *cache, void *object);
/* No object can be popped off the list at @slot of this CPU: takes the list away. */
void hardened_mend(struct slub_cache *cache, uint32_t slot);
/* The slot from which @cache hands objects out; hardened_quarantine.c. */
uint32_t hardened_alloc_slot(const struct slub_cache *cache);
/* Option quarantine is not 0. */
bool hardened_has_quarantine(void);
/* malloc's caches get such a slot each, if there is a quarantine; 0 or -ENOSPC. */
int hardened_caches_prepare(struct slub_cache *caches, uint32_t nr);
/* The list at @slot, that one, is empty: fills it.  An object, or NULL: there is no memory. */
void *hardened_alloc_slow(struct slub_cache *cache, uint32_t slot);
/* Does @chain, which was taken off a list of @cache, begin with an object?  If not: reports it. */
bool hardened_is_head(const struct slub_cache *cache, void *chain);
/* Looks at what is free in this CPU's lists, as malloc() would. */
void hardened_lists_look(void);
/* At exit: the same, and reports the first tail that is not as it was written. */
void hardened_finish(void);
/* A random number below @end; 0 if that is 0. */
uint32_t hardened_random(uint32_t end);
/* Writes the tails of @nr carved objects from @first on; under the node's lock. */
void hardened_carved(const struct slub_cache *cache, char *first, uint32_t nr);
/* Links @nr new objects in random order; returns the first. */
void *hardened_link(struct slub_cache *cache, char *first, uint32_t nr);

#endif
