/* SPDX-License-Identifier: MIT */
/*
 * Giving a chain back to its slabs, grouped: one exchange per slab and not per
 * object.  Neighbours in a chain mostly share a slab, but two or three slabs
 * often take turns, so a small table of open groups is kept.
 */
#include "debug/misuse.h"
#include "slab/core/local.h"
#include "slab/slab_internal.h"

#define GROUPS 16

struct group {
	struct page *slab;
	struct detached_list own;
};

/* Open groups, each at the place that its slab's number gives it. */
struct groups {
	struct group at[GROUPS];
	uint32_t open;	/* bit n: at[n] is one; else it was never written */
	uint32_t nr;	/* objects that are back, and not counted yet */
};

/*
 * Mostly the slab has other objects free, and others in use: then one exchange does it, and
 * no list changes.  False: node.c has to see to it.
 */
static bool group_returns(struct slub_cache *cache, const struct group *group)
{
	struct double_word old = slab_read(group->slab), new;

	do {
		if (!(old.second & (STATE_FROZEN | STATE_LISTED)) ||
		    state_inuse(old) <= group->own.nr)
			return false;
		chain_set_next(cache, group->own.last, (void *)old.first);
		new.first = (uintptr_t)group->own.head;
		new.second = old.second - group->own.nr;
	} while (!slab_update(group->slab, &old, new));
	return true;
}

static void group_close(struct slub_cache *cache, struct groups *groups, struct group *group)
{
	local_join(cache, group->slab, &group->own);
	if (likely(group_returns(cache, group)))
		groups->nr += group->own.nr;
	else
		slab_free_objects(cache, group->slab, group->own.head, group->own.last,
				  group->own.nr);
}

static uint32_t group_place(const struct slub_cache *cache,
			    const struct page *slab)
{
	size_t number = ((uintptr_t)slab / sizeof(*slab)) >> cache->order;

	return number % GROUPS;
}

static void groups_add(struct slub_cache *cache, struct groups *groups,
		       const struct group *run)
{
	uint32_t place = group_place(cache, run->slab);
	struct group *group = &groups->at[place];

	if (groups->open >> place & 1) {
		if (group->slab == run->slab) {
			chain_set_next(cache, run->own.last, group->own.head);
			group->own.head = run->own.head;
			group->own.nr += run->own.nr;
			return;
		}
		group_close(cache, groups, group);
	}
	groups->open |= 1u << place;
	*group = *run;
}

/*
 * The objects from @object on that lie in one slab.  They are linked as they
 * have to be, so they are only read.  Returns what follows them.
 */
static void *run_take(struct slub_cache *cache, void *object,
		      struct group *run)
{
	uintptr_t slab_bytes = PAGE_BYTES << cache->order;
	uintptr_t base = round_down((uintptr_t)object, slab_bytes);
	uint32_t nr = 0;

	run->slab = page_of((void *)base);
	/* It is written when its group closes, some runs later. */
	__builtin_prefetch(run->slab, 1);
	run->own.head = object;
	do {
		run->own.last = object;
		object = chain_next_near(cache, object);
		nr++;
	} while ((uintptr_t)object - base < slab_bytes && nr <= cache->objects);
	/* More than a slab has: one of them was freed twice. */
	if (SLUB_CONFIG_CHECKS && unlikely(nr > cache->objects)) {
		misuse_found(MISUSE_LIST, NULL, run->own.head, cache->name);
		object = NULL;
	}
	run->own.nr = nr;
	return object;
}

uint32_t chain_settled_to_slabs(struct slub_cache *cache, void *chain)
{
	struct groups groups;
	uint32_t nr = 0;

	groups.open = 0;
	groups.nr = 0;
	while (chain) {
		struct group run;

		chain = run_take(cache, chain, &run);
		groups_add(cache, &groups, &run);
		nr += run.own.nr;
	}
	for (; groups.open; groups.open &= groups.open - 1)
		group_close(cache, &groups,
			    &groups.at[__builtin_ctz(groups.open)]);
	stat_add_many(cache, STAT_OBJECTS_BACK, groups.nr);
	slab_tell(cache);
	return nr;
}

uint32_t chain_flush(struct slub_cache *cache, void *chain)
{
	if (chain)
		stat_add(cache, STAT_LISTS_EMPTIED);
	if (unlikely(cache->account_path != ACCOUNT_SLOW))
		account_settle(cache, chain);
	return chain_settled_to_slabs(cache, chain);
}
