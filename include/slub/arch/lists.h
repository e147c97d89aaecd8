/* SPDX-License-Identifier: MIT */
/*
 * The inline parts of slub/cache.h: one attempt each, at this CPU's list.  Not an interface by
 * itself.
 *
 * A free object has its link in the first word, and in the second a check word: a key, xor the
 * link, xor the object's address.  Allocating looks at all of it, so no link is followed that the
 * program has written; freeing looks at 16 bits that each key has.  Objects that keep what is in
 * them have both behind that: "kept".  Others have their link where the cache says, and no check
 * word: "plain".  Freeing looks of all whether an object begins there.
 */
#ifndef SLUB_INCLUDE_ARCH_LISTS_H
#define SLUB_INCLUDE_ARCH_LISTS_H

#include <slub/percpu.h>

#ifdef __cplusplus
SLUB_C_BEGIN
extern "C" {
#endif

/* How a push ends. */
enum slub_push {
	SLUB_PUSH_DONE,
	SLUB_PUSH_FAILED,	/* nothing is changed */
	SLUB_PUSH_ABORTED,	/* slub_cache_free_aborted() goes on */
};

/*
 * slub_cache_try_pop, slub_cache_try_push - the inline parts of slub_cache_alloc() and
 * slub_cache_free(): one attempt.
 *
 * @self: from slub_percpu_entrance(), of a thread that has one.  @slot_at: where it
 * stands which the cache's list is; @entry_at: what the page map says of the cache's
 * pages; @start_at: where it stands which offsets in a slab objects have, a mask and a factor.
 * They are read when they are needed.
 * Returns the object, or SLUB_PUSH_DONE; NULL, or SLUB_PUSH_FAILED, where the list is empty,
 * or full, its first object was written to, @object is not the cache's, no object's start or looks
 * free already, or the thread has come to another CPU; NULL, or SLUB_PUSH_ABORTED, where it
 * was interrupted.  Errors: none but that.
 * Context: as slub_cache_alloc() and slub_cache_free(), which call them; use those.
 */
SLUB_INLINE void *slub_cache_try_pop(const struct slub_percpu_self *self,
				     const uint32_t *slot_at)
{
#ifdef SLUB_HAVE_SEQUENCES
	uint32_t slot = *slot_at;
	uintptr_t t;
	void *object;

	if (__builtin_expect(!slot, 0))
		goto failed;
	SLUB_SEQ_POP_KEY_HERE(*self, object, slot, t);
	if (!object)
		__builtin_unreachable();
	/* It would look free. */
	__builtin_memset((char *)object + sizeof(uintptr_t), 0, sizeof(uintptr_t));
	return object;
failed:
aborted:
	return slub_seq_end(NULL);
#else
	(void)self, (void)slot_at;
	return NULL;
#endif
}

SLUB_INLINE enum slub_push slub_cache_try_push(void *object, const uint32_t *entry_at,
					       const uint32_t *slot_at,
					       const uint32_t *start_at)
{
#ifdef SLUB_HAVE_SEQUENCES
	const struct slub_percpu_self self = slub_percpu_entrance();
	size_t page = ((uintptr_t)object - self.map_base) >> 12;
	uintptr_t t;

	/* Of a thread without an entrance the map has no pages. */
	if (__builtin_expect(page >= self.map_pages, 0) ||
	    __builtin_expect(((const uint16_t *)self.map_base)[page] != *entry_at, 0))
		goto failed;
	SLUB_SEQ_START(object, start_at, t);
	SLUB_SEQ_PUSH_KEY_HERE(self, object, *slot_at, t);
	return SLUB_PUSH_DONE;
aborted:
	return SLUB_PUSH_ABORTED;
failed:
#endif
	(void)object, (void)entry_at, (void)slot_at, (void)start_at;
	return SLUB_PUSH_FAILED;
}

/*
 * slub_cache_try_pop_plain, slub_cache_try_push_plain - the same of objects without check words.
 *
 * @link_at: where an object has its link.
 * Returns the object, or true; NULL, or false, and nothing is changed.  Errors: none but that.
 * Context: as slub_cache_try_pop().
 */
SLUB_INLINE void *slub_cache_try_pop_plain(const struct slub_percpu_self *self,
					   const uint32_t *slot_at,
					   const uintptr_t *link_at)
{
#ifdef SLUB_HAVE_SEQUENCES
	uintptr_t t;
	void *object;

	SLUB_SEQ_POP_HERE(*self, object, *slot_at, t, *link_at);
	if (!object)
		__builtin_unreachable();
	return object;
failed:
aborted:
	return slub_seq_end(NULL);
#else
	(void)self, (void)slot_at, (void)link_at;
	return NULL;
#endif
}

SLUB_INLINE bool slub_cache_try_push_plain(void *object, const uint32_t *entry_at,
					   const uint32_t *slot_at,
					   const uintptr_t *link_at,
					   const uint32_t *start_at)
{
#ifdef SLUB_HAVE_SEQUENCES
	const struct slub_percpu_self self = slub_percpu_entrance();
	size_t page = ((uintptr_t)object - self.map_base) >> 12;
	uintptr_t t;

	if (__builtin_expect(page >= self.map_pages, 0) ||
	    ((const uint16_t *)self.map_base)[page] != *entry_at)
		goto failed;
	SLUB_SEQ_START(object, start_at, t);
	SLUB_SEQ_PUSH_HERE(self, object, *slot_at, t, *link_at);
	return true;
failed:
aborted:
#endif
	(void)object, (void)entry_at, (void)slot_at, (void)link_at, (void)start_at;
	return false;
}

/*
 * slub_cache_try_pop_kept, slub_cache_try_push_kept - the same of objects with link and check word
 * behind what they keep.
 *
 * @link_at: where it stands which offset the link has.
 * Returns, errors and context: as slub_cache_try_pop() and slub_cache_try_push().
 */
SLUB_INLINE void *slub_cache_try_pop_kept(const struct slub_percpu_self *self,
					  const uint32_t *slot_at, const uintptr_t *link_at)
{
#ifdef SLUB_HAVE_SEQUENCES
	uintptr_t link = *link_at, t;
	void *object;

	SLUB_SEQ_POP_KEPT_HERE(*self, object, *slot_at, t, link);
	if (!object)
		__builtin_unreachable();
	/* It would look free. */
	__builtin_memset((char *)object + link + sizeof(uintptr_t), 0, sizeof(uintptr_t));
	return object;
failed:
aborted:
	return slub_seq_end(NULL);
#else
	(void)self, (void)slot_at, (void)link_at;
	return NULL;
#endif
}

SLUB_INLINE enum slub_push slub_cache_try_push_kept(void *object, const uint32_t *entry_at,
						    const uint32_t *slot_at,
						    const uintptr_t *link_at,
						    const uint32_t *start_at)
{
#ifdef SLUB_HAVE_SEQUENCES
	const struct slub_percpu_self self = slub_percpu_entrance();
	size_t page = ((uintptr_t)object - self.map_base) >> 12;
	uintptr_t t;

	if (__builtin_expect(page >= self.map_pages, 0) ||
	    ((const uint16_t *)self.map_base)[page] != *entry_at)
		goto failed;
	SLUB_SEQ_START(object, start_at, t);
	SLUB_SEQ_PUSH_KEPT_HERE(self, object, *slot_at, t, (char *)object + *link_at);
	return SLUB_PUSH_DONE;
aborted:
	return SLUB_PUSH_ABORTED;
failed:
#endif
	(void)object, (void)entry_at, (void)slot_at, (void)link_at, (void)start_at;
	return SLUB_PUSH_FAILED;
}

#ifdef __cplusplus
}
SLUB_C_END
#endif

#endif
