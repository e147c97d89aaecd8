/* SPDX-License-Identifier: MIT */
/*
 * The numbers of a cache: the pages of a slab, the length of the CPUs' lists,
 * the room of the barns.
 */
#include "core/slab/slab_internal.h"

/* A slab with fewer objects is not worth the cost of fetching it. */
#define SLAB_OBJECTS_MIN 32
#define SLAB_OBJECTS_MIN_LARGE 16
/*
 * The largest slab: 1 MiB, or 131,072 objects of 8 bytes.  Option test_min_order has the same
 * bound.
 */
#define SLAB_ORDER_MAX 8
/*
 * The processor fetches neighbours in memory ahead, and a page that was not carved costs
 * nothing.  A slab of one page holds enough objects of up to 128 bytes, but it scatters
 * the nodes of a tree over the heap.  Against slabs of 32 KiB `json` took 8 % more cycles
 * that way, `strings` 18 % and `python` 12 %, at the same peaks.  Misses of the
 * second-level cache in `json`: 2.4 million with 4 KiB, 1.5 with 16, 1.1 with 32; slabs of
 * 64 KiB gain nothing more.
 */
#define SLAB_BYTES_MIN ((size_t)32 << 10)

/* SLUB_MODE=compact: so many times fewer objects to a slab, and bytes to a list. */
#define COMPACT_SHARE 4

#define LIST_OBJECTS_MAX 2048

uint32_t slab_nodes = 1;

void slab_init(uint32_t nr_nodes)
{
	slab_nodes = nr_nodes;
}

static bool is_compact(void)
{
	return option_value(OPTION_mode) == MODE_COMPACT;
}

/* Enough objects and enough neighbours; SLUB_MODE=compact is content with a page. */
static size_t slab_bytes_wanted(uint32_t size)
{
	size_t least = size >= PAGE_BYTES ? SLAB_OBJECTS_MIN_LARGE :
					    SLAB_OBJECTS_MIN;

	if (is_compact())
		return max_size(least / COMPACT_SHARE * size, PAGE_BYTES);
	return max_size(least * size, SLAB_BYTES_MIN);
}

/*
 * The smallest slab that holds enough objects and loses little at its end: a sixteenth,
 * an eighth or a quarter at the most, whichever some order satisfies first.  The loss is
 * address space and page-table room rather than memory: the bytes behind the last object
 * are never touched.
 */
static uint32_t choose_order(uint32_t size)
{
	size_t pages = round_up(slab_bytes_wanted(size), PAGE_BYTES) / PAGE_BYTES;
	size_t first = max_size(order_of(pages), option_value(OPTION_test_min_order));

	for (uint32_t fraction = 16; fraction >= 4; fraction /= 2) {
		for (uint32_t order = (uint32_t)first; order <= SLAB_ORDER_MAX;
		     order++) {
			size_t bytes = PAGE_BYTES << order;

			if (bytes / size && bytes % size <= bytes / fraction)
				return order;
		}
	}
	return SLAB_ORDER_MAX;
}

/* Can another CPU take the objects in a list, and read their links? */
static bool lists_can_be_settled(void)
{
	return percpu_backend == BACKEND_RSEQ && percpu_can_stop &&
	       !SLUB_CONFIG_HARDENED;
}

/* Lists are short at first; alloc.c says how they grow. */
#define FIRST_BYTES ((size_t)8 << 10)
#define FIRST_BYTES_LARGE ((size_t)64 << 10)
#define FIRST_OBJECTS 8
#define FIRST_OBJECTS_LARGE 2

/* What the lists of a new cache may hold. */
static int32_t capacity_first(const struct slub_cache *cache, bool in_object)
{
	size_t share = is_compact() ? COMPACT_SHARE : 1;
	size_t n = in_object ?
		   max_size(FIRST_BYTES / share / cache->size, FIRST_OBJECTS) :
		   max_size(FIRST_BYTES_LARGE / share / cache->size,
			    FIRST_OBJECTS_LARGE);

	return (int32_t)min_size(n, (size_t)cache->capacity);
}

void capacity_restart(struct slub_cache *cache)
{
	if (!cache->has_sheaf_length)
		capacity_set(cache, capacity_first(cache, link_is_in_object(cache->link)));
}

/* Pages of a slab, objects in it, and where their owners are. */
static void choose_slab(struct slub_cache *cache, bool in_object)
{
	bool has_owners = cache->is_accounted && in_object && !cache->debug;
	uint32_t bytes = cache->size + (has_owners ? OWNER_BYTES : 0);
	uint32_t order = choose_order(bytes);
	uint8_t path = ACCOUNT_SLOW;

	/* The reserve consists of blocks of 32 KiB. */
	if (cache->is_reserve && order > 3)
		order = 3;
	__atomic_store_n(&cache->order, order, __ATOMIC_RELAXED);
	__atomic_store_n(&cache->objects,
			 (uint32_t)((PAGE_BYTES << order) / bytes),
			 __ATOMIC_RELAXED);
	cache->slab_mask = (PAGE_BYTES << cache->order) - 1;
	cache->start_magic = UINT64_MAX / cache->size + 1;
	cache->start_end = (uint64_t)cache->size * cache->objects;
	cache->start = start_check_of(cache->size, PAGE_BYTES << cache->order);
	cache->owners = (PAGE_BYTES << cache->order) -
			cache->objects * OWNER_BYTES;
	/* The quotient is exact for all offsets in a slab of objects below a page. */
	cache->owner_reciprocal = !has_owners ? 0 :
		((1ull << 32) + cache->size - 1) / cache->size;
	if (cache->is_accounted && !cache->debug && !cache->is_reserve &&
	    !cache->is_sampled && lists_can_be_settled())
		path = has_owners ? ACCOUNT_SLAB : ACCOUNT_PAGED;
	__atomic_store_n(&cache->account_path, path, __ATOMIC_RELAXED);
	cache->frees_inline = path == ACCOUNT_SLAB && !cache->link;
}

void cache_choose_geometry(struct slub_cache *cache, uint32_t sheaf_length)
{
	bool in_object = link_is_in_object(cache->link);
	size_t n = sheaf_length ? sheaf_length : LIST_OBJECTS_MAX;

	choose_slab(cache, in_object);
	cache->capacity = (int32_t)n;
	if (!sheaf_length)
		n = (size_t)capacity_first(cache, in_object);
	__atomic_store_n(&cache->capacity_now, (int32_t)n, __ATOMIC_RELAXED);
	cache->carve_batch = (uint32_t)cache->capacity;
	if (in_object)
		cache->carve_batch = (uint32_t)min_size(
			cache->carve_batch, max_size(4 * PAGE_BYTES / cache->size, 8));
	cache->min_partial = (uint32_t)max_size(
		4 * PAGE_BYTES / (PAGE_BYTES << cache->order), 1);
	if (cache->is_reserve)
		cache->min_partial = 0;
}
