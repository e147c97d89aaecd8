/* SPDX-License-Identifier: MIT */
/*
 * Making caches: the geometry of their slabs, the length of their lists, and
 * the table from slot to cache.
 *
 * Locks: cache_lock protects the list of caches while one is added.
 */
#include "slab/slab_internal.h"

/* Objects per slab that make fetching one worth its cost. */
#define SLAB_OBJECTS_MIN 32
#define SLAB_OBJECTS_MIN_LARGE 16
/* A slab may lose a sixteenth at its end, an eighth if need be. */
#define SLAB_ORDER_MAX 8

/* Bytes in a slot's list: small ones fit a 256-object working set twice. */
#define LIST_BYTES ((size_t)64 << 10)
#define LIST_BYTES_LARGE ((size_t)512 << 10)
#define LIST_OBJECTS_MIN 16
#define LIST_OBJECTS_MAX 256
#define LIST_OBJECTS_MAX_LARGE 64
/* Bytes that a barn holds, and chains at the least: two per CPU. */
#define BARN_BYTES ((size_t)16 << 20)

struct lock cache_lock = LOCK_INIT;

/* under cache_lock; read without it, for entries are never taken out */
static struct slub_cache *caches;
struct slub_cache *cache_slot_owner[AREA_BYTES / SLOT_BYTES];

/* const after start */
static uint32_t node_count = 1;
static uint32_t cpu_count = 1;

void slab_init(uint32_t nr_nodes, const struct os_cpus *cpus)
{
	node_count = nr_nodes;
	cpu_count = cpus->allowed;
	if (cpus->quota && cpus->quota < cpu_count)
		cpu_count = cpus->quota;
}

/*
 * The smallest slab that holds enough objects and loses little.  The loss is
 * address space and page-table room rather than memory: what lies behind the
 * last object is never touched.
 */
static uint32_t choose_order(uint32_t size)
{
	size_t least = size >= PAGE_BYTES ? SLAB_OBJECTS_MIN_LARGE :
					    SLAB_OBJECTS_MIN;

	for (uint32_t fraction = 16; fraction >= 4; fraction /= 2) {
		uint32_t order = order_of(least * size / PAGE_BYTES);

		for (; order <= SLAB_ORDER_MAX; order++) {
			size_t bytes = PAGE_BYTES << order;

			if (bytes / size && bytes % size <= bytes / fraction)
				return order;
		}
	}
	return SLAB_ORDER_MAX;
}

static void choose_lists(struct slub_cache *cache)
{
	size_t most = cache->bias ? LIST_OBJECTS_MAX_LARGE : LIST_OBJECTS_MAX;
	size_t n = (cache->bias ? LIST_BYTES_LARGE : LIST_BYTES) / cache->size;

	n = min_size(max_size(n, LIST_OBJECTS_MIN), most);
	cache->capacity = (int32_t)n;
	cache->capacity_now = (int32_t)n;
	cache->carve_batch = (uint32_t)n;
	if (!cache->bias)
		cache->carve_batch = (uint32_t)min_size(
			n, max_size(4 * PAGE_BYTES / cache->size, 8));
	cache->min_partial = (uint32_t)max_size(
		4 * PAGE_BYTES / (PAGE_BYTES << cache->order), 1);
}

static int nodes_create(struct slub_cache *cache)
{
	for (uint32_t n = 0; n < node_count; n++) {
		struct cache_node *node = meta_alloc(sizeof(*node));

		if (!node)
			return -12;	/* ENOMEM */
		list_init(&node->partial);
		node->node = n;
		node->barn.nr_max = (uint32_t)max_size(
			2 * cpu_count, BARN_BYTES / (cache->size *
						     (size_t)cache->capacity));
		node->barn.credit = 2 * cpu_count;
		cache->nodes[n] = node;
	}
	return 0;
}

/*
 * A cache whose links lie in the descriptors has two slots: the map names the
 * first, which stays empty with room 0, so that the fast path, which would
 * write links into objects, leaves it alone.
 */
static int slots_create(struct slub_cache *cache)
{
	uint32_t nr = cache->bias ? 2 : 1;
	uint32_t slot = percpu_alloc_slots(nr);

	if (!slot)
		return -28;	/* ENOSPC */
	cache->slot = slot;
	cache->list_slot = slot + (nr - 1) * SLOT_BYTES;
	return 0;
}

int cache_create(struct slub_cache *cache, const char *name, uint32_t size)
{
	int err;

	cache->name = name;
	cache->size = size;
	cache->object_size = size;
	cache->bias = size >= PAGE_BYTES ? descriptor_bias : 0;
	cache->order = choose_order(size);
	cache->objects = (uint32_t)((PAGE_BYTES << cache->order) / size);
	choose_lists(cache);
	err = nodes_create(cache);
	if (!err)
		err = slots_create(cache);
	if (err)
		return err;
	lock_acquire(&cache_lock);
	for (uint32_t s = cache->slot; s <= cache->list_slot; s += SLOT_BYTES)
		cache_slot_owner[s / SLOT_BYTES] = cache;
	cache->next = caches;
	/* release: whoever finds the cache finds it complete */
	__atomic_store_n(&caches, cache, __ATOMIC_RELEASE);
	lock_release(&cache_lock);
	return 0;
}

struct slub_cache *cache_first(void)
{
	return __atomic_load_n(&caches, __ATOMIC_ACQUIRE);
}

void slab_fork_prepare(void)
{
	lock_acquire_for_fork(&cache_lock);
	for (struct slub_cache *c = caches; c; c = c->next) {
		for (uint32_t n = 0; n < node_count; n++)
			lock_acquire_for_fork(&c->nodes[n]->lock);
	}
}

void slab_fork_finish(bool in_child)
{
	if (in_child)
		slab_update_after_fork();
	for (struct slub_cache *c = caches; c; c = c->next) {
		for (uint32_t n = 0; n < node_count; n++) {
			struct cache_node *node = c->nodes[n];

			if (lock_release_after_fork(&node->lock, in_child))
				node_rebuild(node);
		}
	}
	lock_release_after_fork(&cache_lock, in_child);
}
