/* SPDX-License-Identifier: MIT */
/*
 * A cache as a whole: giving back what it does not use, and looking at every
 * object that is allocated.
 */
#include "slab/debug.h"

#include <errno.h>
#include <string.h>

SLUB_EXPORT int slub_cache_shrink(struct slub_cache *cache)
{
	bool partial;

	if (!cache_is_live(cache))
		return 0;
	cache_settle(cache);
	cache_flush(cache);
	cache_shrink_nodes(cache);
	partial = debug_shrink_twins(cache);
	if (cache->sampled) {
		cache_shrink_nodes(cache->sampled);
		partial |= cache_has_partial(cache->sampled);
	}
	block_flush();
	page_purge_if_needed();
	return partial | cache_has_partial(cache);
}

/* What a visit of a cache's objects carries along. */
struct visit {
	struct slub_cache *cache;
	int (*call)(void *object, void *arg);
	void *arg;
	int ret;
};

bool slab_mark_free(struct slub_cache *cache, struct page *slab,
		    uint64_t *marks)
{
	char *base = page_address(slab);
	struct double_word state = slab_read(slab);
	void *object = (void *)state.first;
	uint32_t left = slab->count;

	marks[0] |= slab_holes(cache, slab);
	for (; object && left; left--) {
		size_t i = (size_t)((char *)object - base) / cache->size;

		if (i >= cache->objects)
			return false;
		marks[i / 64] |= 1ull << i % 64;
		object = chain_next(cache, object);
	}
	return !object;
}

static void visit_slab(struct slub_cache *cache, struct page *slab, void *arg)
{
	struct visit *visit = arg;
	uint64_t marks[MARK_WORDS];
	char *base = page_address(slab);

	if ((cache != visit->cache && cache->root != visit->cache) ||
	    visit->ret)
		return;
	memset(marks, 0, sizeof(marks));
	if (!slab_mark_free(cache, slab, marks))
		return;
	for (uint32_t i = 0; i < slab_objects_end(cache, slab) && !visit->ret;
	     i++) {
		if (!(marks[i / 64] >> i % 64 & 1))
			visit->ret = visit->call(object_at(cache, base, i),
						 visit->arg);
	}
}

SLUB_EXPORT int slub_cache_for_each_object(struct slub_cache *cache,
					   int (*call)(void *object, void *arg),
					   void *arg)
{
	struct visit visit = { cache, call, arg, 0 };

	if (!cache_is_live(cache))
		return 0;
	cache_settle(cache);
	if (!cache_flush(cache))
		return -EAGAIN;
	slab_for_each(visit_slab, &visit);
	return visit.ret;
}
