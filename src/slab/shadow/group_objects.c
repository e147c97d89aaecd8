/* SPDX-License-Identifier: MIT */
/*
 * Groups as caches see them: which slabs the objects of a group keep, and caches
 * that are in a group by themselves.
 */
#include "slab/shadow/owned.h"

#include <errno.h>
#include <string.h>

/* ---- which memory a group keeps ---- */

struct tally {
	const struct slub_group *group;
	struct slub_group_memory *memory;
	/* The owner that was asked for last; neighbours mostly have one. */
	uint32_t owner;
	bool is_ours;
};

static bool is_ours(struct tally *tally, uint32_t owner)
{
	if (owner != tally->owner) {
		tally->owner = owner;
		tally->is_ours = group_owns(tally->group, owner);
	}
	return tally->is_ours;
}

/*
 * Whether @object is allocated, and the owner that is charged for it.  Where the slab has gone
 * that is any word, and dropped.
 */
static may_race bool owner_at(const struct slub_cache *cache, const void *object,
		     uint32_t *owner)
{
	*owner = __atomic_load_n(object_owner(cache, object), __ATOMIC_RELAXED);
	return !(*owner & OWNER_FREE);
}

/* Of a cache that is pinned. */
static void tally_pinned(struct tally *tally, struct slub_cache *cache,
			 struct page *slab)
{
	size_t bytes = PAGE_BYTES << cache->order;
	uint32_t used = 0, ours = 0, owner;
	struct slab_iterator iterator;
	void *object;

	if (!slab_iterate(&iterator, cache, slab))
		return;
	while ((object = slab_next(&iterator)) != NULL) {
		if (!owner_at(cache, object, &owner))
			continue;
		used++;
		ours += is_ours(tally, owner);
	}
	if (!ours || cache_of(page_address(slab)) != cache)
		return;
	tally->memory->objects += ours;
	tally->memory->object_bytes += (size_t)ours * cache->object_size;
	tally->memory->slabs++;
	tally->memory->slab_bytes += bytes;
	tally->memory->share_bytes += bytes * ours / used;
}

/*
 * A cache that ended meanwhile and became another would have no size for a moment, by
 * which an object's number is found.
 */
static void tally_slab(struct slub_cache *cache, struct page *slab, void *arg)
{
	struct cache_hold pin;

	if (!__atomic_load_n(&cache->is_accounted, __ATOMIC_RELAXED) ||
	    !cache_pin_slab(cache, slab, &pin))
		return;
	tally_pinned(arg, cache, slab);
	cache_unpin(&pin);
}

static void tally_large(struct tally *tally)
{
	char *addr = (char *)heap_start;
	char *end = addr + pagemap_committed();

	for (; addr < end; addr += PAGE_BYTES) {
		if (pagemap_get(addr) != MAP_LARGE ||
		    !is_ours(tally, __atomic_load_n(page_owner(page_of(addr)),
						    __ATOMIC_RELAXED)))
			continue;
		tally->memory->large_blocks++;
		tally->memory->large_bytes += large_bytes(addr);
	}
}

SLUB_EXPORT int slub_group_memory(struct slub_group *group,
				       struct slub_group_memory *memory)
{
	struct tally tally = { group, memory, 0, false };

	if (!group_is_good(group))
		return -EINVAL;
	if (slub_thread.locks_held)
		return -EDEADLK;
	memset(memory, 0, sizeof(*memory));
	if (!account_lists_are_empty())
		account_settle_lists(true);
	slab_for_each(tally_slab, &tally);
	tally_large(&tally);
	return 0;
}

/* ---- caches in groups ---- */

void cache_place_copy(struct slub_cache *cache, const uint32_t *place)
{
	group_place_copy(&cache->place, place);
	cache_inline_slot_set(cache);
}

SLUB_EXPORT int slub_cache_group_set(struct slub_cache *cache,
				     struct slub_group *group)
{
	uint32_t owner = 0;
	int err = -EBUSY;

	if (slub_thread.locks_held)
		return -EDEADLK;
	if (!cache)
		return -EINVAL;
	cache = cache_usable(cache);
	if (!cache || cache->is_internal || !cache->is_accounted ||
	    (group && !(owner = group_hold(group))))
		return -EINVAL;
	/* It must not become another's as well between the look and the change. */
	if (making_begin()) {
		if (cache->users <= 1) {
			owner = group_place_exchange(&cache->place, owner);
			cache_inline_slot_set(cache);
			err = 0;
		}
		making_end();
	}
	/* The old one, or the new one that it did not become; this waits for readers. */
	group_place_drop(owner);
	return err;
}
