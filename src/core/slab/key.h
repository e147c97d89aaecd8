/* SPDX-License-Identifier: MIT */
/*
 * Free objects of malloc's classes and of typed caches are marked, so that a second free is noticed
 * at once, and no link is followed that somebody has written to.  Not in the hardened build, which
 * knows both by the link itself.
 *
 *   below a page   the word behind the link of a free object is the check word (core/arch/slot.h),
 *                  which covers the link and its place
 *   a page or more the link in the table of pages is LINK_USED while the object is
 *                  allocated; no program writes there
 *
 * KEY-1  Handing an object out removes the mark, and the link; freeing it sets both.
 * KEY-2  A mark is a suspicion and no proof: programs may copy what a free object had in
 *        it, within the object.  core/slab/suspect.c makes certain.
 * KEY-3  Whatever writes the link of a free object below a page writes its check word with it:
 *        so one that is wrong was written by the program, and neither the object nor what was
 *        behind it is handed out.  The inline functions of programs do the same.
 * KEY-4  A chain that is walked has right check words only, so none of its objects is in use, or
 *        in it twice by a second free that nobody has noticed: it was handed out in between, or
 *        its links go round.  So where a walk writes nothing it has an end of its own.
 *
 * Of most typed caches link and check word are the first two words, so objects take two at least.
 * What a constructor made, or readers may look at (TYPESAFE), stays: there both lie behind the
 * object, unless its alignment leaves room for one word and none for two.  A link that the program
 * has placed has no check word either.
 */
#ifndef SLUB_KEY_H
#define SLUB_KEY_H

#include "core/slab/slab.h"

/* Objects are large enough to have one. */
#define KEY_BYTES_MIN (2 * sizeof(uintptr_t))

#define LINK_USED ((void *)-1)

/* @place, of a cache that is keyed: that of the link, which is the object itself for malloc's. */
static always_inline void key_clear(void *place)
{
	*key_of(place) = 0;
}

/* The object is handed out: the link would tell the program an address. */
static always_inline void link_clear_keyed(void *place)
{
	*(uintptr_t *)place = 0;
	key_clear(place);
}

/*
 * Have the objects of @cache room for a key, which free() may write?  What a constructor made, or
 * a reader may look at, stays: then link and key lie behind it.  suspect.c
 */
bool cache_may_have_keys(const struct slub_cache *cache);

static inline bool cache_has_keys(const struct slub_cache *cache)
{
	return KEYS && cache->has_keys;
}

/* ... in the objects themselves? */
static inline bool cache_is_keyed(const struct slub_cache *cache)
{
	return cache_has_keys(cache) && link_is_in_object(cache->link);
}

/* ... in their first two words? */
static inline bool cache_begins_keyed(const struct slub_cache *cache)
{
	return cache_has_keys(cache) && !cache->link;
}

/* What the operations on lists are told. */
static inline uintptr_t list_link(const struct slub_cache *cache)
{
	return cache->link | (cache_is_keyed(cache) ? LINK_KEYED : 0);
}

/* Of a cache that is keyed: where @object has its link. */
static always_inline void *keyed_place(const struct slub_cache *cache, const void *object)
{
	return (char *)object + cache->link;
}

/* @object of @cache, which has keys, is free from here on, and its link may be anything. */
static inline void key_set(const struct slub_cache *cache, void *object)
{
	void *place = keyed_place(cache, object);

	if (link_is_in_object(cache->link))
		*key_of(place) = key_made(place, *(const uintptr_t *)place);
}

/* ... is handed out. */
static inline void key_drop(const struct slub_cache *cache, void *object)
{
	if (link_is_in_object(cache->link))
		link_clear_keyed(keyed_place(cache, object));
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
	       key_is_right(keyed_place(cache, object));
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
 * @chain of @cache, which has keys in its objects, is the caller's.  False: the check word of the
 * first is wrong, which was reported; the chain is given up.
 */
bool suspect_chain(const struct slub_cache *cache, void *chain);
static inline bool chain_is_plain(const struct slub_cache *cache, void *chain)
{
	return !cache_is_keyed(cache) || likely(key_is_right(keyed_place(cache, chain))) ||
	       suspect_chain(cache, chain);
}
/*
 * A chain that the caller has in hand, or NULL where it was given up.  Whoever follows links looks
 * at the first object here; chain_next() looks at each next one before it goes there (KEY-4).
 */
static inline void *chain_head(const struct slub_cache *cache, void *chain)
{
	return !chain || chain_is_plain(cache, chain) ? chain : NULL;
}
/*
 * This CPU's list in @slot, which has keys and the usual room @room, goes if the check word of its
 * first object is wrong.
 */
void suspect_list(struct slub_cache *cache, uint32_t slot, int32_t room);
/* More objects come back to the slab of @object than it has out: one of them was freed twice. */
void suspect_count(const struct slub_cache *cache, const void *object);
/* A guess: it may be another thread's by now, which has written there. */
static inline may_race bool key_seems_right(const struct slub_cache *cache, const void *object)
{
	const uintptr_t *words = (const uintptr_t *)keyed_place(cache, object);

	return __atomic_load_n(&words[1], __ATOMIC_RELAXED) ==
	       key_made(words, __atomic_load_n(&words[0], __ATOMIC_RELAXED));
}

/* Nothing could be popped off the list in @slot, a list of @cache with the usual room @room. */
static inline void list_clear_way(struct slub_cache *cache, uint32_t slot, int32_t room)
{
	const void *head = cache_is_keyed(cache) ? percpu_head(slot) : NULL;

	if (unlikely(head && !key_seems_right(cache, head)))
		suspect_list(cache, slot, room);
}

#endif
