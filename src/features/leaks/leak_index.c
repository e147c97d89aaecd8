/* SPDX-License-Identifier: MIT */
/*
 * Objects: every slab of the page map, every large block, every guarded object.  Allocated is
 * what was carved and lies in no list: of a slab, of a CPU, of a barn.
 */
#include "features/leaks/leak.h"

#include <errno.h>
#include <string.h>

#include "core/slab/local.h"
#include "features/watch/watch.h"

/* ---- from an address to an object ---- */

static uint32_t guarded_at(const struct leak_search *search, uintptr_t address)
{
	for (int i = 0; i < GUARD_POOLS; i++) {
		const struct guard_pool *pool = &guard_pools[i];

		if (pool_owns(pool, (void *)address))
			return search->guarded[i] +
			       (uint32_t)((address - pool->base) / pool->place_bytes) + 1;
	}
	return 0;
}

bool leak_find(const struct leak_search *search, uintptr_t address, struct leak_object *found)
{
	uintptr_t page = address - search->heap;
	const struct leak_slab *slab;
	uint64_t offset, n;
	uint32_t number;

	number = likely(page < search->heap_bytes) ? search->slab_of_page[page >> PAGE_SHIFT] :
						     guarded_at(search, address);
	if (!number || number > search->nr_slabs)
		return false;
	slab = &search->slabs[number - 1];
	/* In front of the first object it is too large for any number. */
	offset = address - slab->start;
	n = (uint64_t)((unsigned __int128)offset * slab->magic >> 64);
	if (n >= slab->nr || offset - n * slab->size >= slab->object_size)
		return false;
	*found = (struct leak_object){ number - 1, (uint32_t)n };
	return true;
}

/* ---- slabs ---- */

static struct leak_slab slab_of_cache(const struct slub_cache *cache, char *base)
{
	return (struct leak_slab){
		.start = (uintptr_t)object_at(cache, base, 0),
		.magic = cache->objects == 1 ? 0 : UINT64_MAX / cache->size + 1,
		.cache = cache,
		.size = cache->size,
		.object_size = min_size(cache->object_size, cache->size),
		.nr = cache->objects,
		.is_root = has_prefix(cache->name, "slub-") || has_prefix(cache->name, "slub_"),
		.is_careful = cache->size >= PAGE_BYTES,
	};
}

static struct leak_slab slab_of_block(char *base, size_t bytes)
{
	return (struct leak_slab){ .start = (uintptr_t)base, .size = bytes, .object_size = bytes,
				   .nr = 1, .is_single = true, .is_careful = true };
}

/* What lies at @addr; *@bytes: how far the next thing is. */
static bool slab_at(char *addr, struct leak_slab *slab, size_t *bytes)
{
	struct slub_cache *cache = cache_of(addr);
	uint32_t flags = page_flags_read(page_of(addr));

	*bytes = PAGE_BYTES;
	if (pagemap_get(addr) == MAP_LARGE) {
		*bytes = max_size(large_bytes(addr), PAGE_BYTES);
		*slab = slab_of_block(addr, *bytes);
		return true;
	}
	if (!cache || page_flags_type(flags) != TYPE_SLAB || !cache->size || !cache->objects)
		return false;
	*bytes = PAGE_BYTES << page_flags_order(flags);
	*slab = slab_of_cache(cache, addr);
	return true;
}

/* Counts them first, when there are none yet. */
static void slab_add(struct leak_search *search, const struct leak_slab *slab, size_t bytes)
{
	uint32_t number = search->nr_slabs++;

	if (search->slabs) {
		search->slabs[number] = *slab;
		search->slabs[number].word = (uint32_t)search->nr_words;
	}
	search->nr_words += (slab->nr + 63) / 64;
	if (!search->slabs || slab->start - search->heap >= search->heap_bytes)
		return;
	for (size_t at = 0; at < bytes; at += PAGE_BYTES)
		search->slab_of_page[(round_down(slab->start, PAGE_BYTES) - search->heap + at) >>
				     PAGE_SHIFT] = number + 1;
}

static void add_guarded(struct leak_search *search)
{
	for (int i = 0; i < GUARD_POOLS; i++) {
		const struct guard_pool *pool = &guard_pools[i];
		const struct guard_place *places = (struct guard_place *)pool->places;

		search->guarded[i] = search->nr_slabs;
		for (uint32_t n = 0; pool->bytes && n < pool->nr_places; n++) {
			bool is_live = places[n].state == GUARD_LIVE;

			slab_add(search, &(struct leak_slab){
				.start = places[n].object, .size = places[n].bytes,
				.cache = (struct slub_cache *)places[n].cache,
				.object_size = places[n].bytes, .nr = is_live,
				.stack = places[n].allocated.stack,
				.is_single = true, .is_careful = true }, 0);
		}
	}
}

static void add_all(struct leak_search *search)
{
	char *addr = (char *)search->heap, *end = addr + search->heap_bytes;
	struct leak_slab slab;
	size_t bytes;

	search->nr_slabs = 0;
	search->nr_words = 0;
	for (; addr < end; addr += bytes) {
		if (slab_at(addr, &slab, &bytes))
			slab_add(search, &slab, min_size(bytes, (size_t)(end - addr)));
	}
	add_guarded(search);
}

/* ---- what is allocated ---- */

/* Of a list that begins with @object, wherever it leads to. */
static void free_list(struct leak_search *search, void *object)
{
	struct leak_object found;

	while (object && leak_find(search, (uintptr_t)object, &found)) {
		const struct leak_slab *slab = &search->slabs[found.slab];
		uint64_t *word = leak_word(search, search->allocated, found);

		if (leak_start(search, found) != (uintptr_t)object || slab->is_single ||
		    !(*word & leak_bit(found)))
			return;
		*word &= ~leak_bit(found);
		object = *link_of(slab->cache, object);
	}
}

/* Objects on their way to a list have the mark of free ones. */
static void free_marked(struct leak_search *search, struct leak_object object)
{
	const struct leak_slab *slab = &search->slabs[object.slab];
	uint64_t *word = leak_word(search, search->allocated, object);

	if (key_is_set(slab->cache, (void *)leak_start(search, object)))
		*word &= ~leak_bit(object);
}

static void allocated_set(struct leak_search *search, uint32_t number)
{
	const struct leak_slab *slab = &search->slabs[number];
	const struct slub_cache *cache = slab->cache;
	struct page *page = page_of((void *)slab->start);
	uint64_t holes = slab_holes(cache, page);
	struct leak_object object = { number, 0 };

	for (; object.nr < min_size(slab->nr, slab_objects_end(cache, page)); object.nr++) {
		if (object_is_hole(cache, holes, object.nr))
			continue;
		*leak_word(search, search->allocated, object) |= leak_bit(object);
		free_marked(search, object);
	}
}

static void free_of_slab(struct leak_search *search, uint32_t number)
{
	const struct leak_slab *slab = &search->slabs[number];
	struct page *page = page_of((void *)slab->start);

	/* LEAK-1: slab_read() takes a lock in one of the layouts. */
	free_list(search, (void *)page_state(page)->first);
	if (slab->cache->has_local && local_of(page)->count)
		free_list(search, local_head(local_of(page), local_read(local_of(page))));
}

static void free_of_slot(struct leak_search *search, const char *area, uint32_t offset)
{
	const struct slot *slot = (const struct slot *)(area + offset);

	free_list(search, slot->main.head);
	free_list(search, slot->spare.head);
}

static void free_of_area(struct leak_search *search, const char *area)
{
	for (uint32_t number = percpu_next_number(0); number; number = percpu_next_number(number))
		free_of_slot(search, area, entry_slot(numbered_entry(number)));
}

static void free_of_barns(struct leak_search *search, const struct slub_cache *cache)
{
	for (uint32_t cid = 0; cid < percpu_areas_end(); cid++) {
		const struct barn *barn = barn_of(cache, cid);

		if (!barn)
			continue;
		for (uint32_t i = barn->oldest; i != barn->newest && barn_nr(barn); i++)
			free_list(search, (void *)(uintptr_t)
				  (barn->chains[i % BARN_CHAINS] &
				   ((1ull << BARN_ENTRY_SHIFT) - 1)));
	}
}

static void free_of_cpus(struct leak_search *search)
{
	for (uint32_t cid = 0; cid < percpu_areas_end(); cid++) {
		const char *area = percpu_area(cid);

		if (area)
			free_of_area(search, area);
	}
	free_of_area(search, percpu_shared_area());
	for (struct slub_cache *cache = cache_first(); cache; cache = cache_next(cache))
		free_of_barns(search, cache);
}

static void allocated_find(struct leak_search *search)
{
	for (uint32_t i = 0; i < search->nr_slabs; i++) {
		const struct leak_slab *slab = &search->slabs[i];

		if (slab->is_single)
			search->allocated[slab->word] = slab->nr;
		else
			allocated_set(search, i);
	}
	for (uint32_t i = 0; i < search->nr_slabs; i++) {
		if (!search->slabs[i].is_single)
			free_of_slab(search, i);
	}
	free_of_cpus(search);
}

/* ---- memory ---- */

static void *part(char **at, size_t bytes)
{
	char *start = *at;

	*at += round_up(bytes, 64);
	return start;
}

/* One mapping for all: it is to be told from what the program has mapped. */
static bool memory_make(struct leak_search *search)
{
	size_t map = search->nr_words * sizeof(uint64_t);
	size_t pages = (search->heap_bytes >> PAGE_SHIFT) * sizeof(*search->slab_of_page);
	size_t slabs = search->nr_slabs * sizeof(*search->slabs);
	size_t stack = LEAK_STACK_MAX * sizeof(*search->stack);
	char *at;

	search->memory_bytes = round_up(pages + slabs + stack + 4 * map + LEAK_BUFFER_BYTES +
					8 * 64, os_page_size());
	search->memory = at = os_map(search->memory_bytes);
	if (!at)
		return false;
	/* Steps lead from anywhere to anywhere: with small pages each is a miss of a page too. */
	os_huge(at, search->memory_bytes, true);
	search->slab_of_page = part(&at, pages);
	search->slabs = part(&at, slabs);
	search->allocated = part(&at, map);
	search->marked = part(&at, map);
	search->pending = part(&at, map);
	search->led_to = part(&at, map);
	search->buffer = part(&at, LEAK_BUFFER_BYTES);
	search->stack = part(&at, stack);
	return true;
}

int leak_index(struct leak_search *search)
{
	search->heap = heap_start;
	search->heap_bytes = pagemap_committed();
	add_all(search);
	if (!memory_make(search))
		return -ENOMEM;
	add_all(search);
	allocated_find(search);
	return 0;
}
