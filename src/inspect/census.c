/* SPDX-License-Identifier: MIT */
/*
 * Counting what the heap holds, by a walk over the page map.  Takes no lock:
 * on a heap that changes meanwhile the sums are estimates.
 */
#include "inspect/inspect.h"

#include "slab/slab_internal.h"

/* One load, without the lock bit of layout lock56: an estimate anyway. */
static size_t slab_active(struct page *slab)
{
	struct double_word state = { 0, 0 };

	state.second = __atomic_load_n(&page_state(slab)->second,
				       __ATOMIC_RELAXED);
	return state_inuse(state);
}

struct cache_visit {
	const struct slub_cache *cache;
	struct cache_census *out;
};

static void visit_cache(struct slub_cache *cache, struct page *slab,
			void *arg)
{
	struct cache_visit *visit = arg;

	if (cache != visit->cache)
		return;
	visit->out->slabs++;
	visit->out->objects += cache->objects;
	visit->out->carved += slab->count;
	visit->out->active += slab_active(slab);
}

void census_cache(const struct slub_cache *cache, struct cache_census *out)
{
	struct cache_visit visit = { cache, out };

	*out = (struct cache_census){ 0, 0, 0, 0 };
	slab_for_each(visit_cache, &visit);
}

static void visit_heap(struct slub_cache *cache, struct page *slab, void *arg)
{
	struct heap_census *out = arg;
	size_t active = slab_active(slab);

	out->slab_bytes += PAGE_BYTES << cache->order;
	out->objects += active;
	out->object_bytes += active * cache->size;
}

void census_heap(struct heap_census *out)
{
	*out = (struct heap_census){ 0, 0, 0, 0, 0, 0 };
	slab_for_each(visit_heap, out);
	out->large_bytes = large_nr_pages() * PAGE_BYTES;
	out->dirty_bytes = page_nr_dirty() * PAGE_BYTES;
	out->committed_bytes = pagemap_committed();
}
