/* SPDX-License-Identifier: MIT */
/*
 * A cache as a whole: giving back what it does not use, and looking at every
 * object that is allocated.
 */
#include "features/shadow/shadow.h"
#include "features/watch/watch.h"
#include "features/guard/guard.h"
#include "features/typed/typed.h"
#include "features/rcu/rcu.h"

#include <errno.h>
#include <string.h>

bool cache_give_back_slabs(struct slub_cache *cache)
{
	bool is_partial = cache_shrink_nodes(cache);

	is_partial |= debug_shrink_twins(cache);
	is_partial |= shadows_shrink(cache);
	block_flush(COLLECT_LISTS);
	page_purge_regret();
	return is_partial;
}

SLUB_EXPORT int slub_cache_shrink(struct slub_cache *cache)
{
	cache = cache_live(cache);
	if (!cache)
		return 0;
	cache_settle(cache);
	cache_flush(cache);
	return cache_give_back_slabs(cache);
}

int object_count(void *object, void *arg)
{
	(void)object;
	++*(size_t *)arg;
	return 0;
}

/* What a visit of a cache's objects carries along. */
struct visit {
	struct slub_cache *cache;
	int (*call)(void *object, void *arg);
	void *arg;
	int ret;
};

/*
 * What follows @object in a list that others may be changing: it may have been
 * handed out since, and its link be whatever the program writes there.  So it is
 * neither judged nor mended: hardened_next() would write into the program's object.
 */
static may_race void *peek_next(const struct slub_cache *cache, void *object)
{
	void **place = link_of(cache, object);
	void *next = __atomic_load_n(place, __ATOMIC_RELAXED);

	return chain_is_encoded(cache) ?
		       (void *)link_decode(cache->list_slot, place, next) :
		       next;
}

static void mark_free(struct slab_iterator *iterator, size_t i)
{
	i -= iterator->window;
	if (i < WINDOW_OBJECTS)
		iterator->free[i / 64] |= 1ull << i % 64;
}

static void mark_holes(struct slab_iterator *iterator, uint64_t holes)
{
	struct slub_cache *cache = iterator->cache;
	uint32_t end = (uint32_t)min_size(iterator->window + WINDOW_OBJECTS,
					  cache->objects);

	for (uint32_t i = iterator->window; holes && i < end; i++) {
		if (object_is_hole(cache, holes, i))
			mark_free(iterator, i);
	}
}

/* Marks what is free as of now, from the next object on. */
static bool window_read(struct slab_iterator *iterator)
{
	struct slub_cache *cache = iterator->cache;
	struct page *slab = iterator->slab;
	char *base = page_address(slab);
	struct double_word state = slab_read(slab);
	void *object = (void *)state.first;
	uint32_t left = slab_count_read(slab);
	uint64_t holes = slab_holes_peek(cache, slab);

	/* Of a slab that has gone it may be anything: the pages of a large block. */
	if (left > cache->objects)
		return false;
	iterator->window = iterator->next;
	iterator->end = holes ? cache->objects : left;
	memset(iterator->free, 0, sizeof(iterator->free));
	mark_holes(iterator, holes);
	for (; object && left; left--) {
		size_t i = (size_t)((char *)object - base) / cache->size;

		/* What a program wrote there is no address, or not of an object. */
		if (i >= cache->objects || object != object_at(cache, base, i))
			return false;
		mark_free(iterator, i);
		object = peek_next(cache, object);
	}
	return !object;
}

bool slab_iterate(struct slab_iterator *iterator, struct slub_cache *cache,
		  struct page *slab)
{
	iterator->cache = cache;
	iterator->slab = slab;
	iterator->next = 0;
	return window_read(iterator);
}

void *slab_next(struct slab_iterator *iterator)
{
	struct slub_cache *cache = iterator->cache;

	while (iterator->next < iterator->end) {
		uint32_t i = iterator->next - iterator->window;

		if (i >= WINDOW_OBJECTS) {
			if (!window_read(iterator))
				break;
			continue;
		}
		iterator->next++;
		if (!(iterator->free[i / 64] >> i % 64 & 1))
			return object_at(cache, page_address(iterator->slab),
					 iterator->window + i);
	}
	return NULL;
}

/*
 * Is @cache, that a walk has found, @wanted or a shadow of it?  A shadow is live as long
 * as @wanted is, which the caller sees to; one that names it and is not live has just
 * been made from what was another's.
 */
static bool is_of(const struct slub_cache *cache,
		  const struct slub_cache *wanted)
{
	if (cache == wanted)
		return true;
	return __atomic_load_n(&cache->root, __ATOMIC_RELAXED) == wanted &&
	       cache_is_live(cache) &&
	       __atomic_load_n(&cache->root, __ATOMIC_RELAXED) == wanted;
}

static void visit_slab(struct slub_cache *cache, struct page *slab, void *arg)
{
	struct visit *visit = arg;
	struct slab_iterator iterator;
	void *object;

	if (!is_of(cache, visit->cache) || visit->ret ||
	    !slab_iterate(&iterator, cache, slab))
		return;
	while (!visit->ret && (object = slab_next(&iterator)) != NULL)
		visit->ret = visit->call(object, visit->arg);
}

SLUB_EXPORT int slub_cache_for_each_object(struct slub_cache *cache,
					   int (*call)(void *object, void *arg),
					   void *arg)
{
	struct visit visit = { cache_live(cache), call, arg, 0 };

	cache = visit.cache;
	if (!cache)
		return 0;
	cache_settle(cache);
	if (!cache_flush(cache))
		return -EAGAIN;
	slab_for_each(visit_slab, &visit);
	if (!visit.ret)
		visit.ret = guard_for_each_object(cache, call, arg);
	return visit.ret;
}
