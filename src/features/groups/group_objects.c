/* SPDX-License-Identifier: MIT */
/*
 * Groups as caches see them: all that has owners, which slabs the objects of a group keep,
 * and caches that are in a group by themselves.
 */
#include "features/groups/group.h"
#include "features/groups/owned.h"
#include "features/watch/watch.h"
#include "features/typed/typed.h"

#include <errno.h>
#include <string.h>

/* ---- all that has owners ---- */

/*
 * By the owners alone: no freelist is followed, for what is free is marked so, or is about to
 * be.  The slab may go meanwhile, and what is read there be anything.
 */
static may_race void visit_pinned(const struct owned_visitor *visitor,
				  const struct slub_cache *cache, struct page *slab)
{
	uint64_t holes = slab_holes_peek(cache, slab);
	uint32_t end = holes ? cache->objects : slab_count_read(slab);
	char *base = page_address(slab);

	int index;

	if (end > cache->objects)
		return;
	index = slub_srcu_read_lock(&group_domain);
	for (uint32_t i = 0; i < end; i++) {
		uint32_t owner;

		if (object_is_hole(cache, holes, i))
			continue;
		owner = __atomic_load_n(object_owner(cache, object_at(cache, base, i)),
					__ATOMIC_RELAXED);
		if (!(owner & OWNER_FREE))
			visitor->object(cache, slab, owner, visitor->arg);
	}
	slub_srcu_read_unlock(&group_domain, index);
	if (visitor->slab)
		visitor->slab(cache, slab, visitor->arg);
}

/* With the sizes of another cache it would read behind the slab, or the heap. */
static void visit_slab(struct slub_cache *cache, struct page *slab, void *arg)
{
	struct cache_hold pin;

	if (!__atomic_load_n(&cache->is_accounted, __ATOMIC_RELAXED) ||
	    slub_thread.locks_held || !cache_pin_slab(cache, slab, &pin))
		return;
	visit_pinned(arg, cache, slab);
	cache_unpin(&pin);
}

void owned_visit(const struct owned_visitor *visitor)
{
	char *addr = (char *)heap_start;
	char *end = addr + pagemap_committed();
	int index;

	slab_for_each(visit_slab, (void *)visitor);
	for (; addr < end; addr += PAGE_BYTES) {
		if (pagemap_get(addr) != MAP_LARGE)
			continue;
		/* For one block: who deletes a group waits for readers. */
		index = slub_srcu_read_lock(&group_domain);
		visitor->large(__atomic_load_n(page_owner(page_of(addr)),
					       __ATOMIC_RELAXED),
			       large_bytes(addr), visitor->arg);
		slub_srcu_read_unlock(&group_domain, index);
	}
}

/* ---- which memory a group keeps ---- */

struct tally {
	const struct slub_group *group;
	struct slub_group_memory *memory;
	/* The owner that was asked for last; neighbours mostly have one. */
	uint32_t owner;
	bool is_ours;
	uint32_t used, ours;		/* objects of the slab */
};

static bool is_ours(struct tally *tally, uint32_t owner)
{
	if (owner != tally->owner) {
		tally->owner = owner;
		tally->is_ours = group_owns(tally->group, owner);
	}
	return tally->is_ours;
}

static void tally_object(const struct slub_cache *cache, const struct page *slab,
			 uint32_t owner, void *arg)
{
	struct tally *tally = arg;

	(void)cache;
	(void)slab;
	tally->used++;
	tally->ours += is_ours(tally, owner);
}

static void tally_slab(const struct slub_cache *cache, const struct page *slab, void *arg)
{
	struct tally *tally = arg;
	struct slub_group_memory *memory = tally->memory;
	size_t bytes = PAGE_BYTES << cache->order;

	if (tally->ours && cache_of(page_address(slab)) == cache) {
		memory->objects += tally->ours;
		memory->object_bytes += (size_t)tally->ours * cache->object_size;
		memory->slabs++;
		memory->slab_bytes += bytes;
		memory->share_bytes += bytes * tally->ours / tally->used;
	}
	tally->used = 0;
	tally->ours = 0;
}

static void tally_large(uint32_t owner, size_t bytes, void *arg)
{
	struct tally *tally = arg;

	if (!is_ours(tally, owner))
		return;
	tally->memory->large_blocks++;
	tally->memory->large_bytes += bytes;
}

SLUB_EXPORT int slub_group_memory(struct slub_group *group,
				       struct slub_group_memory *memory)
{
	struct tally tally = { .group = group, .memory = memory };
	struct owned_visitor visitor = { tally_object, tally_slab, tally_large, &tally };

	if (!group_is_alive(group))
		return -EINVAL;
	if (slub_thread.locks_held)
		return -EDEADLK;
	memset(memory, 0, sizeof(*memory));
	if (!account_lists_are_empty())
		account_settle_lists(true);
	owned_visit(&visitor);
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
