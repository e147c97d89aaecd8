/* SPDX-License-Identifier: MIT */
/*
 * Counting what the heap holds, by a walk over the page map.  Takes no lock:
 * on a heap that changes meanwhile the sums are estimates.  Objects between guard
 * pages (features/guard/guard.h) are in no slab, and are counted as if they were.
 */
#include "features/inspect/inspect.h"
#include "features/typed/typed.h"
#include "features/rcu/rcu.h"
#include "features/idle/idle.h"

#include "core/percpu/percpu_internal.h"
#include "features/guard/guard.h"
#include "core/slab/local.h"
#include "core/slab/slab_internal.h"

_Static_assert(SLUB_ABI_STATE_INUSE == STATE_COUNT_MASK &&
	       SLUB_ABI_STATE_LISTED == STATE_LISTED &&
	       SLUB_ABI_STATE_FROZEN == STATE_FROZEN, "state of a slab");

/* ---- counting ---- */

/* One load, without the lock bit of layout lock56: an estimate anyway. */
static size_t slab_active(struct page *slab)
{
	return state_inuse(counters_of(slab));
}

static bool slab_is_carved(struct page *slab)
{
	return counters_of(slab).second & STATE_FROZEN;
}

static size_t slab_bytes(const struct slub_cache *cache)
{
	return PAGE_BYTES << __atomic_load_n(&cache->order, __ATOMIC_RELAXED);
}

/* None of an empty slab; behind the last object that was carved no page was ever used. */
static size_t active_bytes(const struct slub_cache *cache, struct page *slab)
{
	size_t size = __atomic_load_n(&cache->size, __ATOMIC_RELAXED);

	if (!slab_active(slab))
		return 0;
	return min_size(round_up(slab_count_read(slab) * size, PAGE_BYTES), slab_bytes(cache));
}

static void census_add(struct cache_census *out,
		       const struct slub_cache *cache, struct page *slab)
{
	size_t active = slab_active(slab);
	uint32_t objects = __atomic_load_n(&cache->objects, __ATOMIC_RELAXED);

	out->slabs++;
	out->objects += objects;
	out->carved += slab_count_read(slab);
	out->active += active;
	out->active_bytes += active_bytes(cache, slab);
	out->empty += !active;
	out->carving += slab_is_carved(slab);
	if (active && active < objects) {
		out->partial++;
		out->partial_active += active;
	}
}

static void add_guarded(struct cache_census *out, size_t nr)
{
	out->objects += nr;
	out->carved += nr;
	out->active += nr;
}

struct cache_visit {
	const struct slub_cache *cache;
	struct cache_census *out;
};

static void visit_cache(struct slub_cache *cache, struct page *slab,
			void *arg)
{
	struct cache_visit *visit = arg;

	if (cache == visit->cache)
		census_add(visit->out, cache, slab);
}

void census_cache(const struct slub_cache *cache, struct cache_census *out)
{
	struct cache_visit visit = { cache, out };

	*out = (struct cache_census){ .slabs = 0 };
	slab_for_each(visit_cache, &visit);
	add_guarded(out, guard_nr_objects(cache, NULL));
}

/*
 * The cache may be ending or be another by now: its numbers are each those of one of
 * the two (struct slub_cache).
 */
static size_t number_of(const struct slub_cache *cache)
{
	return entry_number(__atomic_load_n(&cache->slot, __ATOMIC_RELAXED));
}

static void visit_all(struct slub_cache *cache, struct page *slab, void *arg)
{
	struct cache_census *all = arg;

	census_add(&all[number_of(cache)], cache, slab);
}

#define ALL_BYTES (CENSUS_SLOTS * sizeof(struct cache_census))

struct cache_census *census_all(void)
{
	struct cache_census *all = os_map(ALL_BYTES);

	if (all)
		slab_for_each(visit_all, all);
	return all;
}

static int visit_all_guarded(struct guard_place *place, size_t bytes,
			     void *arg)
{
	const struct slub_cache *cache = (struct slub_cache *)place->cache;
	struct cache_census *all = arg;

	(void)bytes;
	if (cache)
		add_guarded(&all[number_of(cache)], 1);
	return 0;
}

void census_all_free(struct cache_census *all)
{
	os_unreserve(all, ALL_BYTES);
}

const struct slub_cache *census_cache_at(size_t number)
{
	const struct slub_cache *cache;

	cache = __atomic_load_n(&cache_slot_owner[number], __ATOMIC_ACQUIRE);
	return cache && number_of(cache) == number ? cache : NULL;
}

int census_each(census_user *use, void *arg)
{
	struct cache_census *all = census_all();
	int ret = 0;

	if (!all)
		return -ENOMEM;
	guard_visit(visit_all_guarded, all);
	for (size_t i = 0; i < CENSUS_SLOTS && !ret; i++) {
		const struct slub_cache *cache = census_cache_at(i);
		char name[SLUB_CACHE_NAME_MAX + 1];

		/* It may end meanwhile. */
		if (cache && cache_name_copy(cache, name))
			ret = use(cache, name, &all[i], arg);
	}
	census_all_free(all);
	return ret;
}

/* ---- the whole heap ---- */

static void visit_heap(struct slub_cache *cache, struct page *slab, void *arg)
{
	struct heap_census *out = arg;
	size_t active = slab_active(slab);
	size_t objects = __atomic_load_n(&cache->objects, __ATOMIC_RELAXED);
	/* Zones and tracks of a watched object are no use to the program. */
	size_t bytes = __atomic_load_n(cache_is_twin(cache) ?
				       &cache->object_size : &cache->size,
				       __ATOMIC_RELAXED);

	out->slab_bytes += slab_bytes(cache);
	out->active_bytes += active_bytes(cache, slab);
	out->objects += active;
	out->object_bytes += active * bytes;
	out->free += objects - min_size(active, objects);
	out->free_bytes += (objects - min_size(active, objects)) * bytes;
}

/* Their pages are not of the heap, but they are there for these objects alone. */
static int visit_heap_guarded(struct guard_place *place, size_t bytes,
			      void *arg)
{
	struct heap_census *out = arg;

	out->committed_bytes += bytes;
	if (!place->cache) {
		out->large_blocks++;
		out->large_bytes += bytes;
		return 0;
	}
	out->slab_bytes += bytes;
	out->active_bytes += bytes;
	out->objects++;
	out->object_bytes += place->bytes;
	return 0;
}

static size_t count_large(void)
{
	char *end = (char *)heap_start + pagemap_committed();
	size_t nr = 0;

	for (char *addr = (char *)heap_start; addr < end; addr += PAGE_BYTES)
		nr += pagemap_get(addr) == MAP_LARGE;
	return nr;
}

void census_heap(struct heap_census *out)
{
	struct deferred_numbers deferred;

	*out = (struct heap_census){ .slab_bytes = 0 };
	slab_for_each(visit_heap, out);
	for (size_t i = 0; i < CENSUS_SLOTS; i++) {
		const struct slub_cache *cache = census_cache_at(i);
		size_t nr = cache ? cache_nr_cached(cache) : 0;

		out->cached += nr;
		out->cached_bytes += nr * (cache ? __atomic_load_n(&cache->size,
							__ATOMIC_RELAXED) : 0);
	}
	/* Neither is exact: they must not contradict each other. */
	out->cached = min_size(out->cached, out->objects);
	out->cached_bytes = min_size(out->cached_bytes, out->object_bytes);
	out->large_bytes = large_nr_pages() * PAGE_BYTES;
	out->large_blocks = count_large();
	out->dirty_bytes = page_nr_dirty() * PAGE_BYTES;
	out->refused_bytes = page_nr_stuck() * PAGE_BYTES;
	out->moved_runs = run_nr_moved();
	out->committed_bytes = pagemap_committed();
	deferred_count(&deferred);
	out->deferred_bytes = deferred.bytes;
	out->deferred_objects = deferred.objects;
	guard_visit(visit_heap_guarded, out);
}

/* ---- a record ---- */

uint64_t field_get(const void *from, struct slub_abi_field field)
{
	const char *at = (const char *)from + field.offset;

	switch (field.bytes) {
	case 1:
		return *(const uint8_t *)at;
	case 2:
		return *(const uint16_t *)at;
	case 4:
		return __atomic_load_n((const uint32_t *)at,
				       __ATOMIC_RELAXED);
	case 8:
		return __atomic_load_n((const uint64_t *)at,
				       __ATOMIC_RELAXED);
	}
	return 0;
}

static void add_stats(const char *area, const struct slub_cache *cache,
		      uint32_t *sums)
{
	const uint32_t *words = (const uint32_t *)(area + cache->stats);

	for (int i = 0; i < STAT_NR; i++)
		sums[i] += __atomic_load_n(&words[i], __ATOMIC_RELAXED);
}

/* One pass over the areas for all counters. */
static void record_stats(const struct slub_cache *cache,
			 struct slub_stats_cache *out)
{
	uint32_t sums[STAT_NR] = { 0 };

	if (!cache->stats)
		return;
	add_stats(percpu_shared_area(), cache, sums);
	for (uint32_t cid = 0; cid < percpu_areas_end(); cid++) {
		char *area = percpu_area(cid);

		if (area)
			add_stats(area, cache, sums);
	}
	for (int i = 0; i < STAT_NR; i++)
		out->stats[i] = sums[i];
}

static void record_name(const struct slub_cache *cache,
			struct slub_stats_cache *out)
{
	char name[SLUB_CACHE_NAME_MAX + 1];
	struct text text = { out->name, sizeof(out->name) - 1, 0 };

	/* Else the next call does it: a census finds caches that end meanwhile. */
	if (!cache_name_copy(cache, name))
		return;
	text_printf(&text, "%s", name);
	out->name[text.used_bytes] = '\0';
	out->fields[SLUB_ABI_CACHE_NAME] = (uintptr_t)cache->name;
}

void census_record_since(const struct slub_cache *cache, uint32_t nr_nodes, size_t nr_local,
			 struct slub_stats_cache *out)
{
	if (out->fields[SLUB_ABI_CACHE_NAME] != (uintptr_t)cache->name)
		record_name(cache, out);
	for (int i = 1; i < SLUB_ABI_CACHE_FIELDS_KNOWN; i++)
		out->fields[i] = field_get(cache, slub_abi_state.cache_fields[i]);
	record_stats(cache, out);
	for (uint32_t n = 0; n < nr_nodes; n++) {
		for (int i = 0; i < SLUB_ABI_NODE_FIELDS_KNOWN; i++)
			out->nodes[n][i] = field_get(cache->nodes[n],
						     slub_abi_state.node_fields[i]);
	}
	alias_names(cache, (char *)out->nodes[nr_nodes], SLUB_STATS_ALIASES);
	out->cached = cache_nr_in_lists(cache) + nr_local;
}

void census_record(const struct slub_cache *cache, uint32_t nr_nodes,
		   struct slub_stats_cache *out)
{
	census_record_since(cache, nr_nodes, local_nr(cache), out);
}
