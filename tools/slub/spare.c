/* SPDX-License-Identifier: MIT */
/*
 * Pages of a slab that nothing keeps.  The slab is copied, what is free in it is found by its
 * freelist, and a page counts on which all objects are free.  What a living process changes
 * meanwhile may be seen halfway: each link is checked, and the list ends where one makes no sense.
 */
#include "spare.h"
#include "slub.h"

#include <stdlib.h>
#include <string.h>

#define SLAB_BYTES_MAX (4u << 20)
#define OBJECTS_MAX    (SLAB_BYTES_MAX / 8)
#define HOLES_ORDER_MAX 6	/* as src/core/slab/slab_internal.h has it */

struct spare {
	char slab[SLAB_BYTES_MAX];	/* the copy */
	unsigned char free[OBJECTS_MAX];
};

struct slab {
	const struct snapshot *snapshot;
	const struct cache_view *cache;
	const struct piece *piece;
	uint64_t bytes, size, nr;
	bool link_is_inside;
};

struct spare *spare_new(void)
{
	return must_have(malloc(sizeof(struct spare)));
}

void spare_free(struct spare *spare)
{
	free(spare);
}

/* As cache_bytes_may_go() and holes_are_allowed() in the library. */
static bool pages_may_go(const struct slab *slab)
{
	uint64_t order = cache_field(slab->cache, SLUB_ABI_CACHE_ORDER);

	if (cache_field(slab->cache, SLUB_ABI_CACHE_CTOR) ||
	    cache_field(slab->cache, SLUB_ABI_CACHE_DEBUG) ||
	    cache_field(slab->cache, SLUB_ABI_CACHE_FLAGS) & SLUB_ABI_FLAG_TYPESAFE_BY_RCU)
		return false;
	return !slab->link_is_inside || (order && order <= HOLES_ORDER_MAX);
}

/* As holes_make(): where objects are still to be carved the library makes no holes. */
static bool is_carved_whole(const struct slab *slab)
{
	return !slab->link_is_inside || slab->piece->holes ||
	       (!slab->piece->frozen && slab->piece->carved >= slab->nr);
}

static bool first_free(const struct slab *slab, uint64_t *object)
{
	const struct slub_abi *abi = &slab->snapshot->abi;
	uint64_t align = abi->descriptor_state_align;
	uint64_t at = abi->descriptors + (slab->piece->address - abi->heap_start) /
		      abi->page_bytes * abi->descriptor_stride;

	at = (at + abi->descriptor_state + align - 1) & -align;
	return !process_read(slab->snapshot->process, at, object, sizeof(*object));
}

static bool next_free(const struct spare *spare, const struct slab *slab, uint64_t offset,
		      uint64_t *object)
{
	uint64_t link = cache_field(slab->cache, SLUB_ABI_CACHE_LINK);
	uint64_t address = slab->piece->address + offset;

	if (!slab->link_is_inside)
		return !process_read(slab->snapshot->process, link + (address >> 12) * 8,
				     object, sizeof(*object));
	if (offset + link + sizeof(*object) > slab->bytes)
		return false;
	memcpy(object, spare->slab + offset + link, sizeof(*object));
	return true;
}

/* By the freelist, and what is not carved: all that touches a hole, or without one the end. */
static void mark_free(struct spare *spare, const struct slab *slab)
{
	const struct piece *piece = slab->piece;
	uint64_t object;

	for (uint64_t i = 0; i < slab->nr; i++)
		spare->free[i] = piece->holes ?
			piece_is_hole(piece, slab->snapshot->abi.page_bytes, i, slab->size) :
			i >= piece->carved;
	if (!first_free(slab, &object))
		return;
	while (object) {
		uint64_t offset = object - piece->address, i = offset / slab->size;

		if (offset % slab->size || i >= slab->nr || spare->free[i])
			return;
		spare->free[i] = 1;
		if (!next_free(spare, slab, offset, &object))
			return;
	}
}

static bool is_spare(const struct spare *spare, const struct slab *slab, uint64_t start,
		     uint64_t end)
{
	uint64_t first = start / slab->size, last = (end - 1) / slab->size;

	if (first >= slab->nr)
		return false;
	for (uint64_t i = first; i <= last && i < slab->nr; i++) {
		if (!spare->free[i])
			return false;
	}
	return true;
}

static uint64_t page_bytes(const struct slab *slab, uint64_t page, struct resident *resident)
{
	uint64_t bytes = slab->snapshot->abi.page_bytes;

	if (resident)
		return resident_bytes(resident, slab->piece->address + page * bytes, bytes);
	return page < 64 && slab->piece->holes >> page & 1 ? 0 : bytes;
}

uint64_t spare_bytes(struct spare *spare, const struct snapshot *snapshot,
		     const struct piece *piece, struct resident *resident)
{
	const struct cache_view *cache = &snapshot->caches[piece->cache];
	uint64_t page = snapshot->abi.page_bytes, sum = 0;
	struct slab slab = {
		.snapshot = snapshot, .cache = cache, .piece = piece,
		.bytes = piece->pages * page,
		.size = cache_field(cache, SLUB_ABI_CACHE_SIZE),
		.nr = cache_field(cache, SLUB_ABI_CACHE_OBJECTS),
		.link_is_inside = cache_field(cache, SLUB_ABI_CACHE_LINK) < 4096,
	};

	if (!pages_may_go(&slab) || !is_carved_whole(&slab) ||
	    slab.bytes > SLAB_BYTES_MAX || slab.nr > OBJECTS_MAX ||
	    slab.nr > slab.bytes / slab.size ||
	    (slab.link_is_inside &&
	     process_read(snapshot->process, piece->address, spare->slab, slab.bytes)))
		return 0;
	mark_free(spare, &slab);
	for (uint64_t i = 0; i < piece->pages; i++) {
		if (is_spare(spare, &slab, i * page, (i + 1) * page))
			sum += page_bytes(&slab, i, resident);
	}
	return sum;
}
