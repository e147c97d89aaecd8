/* SPDX-License-Identifier: MIT */
/*
 * Objects of typed caches, one at a time: what the inline functions of
 * slub/cache.h leave, and the whole for callers that do not have them.
 */
#include "features/misuse/misuse.h"
#include "features/groups/owned.h"
#include "features/watch/watch.h"
#include "features/guard/guard.h"
#include "features/profile/sample.h"
#include "features/typed/typed.h"
#include "features/reserve/reserve.h"

#include <errno.h>
#include <string.h>

/* ---- what programs do inline, for other languages, compilers and buckets ---- */

static always_inline void *pop_here(const struct slub_cache *cache)
{
	const struct slub_percpu_self self = slub_percpu_entrance();

	if (unlikely(!slub_percpu_may_run()))
		return NULL;
	/* 0: where programs must not pop; and of no cache. */
	return slub_cache_try_pop(&self, &cache->inline_slot);
}

/* The same of the others, from an empty list where programs must not pop. */
static void *pop_elsewhere(const struct slub_cache *cache)
{
	const struct slub_percpu_self self = slub_percpu_entrance();

	if (unlikely(!slub_percpu_may_run()))
		return NULL;
	if (cache->kept_slot)
		return slub_cache_try_pop_kept(&self, &cache->kept_slot, &cache->link);
	return cache->plain_slot ?
		       slub_cache_try_pop_plain(&self, &cache->plain_slot, &cache->link) : NULL;
}

/* Lets this thread go inline: its CPU's area, the page map as far as it reaches. */
static void entrance_publish(void)
{
	if (!slub_thread.self.rseq)
		return;
	percpu_remember();
	slub_thread.self.map_base = pagemap_base;
	slub_thread.self.map_pages = __atomic_load_n(&pagemap_limit,
						     __ATOMIC_ACQUIRE);
}

struct slub_cache *cache_usable(struct slub_cache *cache)
{
	struct slub_cache *real = cache_real(cache);

	if (likely(cache_is_live(real)))
		return real;
	return cache->args ? cache_make_static((struct cache_front *)cache) :
			     fail_with(EINVAL);
}

static void *alloc_node(struct slub_cache *cache, int node)
{
	struct cache_node *from = cache->nodes[node];
	uint32_t nr = 0;
	void *chain, *rest;

	if (slub_thread.locks_held)
		return NULL;
	chain = chain_head(cache, chain_refill(cache, from, &nr));
	if (!chain || page_node(slab_of(cache, chain)) != (uint32_t)node)
		stat_add(cache, STAT_ALLOC_NODE_MISMATCH);
	if (!chain)
		return NULL;
	rest = chain_next(cache, chain);
	if (rest)
		chain_give(cache, rest, nr - 1);
	return chain_unchained(cache, chain);
}

/* NULL: no memory, or the maximum of a group is in the way. */
static void *alloc_charged(struct slub_cache *cache, unsigned int flags, int node,
			   bool may_be_guarded)
{
	uint32_t owner = 0;
	void *object = NULL;

	debug_cache_first(cache);
	if (cache->is_accounted && !account_begin(cache, 1, &owner))
		return NULL;
	if (node != SLUB_NODE_ANY && slab_nr_nodes() > 1 &&
	    !cache_is_watched(cache))
		object = alloc_node(cache, node);
	if (!object && unlikely(sample_is_wanted()))
		object = may_be_guarded ? sample_alloc_typed(cache) :
					  sample_alloc_unguarded(cache);
	if (!object)
		object = cache_alloc_reserve(cache, flags);
	if (cache->is_accounted)
		account_end(cache, object, owner);
	return object;
}

void *cache_alloc_unguarded(struct slub_cache *cache, unsigned int flags)
{
	return alloc_charged(cache, flags, SLUB_NODE_ANY, false);
}

static __attribute__((__noinline__)) void *
alloc_slowly(struct slub_cache *cache)
{
	void *object = pop_elsewhere(cache);

	if (object)
		return object;
	debug_cache_first(cache);
	if (cache->account_path != ACCOUNT_SLOW && !sample_is_wanted() &&
	    !cache->place && account_alloc_rest(cache, group_current(), &object))
		return object ? object : fail_with(ENOMEM);
	if (unlikely(!cache_is_live(cache)))
		return fail_with(EINVAL);
	object = alloc_charged(cache, 0, SLUB_NODE_ANY, true);
	entrance_publish();
	return object ? object : fail_with(ENOMEM);
}

static __attribute__((__noinline__)) void *
claim(struct slub_cache *cache, void *object, uint32_t owner)
{
	if (owner && account_hand_over(cache, object_owner(cache, object), owner))
		return object;
	object = account_claim(cache, object, owner);
	return object ? object : fail_with(ENOMEM);
}

static always_inline void *alloc_accounted(struct slub_cache *cache)
{
	uint32_t owner = group_current();
	void *object;

	if (KEYS && unlikely(!cache_begins_keyed(cache)))
		return alloc_slowly(cache);
	object = account_pop_fast(cache->list_slot, KEYS);
	if (unlikely(!object))
		return alloc_slowly(cache);
	if (KEYS)
		key_clear(object);
	if (likely(*slab_owner(cache, object) == owner))
		return object;
	return claim(cache, object, owner);
}

static always_inline void *alloc(struct slub_cache *cache)
{
	void *object;

	if (__atomic_load_n(&cache->account_slot, __ATOMIC_RELAXED))
		return alloc_accounted(cache);
	object = pop_here(cache);
	return likely(object) ? object : alloc_slowly(cache);
}

static __attribute__((__noinline__)) void *
alloc_by_front(struct slub_cache *front)
{
	struct slub_cache *cache = cache_usable(front);

	return likely(cache) ? alloc(cache) : NULL;
}

SLUB_EXPORT SLUB_HOT void *slub_cache_alloc(struct slub_cache *cache)
{
	return unlikely(cache->args) ? alloc_by_front(cache) : alloc(cache);
}

SLUB_EXPORT void *slub_cache_claim(struct slub_cache *cache, void *object)
{
	return claim(cache_real(cache), object, group_current());
}

/* ---- free ---- */

/* To a list, and its charge with it; false: there is none, or the object is to be looked at. */
static bool free_charged(struct slub_cache *cache, void *object)
{
	if (cache->account_path == ACCOUNT_SLOW ||
	    unlikely(cache_is_keyed(cache) && !free_is_plain(cache, object)))
		return false;
	if (account_free_rest(cache, object))
		return true;
	/* An aborted push may have left one. */
	if (cache_is_keyed(cache))
		key_clear(keyed_place(cache, object));
	return false;
}

static void free_any(struct slub_cache *cache, void *object)
{
	struct slub_cache *owner = cache_of(object);

	if (owner == cache && free_charged(cache, object))
		return;
	entrance_publish();
	if (!owner && guard_owns(object)) {
		guard_free(object, cache);
		return;
	}
	if (!owner) {
		if (!debug_free_outside(cache, object) &&
		    !foreign_found("slub_cache_free", object))
			log_message("slub_cache_free(%s): %p lies in no slab; "
				    "left alone", cache_is_live(cache) ?
				    cache->name : "?", object);
		return;
	}
	if (unlikely(owner != cache && owner->root != cache)) {
		stat_add(owner, STAT_WRONG_CACHE);
		debug_free_wrong(cache, owner, object);
		log_message("slub_cache_free(%s): object %p is of cache %s; "
			    "freed there",
			    cache_is_live(cache) ? cache->name : "?", object,
			    owner->root ? owner->root->name : owner->name);
	}
	/* The head of this CPU's list is free already. */
	if (likely(percpu_head(owner->list_slot) != object)) {
		cache_free(owner, object);
		return;
	}
	stat_add(owner, STAT_DOUBLE_FREE);
	misuse_found(MISUSE_DOUBLE_FREE, "slub_cache_free", object, owner->name);
}

static __attribute__((__noinline__)) void
free_slowly(struct slub_cache *cache, void *object)
{
	int kept = errno;

	if (!object)
		return;
	free_any(cache, object);
	errno = kept;
}

SLUB_EXPORT void slub_cache_free_aborted(struct slub_cache *cache, void *object)
{
	struct slub_cache *owner = cache_of(object);

	if (!owner || !cache_is_keyed(owner) || suspect_aborted(owner, object))
		free_slowly(cache_real(cache), object);
}

/* By what its objects have: keys, and the links in front of them. */
static always_inline bool push_accounted(struct slub_cache *cache, void *object)
{
	if (likely(cache_is_keyed(cache) && !cache->link))
		return account_free_fast(cache, object, 0, true);
	if (cache_is_keyed(cache))
		return account_free_rest(cache, object);
	return account_free_fast(cache, object, cache->link, false);
}

/* As the fast path of free(); false: nothing was done. */
static __attribute__((__noinline__)) bool
free_accounted(struct slub_cache *cache, void *object)
{
	bool is_keyed = cache_is_keyed(cache);

	if (unlikely(pagemap_get(object) != cache->slot) ||
	    (is_keyed && unlikely(!free_is_plain(cache, object))))
		return false;
	if (likely(push_accounted(cache, object))) {
		/* Or the next one would come here too. */
		if (cache->frees_inline)
			entrance_publish();
		return true;
	}
	if (is_keyed)
		key_clear(keyed_place(cache, object));
	return false;
}

static __attribute__((__noinline__)) void
free_plain(struct slub_cache *cache, void *object)
{
	if (!slub_cache_try_push_plain(object, &cache->slot, &cache->plain_slot,
				       &cache->link, &cache->start.mask))
		free_slowly(cache, object);
}

/* What a push with a check word answered. */
static always_inline void free_pushed(struct slub_cache *cache, void *object,
				      enum slub_push push)
{
	switch (push) {
	case SLUB_PUSH_DONE:
		break;
	case SLUB_PUSH_FAILED:
		free_slowly(cache, object);
		break;
	case SLUB_PUSH_ABORTED:
		slub_cache_free_aborted(cache, object);
	}
}

static __attribute__((__noinline__)) void
free_kept(struct slub_cache *cache, void *object)
{
	free_pushed(cache, object,
		    slub_cache_try_push_kept(object, &cache->slot, &cache->kept_slot,
					     &cache->link, &cache->start.mask));
}

SLUB_EXPORT SLUB_HOT void slub_cache_free(struct slub_cache *cache,
					       void *object)
{
	cache = cache_real(cache);
	if (cache->account_path == ACCOUNT_SLAB && free_accounted(cache, object))
		return;
	if (unlikely(cache->plain_slot)) {
		free_plain(cache, object);
		return;
	}
	if (unlikely(cache->kept_slot)) {
		free_kept(cache, object);
		return;
	}
	free_pushed(cache, object, slub_cache_try_push(object, &cache->entry, &cache->free_slot,
						       &cache->start.mask));
}

/* ---- alloc, with wishes ---- */

static bool flags_are_valid(const struct slub_cache *cache, unsigned int flags,
			    int node)
{
	unsigned int all = SLUB_ALLOC_ZERO | SLUB_ALLOC_RESERVE | SLUB_ALLOC_NO_RESERVE;

	if (flags & ~all || (flags & SLUB_ALLOC_ZERO && cache->ctor))
		return false;
	return node == SLUB_NODE_ANY ||
	       (node >= 0 && (uint32_t)node < slab_nr_nodes());
}

SLUB_EXPORT void *slub_cache_alloc_node(struct slub_cache *cache,
					unsigned int flags, int node)
{
	void *object;

	cache = cache_usable(cache);
	if (!cache)
		return NULL;
	if (!flags_are_valid(cache, flags, node))
		return fail_with(EINVAL);
	object = alloc_charged(cache, flags, node, true);
	if (unlikely(!object))
		return fail_with(ENOMEM);
	if (flags & SLUB_ALLOC_ZERO) {
		memset(object, 0, cache->object_size);
		sanitizer_written(object, cache->object_size);
	}
	return object;
}

SLUB_EXPORT void *slub_cache_alloc_flags(struct slub_cache *cache,
					 unsigned int flags)
{
	return slub_cache_alloc_node(cache, flags, SLUB_NODE_ANY);
}

SLUB_EXPORT void *slub_cache_zalloc(struct slub_cache *cache)
{
	return slub_cache_alloc_node(cache, SLUB_ALLOC_ZERO, SLUB_NODE_ANY);
}

/* ---- questions ---- */

SLUB_EXPORT struct slub_cache *slub_cache_of(const void *object)
{
	if (guard_owns(object))
		return cache_public(guard_cache_of(object));
	return cache_public(cache_original(cache_of(object)));
}

SLUB_EXPORT const char *slub_cache_name(const struct slub_cache *cache)
{
	const struct slub_cache *real = cache_real(cache);

	if (cache_is_live(real))
		return real->name;
	return cache->args ? cache->args->name : "";
}

SLUB_EXPORT size_t slub_cache_size(const struct slub_cache *cache)
{
	return cache_real(cache)->object_size;
}

SLUB_EXPORT size_t slub_cache_stride(const struct slub_cache *cache)
{
	return cache_real(cache)->size;
}

/*
 * How far @ptr, into a slab, lies behind the start of an object.  SIZE_MAX: in none, but in
 * the unused end of the slab, or in front of a watched object.
 */
static size_t offset_in_object(const struct slub_cache *cache, const void *ptr)
{
	size_t at = (size_t)((const char *)ptr -
			     (char *)page_address(slab_of(cache, ptr)));
	size_t offset = at % cache->size, left = watch_left(cache);

	return at / cache->size < cache->objects && offset >= left ?
		       offset - left : SIZE_MAX;
}

SLUB_EXPORT bool slub_copy_allowed(const void *ptr, size_t bytes)
{
	struct slub_cache *cache = cache_of(ptr);
	size_t offset, end;

	if (guard_owns(ptr))
		cache = guard_cache_inside(ptr, &offset);
	else if (cache)
		offset = offset_in_object(cache, ptr);
	if (!cache)
		return true;
	end = cache->usersize ? cache->useroffset + cache->usersize :
				cache->object_size;
	return offset >= cache->useroffset && offset <= end &&
	       bytes <= end - offset;
}

static void add_stats(const struct slub_cache *cache,
		      struct slub_cache_stats *stats)
{
	uint64_t *counts = &stats->alloc_spare;

	for (uint32_t n = 0; n < slab_nr_nodes(); n++) {
		struct cache_node *node = cache->nodes[n];

		stats->objects += __atomic_load_n(&node->nr_objects,
						  __ATOMIC_RELAXED);
		stats->slabs += __atomic_load_n(&node->nr_slabs,
						__ATOMIC_RELAXED);
	}
	for (uint32_t s = 0; cache->stats && s < STAT_NR; s++)
		counts[s] += (uint32_t)slub_percpu_sum32(cache->stats + 4 * s);
}

SLUB_EXPORT int slub_cache_stats(struct slub_cache *cache,
				 struct slub_cache_stats *stats)
{
	cache = cache_live(cache);
	if (!cache)
		return -EINVAL;
	memset(stats, 0, sizeof(*stats));
	sanitizer_written(stats, sizeof(*stats));
	add_stats(cache, stats);
	for (int i = 0; i < SHADOWS_ROOTED; i++) {
		const struct slub_cache *shadow = cache_shadow(cache, i);

		if (shadow)
			add_stats(shadow, stats);
	}
	for (struct watch *w = watch_next(cache, NULL); w; w = watch_next(cache, w))
		add_stats(&w->cache, stats);
	return 0;
}

_Static_assert(offsetof(struct slub_cache_stats, reserved) ==
		       16 + 8 * STAT_NR,
	       "in the order of enum cache_stat");
