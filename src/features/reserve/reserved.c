/* SPDX-License-Identifier: MIT */
/*
 * Objects out of the reserve (slub/reserve.h), for callers with the right to
 * them.
 *
 * A slab made of reserve memory belongs to a shadow of its cache, with slots that stay empty.
 * So an object that is freed goes straight back to its slab, never into a list that an
 * ordinary allocation is served from; and an empty slab to the page layer, which fills the
 * reserve first.
 */
#include "features/reserve/reserve.h"
#include "features/shadow/shadow.h"

static bool has_right(unsigned int flags)
{
	if (flags & SLUB_ALLOC_NO_RESERVE)
		return false;
	return flags & SLUB_ALLOC_RESERVE || slub_thread.flags & THREAD_RESERVE;
}

/* Its slabs fit a block of the reserve. */
static bool shape(struct slub_cache *shadow, const struct slub_cache *cache)
{
	shadow->is_reserve = true;
	return cache->size <= RESERVE_BYTES;
}

static const struct shadow_kind reserve_kind = {
	.place = SHADOW_RESERVE,
	.suffix = "reserve",
	.flags_kept = ~0u,
	.shape = shape,
};

/* Each node has a share of the reserve: from this thread's, or any other that has some. */
static void *shadow_alloc(struct slub_cache *shadow)
{
	uint32_t n = os_node_current(), nr = 0;
	void *object = NULL, *rest;

	for (uint32_t i = 0; i < slab_nr_nodes() && !object; i++)
		object = chain_head(shadow,
				    node_refill(shadow,
						shadow->nodes[(n + i) % slab_nr_nodes()], &nr));
	if (!object)
		return NULL;
	stat_add(shadow, STAT_ALLOC_DIRECT);
	rest = chain_next(shadow, object);
	if (rest)
		chain_flush(shadow, rest);
	return chain_unchained(shadow, object);
}

void *cache_alloc_from_reserve(struct slub_cache *cache, unsigned int flags)
{
	struct slub_cache *shadow;

	if (!has_right(flags) || slub_thread.locks_held)
		return NULL;
	shadow = shadow_get(cache, &reserve_kind);
	return shadow ? shadow_alloc(shadow) : NULL;
}

void *cache_alloc_reserve(struct slub_cache *cache, unsigned int flags)
{
	void *object = cache_alloc(cache);
	int priority = RECLAIM_FIRST;
	uint8_t growth;

	if (likely(object) || slub_thread.locks_held)
		return object;
	/* What was refused just now is asked for again behind the last walk. */
	growth = thread_growth_set(THREAD_GROWTH_NONE);
	while (!object && !cache_is_refused() &&
	       reclaim_more(&priority, cache->object_size))
		object = cache_alloc(cache);
	thread_growth_set(growth);
	if (object || cache_refused())
		return object;
	return cache_alloc_from_reserve(cache, flags);
}

/* ---- the public functions ---- */

/*
 * Makes the shadows of the caches that there are: once memory is short there may be none for a
 * shadow either.
 */
static cold void prepare(void)
{
	caches_are_made();
	for (struct slub_cache *c = cache_first(); c; c = cache_next(c)) {
		struct cache_hold pin;

		if (__atomic_load_n(&c->root, __ATOMIC_RELAXED) || !cache_pin_any(c, &pin))
			continue;
		if (c->size <= RESERVE_BYTES)
			shadow_get(c, &reserve_kind);
		cache_unpin(&pin);
	}
}

SLUB_EXPORT int slub_reserve_set(size_t bytes)
{
	int err = slub_begin();

	if (err)
		return err;
	if (bytes)
		prepare();
	return page_reserve_set(bytes);
}

SLUB_EXPORT size_t slub_reserve_bytes(void)
{
	return page_reserve_bytes();
}

SLUB_EXPORT int slub_reserve_enter(void)
{
	if (slub_thread.flags > UINT16_MAX - THREAD_RESERVE_ONCE)
		return -ENOSPC;
	slub_thread.flags += THREAD_RESERVE_ONCE;
	slub_thread.flags |= THREAD_RESERVE;
	return 0;
}

SLUB_EXPORT int slub_reserve_leave(void)
{
	if (slub_thread.flags < THREAD_RESERVE_ONCE)
		return -EINVAL;
	slub_thread.flags -= THREAD_RESERVE_ONCE;
	if (slub_thread.flags < THREAD_RESERVE_ONCE)
		slub_thread.flags &= ~(uint32_t)THREAD_RESERVE;
	return 0;
}
