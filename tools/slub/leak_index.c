/* SPDX-License-Identifier: MIT */
/* Each object of the heap gets a number: see leak.h. */
#include "leak.h"
#include "slub.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* ---- shapes ---- */

static void read_left(const struct leaks *leaks, const struct cache_view *cache,
		      struct leak_shape *shape)
{
	const struct slub_abi *abi = &leaks->snapshot.abi;
	uint64_t watch = cache_field(cache, SLUB_ABI_CACHE_WATCH);
	struct slub_abi_field field = abi->watch_fields[SLUB_ABI_WATCH_LEFT];
	uint64_t left = 0;

	if (!watch || field.bytes > sizeof(left) ||
	    process_read(leaks->process, watch + field.offset, &left, field.bytes))
		return;
	if (left < shape->size)
		shape->left = left;
}

/* "malloc-64", and no twin of it; names of the library's own caches begin with its name. */
static void read_name(const struct leaks *leaks, const struct cache_view *cache,
		      struct leak_shape *shape)
{
	const char *name = cache->name;

	(void)leaks;
	shape->is_library = !strncmp(name, "slub-", 5) || !strncmp(name, "slub_", 5);
	shape->is_malloc = !strncmp(name, "malloc-", 7) && !strchr(name, ':') &&
			   !cache_field(cache, SLUB_ABI_CACHE_WATCH);
}

static void make_shapes(struct leaks *leaks)
{
	const struct snapshot *snapshot = &leaks->snapshot;

	leaks->shapes = must_have(calloc(snapshot->nr_caches + 1, sizeof(*leaks->shapes)));
	leaks->smallest = 1ull << leaks->page_shift;
	for (size_t i = 0; i < snapshot->nr_caches; i++) {
		const struct cache_view *cache = &snapshot->caches[i];
		struct leak_shape *shape = &leaks->shapes[i];
		uint64_t room = cache_slab_bytes(snapshot, cache);

		shape->size = cache_field(cache, SLUB_ABI_CACHE_SIZE);
		shape->magic = shape->size > 1 ? UINT64_MAX / shape->size + 1 : UINT64_MAX;
		shape->object_size = cache_field(cache, SLUB_ABI_CACHE_OBJECT_SIZE);
		if (shape->object_size > shape->size)
			shape->object_size = shape->size;
		shape->link = cache_field(cache, SLUB_ABI_CACHE_LINK);
		read_left(leaks, cache, shape);
		read_name(leaks, cache, shape);
		shape->nr = cache_field(cache, SLUB_ABI_CACHE_OBJECTS);
		if (shape->nr > room / shape->size)
			shape->nr = room / shape->size;
		if (shape->size < leaks->smallest)
			leaks->smallest = shape->size;
	}
}

uint64_t leak_slab_nr(const struct leaks *leaks, const struct leak_slab *slab)
{
	return slab->cache < 0 ? 1 : leaks->shapes[slab->cache].nr;
}

/* ---- from an address to an object ---- */

static uint64_t guarded_in(const struct leaks *leaks, uint64_t address)
{
	const struct guard *guard = &leaks->guard;
	struct guard_finding found;
	uint32_t number;

	if (address - guard->pool.base >= guard->pool.bytes)
		return LEAK_NONE;
	found = guard_find(guard, address);
	if (found.relation != GUARD_INSIDE_LIVE)
		return LEAK_NONE;
	number = leaks->slab_of_place[found.place - guard->places];
	return number ? (uint64_t)leaks->slabs[number - 1].block * LEAK_BLOCK_OBJECTS : LEAK_NONE;
}

uint64_t leak_object_in(const struct leaks *leaks, uint64_t address)
{
	uint64_t offset = address - leaks->heap_start, n;
	const struct leak_slab *slab;
	const struct leak_shape *shape;
	uint32_t number;

	if (offset >= leaks->heap_bytes)
		return address - leaks->guard_start < leaks->guard_bytes ?
		       guarded_in(leaks, address) : LEAK_NONE;
	number = leaks->slab_of_page[offset >> leaks->page_shift];
	if (!number)
		return LEAK_NONE;
	slab = &leaks->slabs[number - 1];
	if (slab->cache < 0)
		return (uint64_t)slab->block * LEAK_BLOCK_OBJECTS;
	shape = &leaks->shapes[slab->cache];
	offset = address - slab->address - shape->left;
	n = (uint64_t)((unsigned __int128)offset * shape->magic >> 64);
	/* A pointer to behind an object's bytes is none to it. */
	if (n >= shape->nr || offset - n * shape->size >= shape->object_size)
		return LEAK_NONE;
	return (uint64_t)slab->block * LEAK_BLOCK_OBJECTS + n;
}

uint64_t leak_object_at(const struct leaks *leaks, uint64_t object, uint64_t *bytes)
{
	const struct leak_slab *slab = &leaks->slabs[leak_block_of(leaks, object)->slab];
	const struct leak_shape *shape;

	if (slab->cache == LEAK_LARGE)
		*bytes = (uint64_t)slab->pages << leaks->page_shift;
	else if (slab->cache == LEAK_GUARDED)
		*bytes = leaks->guard.places[slab->pages].bytes;
	if (slab->cache < 0)
		return slab->address;
	shape = &leaks->shapes[slab->cache];
	*bytes = shape->object_size;
	return slab->address + shape->left +
	       (object - (uint64_t)slab->block * LEAK_BLOCK_OBJECTS) * shape->size;
}

/* ---- slabs ---- */

static struct leak_slab *slab_add(struct leaks *leaks, uint64_t address, int32_t cache,
				  uint32_t pages)
{
	struct leak_slab *slab;
	uint64_t nr_blocks;

	/* What is large the kernel moves to its new place, and does not copy. */
	if (leaks->nr_slabs == leaks->room_slabs) {
		leaks->room_slabs = leaks->room_slabs ? 2 * leaks->room_slabs : 1024;
		leaks->slabs = must_have(reallocarray(leaks->slabs, leaks->room_slabs,
						      sizeof(*leaks->slabs)));
	}
	slab = &leaks->slabs[leaks->nr_slabs];
	*slab = (struct leak_slab){ address, (uint32_t)leaks->nr_blocks, cache, pages, 0 };
	nr_blocks = (leak_slab_nr(leaks, slab) + LEAK_BLOCK_OBJECTS - 1) / LEAK_BLOCK_OBJECTS;
	if (leaks->nr_blocks + nr_blocks > leaks->room_blocks)
		must_have(NULL);
	for (uint64_t i = 0; i < nr_blocks; i++)
		leaks->blocks[leaks->nr_blocks++] =
			(struct leak_block){ .slab = (uint32_t)leaks->nr_slabs };
	leaks->nr_slabs++;
	return slab;
}

static void pages_set(struct leaks *leaks, uint64_t address, uint64_t pages, uint32_t number)
{
	uint64_t first = (address - leaks->heap_start) >> leaks->page_shift;
	uint64_t end = leaks->heap_bytes >> leaks->page_shift;

	for (uint64_t i = first; i < first + pages && i < end; i++)
		leaks->slab_of_page[i] = number;
}

static void stranger_add(struct leaks *leaks, uint64_t start, uint64_t bytes)
{
	size_t nr = leaks->nr_strangers;

	if (!(nr & (nr - 1)))
		leaks->strangers = must_have(reallocarray(leaks->strangers, nr ? 2 * nr : 1,
							  sizeof(*leaks->strangers)));
	leaks->strangers[leaks->nr_strangers++] =
		(struct leak_range){ start, start + bytes, false };
}

struct making {
	struct leaks *leaks;
	bool again;
	const size_t *cache_now;	/* the second time: what a cache's number was, or none */
};

/* The slab or block of @piece, from the first time; NULL: there was another one. */
static struct leak_slab *slab_before(const struct making *making, const struct piece *piece,
				     int32_t cache)
{
	struct leaks *leaks = making->leaks;
	uint64_t page = (piece->address - leaks->heap_start) >> leaks->page_shift;
	uint32_t number;
	struct leak_slab *slab;

	if (page >= leaks->heap_bytes >> leaks->page_shift)
		return NULL;
	number = leaks->slab_of_page[page];
	slab = number ? &leaks->slabs[number - 1] : NULL;
	if (!slab || slab->address != piece->address || slab->cache != cache)
		return NULL;
	return cache == LEAK_LARGE && slab->pages != piece->pages ? NULL : slab;
}

static void allocated_set(struct leaks *leaks, const struct piece *piece,
			  const struct leak_slab *slab)
{
	const struct leak_shape *shape = &leaks->shapes[slab->cache];
	uint64_t nr = piece->holes ? shape->nr : piece->carved;

	for (uint64_t n = 0; n < nr && n < shape->nr; n++) {
		struct leak_block *block = &leaks->blocks[slab->block + n / LEAK_BLOCK_OBJECTS];

		if (!piece->holes || !piece_is_hole(piece, 1ull << leaks->page_shift, n,
						    shape->size))
			block->allocated |= leak_bit(n);
	}
	leak_free_of_slab(leaks, piece, slab);
}

static void add_piece(const struct piece *piece, void *arg)
{
	struct making *making = arg;
	struct leaks *leaks = making->leaks;
	int32_t cache = piece->kind == PIECE_SLAB ? (int32_t)piece->cache : LEAK_LARGE;
	uint64_t bytes = piece->pages << leaks->page_shift;
	struct leak_slab *slab;

	if (piece->kind != PIECE_SLAB && piece->kind != PIECE_LARGE)
		return;
	leaks->heap_used += bytes;
	if (making->again && piece->kind == PIECE_SLAB)
		cache = making->cache_now[piece->cache] == INDEX_NONE ? INT32_MAX :
			(int32_t)making->cache_now[piece->cache];
	slab = making->again ? slab_before(making, piece, cache) :
			       slab_add(leaks, piece->address, cache, (uint32_t)piece->pages);
	if (!slab) {
		stranger_add(leaks, piece->address, bytes);
		return;
	}
	if (!making->again)
		pages_set(leaks, piece->address, piece->pages, (uint32_t)leaks->nr_slabs);
	if (piece->kind == PIECE_LARGE)
		leaks->blocks[slab->block].allocated = 1;
	else
		allocated_set(leaks, piece, slab);
}

/* ---- between guard pages ---- */

static void add_guarded(struct leaks *leaks, bool again)
{
	const struct guard *guard = &leaks->guard;
	uint32_t nr = guard->places ? guard->pool.nr_places : 0;

	if (!again)
		leaks->slab_of_place = must_have(calloc(nr + 1, sizeof(uint32_t)));
	for (uint32_t n = 0; n < nr; n++) {
		const struct guard_place *place = &guard->places[n];
		uint32_t number = leaks->slab_of_place[n];
		struct leak_slab *slab = number ? &leaks->slabs[number - 1] : NULL;

		if (place->state != GUARD_LIVE)
			continue;
		if (!again) {
			slab = slab_add(leaks, place->object, LEAK_GUARDED, n);
			leaks->slab_of_place[n] = (uint32_t)leaks->nr_slabs;
		}
		if (slab && slab->address == place->object)
			leaks->blocks[slab->block].allocated = 1;
		else
			stranger_add(leaks, place->object, place->bytes);
	}
}

/* ---- all ---- */

/* The caches of now by the numbers of before. */
static size_t *match_caches(const struct leaks *leaks, const struct snapshot *now)
{
	size_t *numbers = must_have(calloc(now->nr_caches + 1, sizeof(*numbers)));

	for (size_t i = 0; i < now->nr_caches; i++) {
		numbers[i] = INDEX_NONE;
		for (size_t k = 0; k < leaks->snapshot.nr_caches; k++) {
			const struct cache_view *before = &leaks->snapshot.caches[k];

			if (before->address == now->caches[i].address &&
			    before->slot == now->caches[i].slot &&
			    cache_field(before, SLUB_ABI_CACHE_SIZE) ==
				    cache_field(&now->caches[i], SLUB_ABI_CACHE_SIZE))
				numbers[i] = k;
		}
	}
	return numbers;
}

void *leak_reserve(size_t bytes)
{
	void *place = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (place == MAP_FAILED)
		return must_have(NULL);
	/* Steps lead from anywhere to anywhere: with small pages each is a miss of a page too. */
	madvise(place, bytes, MADV_HUGEPAGE);
	return place;
}

/* A slab has a block more than its objects fill, at the most. */
static void reserve_blocks(struct leaks *leaks)
{
	uint64_t places = leaks->guard.places ? leaks->guard.pool.nr_places : 0;

	leaks->room_blocks = (leaks->heap_bytes >> leaks->page_shift) + places +
			     leaks->heap_bytes / (leaks->smallest * LEAK_BLOCK_OBJECTS) + 1;
	if (leaks->room_blocks > UINT32_MAX)
		leaks->room_blocks = UINT32_MAX;
	leaks->blocks = leak_reserve(leaks->room_blocks * sizeof(*leaks->blocks));
}

static void prepare(struct leaks *leaks)
{
	const struct slub_abi *abi = &leaks->snapshot.abi;

	leaks->heap_start = abi->heap_start;
	leaks->heap_bytes = abi->heap_bytes;
	leaks->page_shift = (unsigned int)__builtin_ctz(abi->page_bytes);
	leaks->slab_of_page = must_have(calloc((abi->heap_bytes >> leaks->page_shift) + 1,
					       sizeof(uint32_t)));
	leaks->guard_start = leaks->guard.pool.base;
	leaks->guard_bytes = leaks->guard.places ? leaks->guard.pool.bytes : 0;
	make_shapes(leaks);
	reserve_blocks(leaks);
}

static void count_all(struct leaks *leaks)
{
	leaks->objects = leaks->bytes = 0;
	for (size_t i = 0; i < leaks->nr_blocks; i++) {
		uint64_t nr = (uint64_t)__builtin_popcountll(leaks->blocks[i].allocated), bytes;

		if (!nr)
			continue;
		leak_object_at(leaks, i * LEAK_BLOCK_OBJECTS, &bytes);
		leaks->objects += nr;
		leaks->bytes += nr * bytes;
	}
}

void leak_index_make(struct leaks *leaks, bool again)
{
	struct making making = { leaks, again, NULL };
	struct snapshot now;
	size_t *numbers = NULL;

	leaks->heap_used = 0;
	leaks->nr_strangers = 0;
	if (!again) {
		prepare(leaks);
		heap_walk(leaks->process, &leaks->snapshot, add_piece, &making);
	} else {
		for (size_t i = 0; i < leaks->nr_blocks; i++)
			leaks->blocks[i].allocated = 0;
		if (source_snapshot(leaks->source, &now)) {
			leaks->error = -1;
			return;
		}
		numbers = match_caches(leaks, &now);
		making.cache_now = numbers;
		heap_walk(leaks->process, &now, add_piece, &making);
		snapshot_free(&now);
		free(numbers);
		guard_free(&leaks->guard);
		if (guard_read(&leaks->guard, leaks->source))
			leaks->guard_bytes = 0;
	}
	add_guarded(leaks, again);
	leak_free_of_cpus(leaks);
	count_all(leaks);
}

void leak_index_free(struct leaks *leaks)
{
	free(leaks->slab_of_page);
	free(leaks->slab_of_place);
	free(leaks->shapes);
	free(leaks->slabs);
	if (leaks->blocks)
		munmap(leaks->blocks, leaks->room_blocks * sizeof(*leaks->blocks));
	free(leaks->strangers);
}
