/* SPDX-License-Identifier: MIT */
/*
 * Free objects of malloc's classes are marked, so that a second free is noticed at once,
 * and a link that somebody has written to before it is followed for long.  Not in the
 * hardened build, which knows both by the link itself.
 *
 *   below a page   the second word of a free object is the key, which is the address of
 *                  the table that free() has in a register anyway
 *   a page or more the link in the table of pages is LINK_USED while the object is
 *                  allocated; no program writes there
 *
 * KEY-1  Handing an object out removes the mark; freeing it sets it.
 * KEY-2  A mark is a suspicion and no proof: programs may copy what a free object had in
 *        it.  slab/core/suspect.c makes certain.
 * KEY-3  A free object without a key may be handed out if it is one: those of programs
 *        that go past malloc (slub_cache_free() of its blocks) have none.
 *
 * free() sets the key in typed objects too that it pushes.  slub_cache_alloc() leaves it
 * there, so what it says of those is worth less.
 */
#ifndef SLUB_KEY_H
#define SLUB_KEY_H

#include "slab/slab.h"

#define KEYS (SLUB_CONFIG_CHECKS && !SLUB_CONFIG_HARDENED)
/* Objects are large enough to have one. */
#define KEY_BYTES_MIN (2 * sizeof(uintptr_t))

#define LINK_USED ((void *)-1)

/* const after start */
static always_inline uintptr_t key_value(void)
{
	return (uintptr_t)slub_map_bases;
}

static always_inline uintptr_t *key_of(const void *object)
{
	return (uintptr_t *)object + 1;
}

static always_inline void key_clear(void *object)
{
	*key_of(object) = 0;
}

/*
 * May free() push the objects of @cache, and so write a key?  What a constructor made, or a
 * reader may look at, stays.
 */
static inline bool cache_may_have_keys(const struct slub_cache *cache)
{
	return KEYS && !cache->link && cache->size >= KEY_BYTES_MIN &&
	       !cache->ctor && !(cache->flags & SLUB_CACHE_TYPESAFE_BY_RCU) &&
	       !cache->debug;
}

static inline bool cache_has_keys(const struct slub_cache *cache)
{
	return KEYS && cache->has_keys;
}

/* @object of @cache, which has keys, is free from here on. */
static inline void key_set(const struct slub_cache *cache, void *object)
{
	if (link_is_in_object(cache->link))
		*key_of(object) = key_value();
}

/* ... is handed out. */
static inline void key_drop(const struct slub_cache *cache, void *object)
{
	if (link_is_in_object(cache->link))
		key_clear(object);
	else
		*page_link(cache->link, object) = LINK_USED;
}

/* Does @object of any cache look as if it were free? */
static inline bool key_is_set(const struct slub_cache *cache,
			      const void *object)
{
	if (unlikely(!link_is_in_object(cache->link)))
		return cache->has_keys &&
		       *page_link(cache->link, object) != LINK_USED;
	return (likely(cache->has_keys) ? !cache->debug :
					  cache_may_have_keys(cache)) &&
	       *key_of(object) == key_value();
}

/* suspect.c: what looks like misuse */
/*
 * Is @object, where one of @cache may begin, one that was never handed out?  Of one that
 * is allocated the answer is always no.
 */
bool suspect_is_uncarved(const struct slub_cache *cache, const void *object);
/*
 * At exit: looks through this CPU's lists of malloc's classes, for what a short program
 * has freed wrongly and no flush has come to.
 */
void suspect_lists(void);
/*
 * May @object of @cache, on its way back, go to a list?  False: it was reported, or what
 * it is cannot be said now; it is to be left alone.
 */
bool suspect_free(struct slub_cache *cache, void *object, const char *call);
/*
 * A push of @object of @cache, which may have keys, was aborted: the key is the push's, or was
 * there before.  False: it was reported; else @object has none now.
 */
bool suspect_aborted(struct slub_cache *cache, void *object);
/* As it is found: the pointer is where an object begins, and that has no mark. */
static inline bool free_is_plain(const struct slub_cache *cache,
				 const void *object)
{
	return likely(cache_is_at_object(cache, object) &&
		      !key_is_set(cache, object));
}
/*
 * @object was taken off a list of @cache, which has keys, and has none.  False: it is no
 * object.  What was behind it in this CPU's list is given up if that is none.
 */
bool suspect_popped(struct slub_cache *cache, void *object);
static inline bool popped_is_plain(struct slub_cache *cache, void *object)
{
	return !cache_has_keys(cache) || !link_is_in_object(cache->link) ||
	       likely(*key_of(object) == key_value()) ||
	       suspect_popped(cache, object);
}

#endif
