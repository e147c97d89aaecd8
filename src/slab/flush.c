/* SPDX-License-Identifier: MIT */
/*
 * Giving a chain back to its slabs, grouped: one exchange per slab and not per
 * object.  Neighbours in a chain mostly share a slab, but two or three slabs
 * often take turns, so a small table of open groups is kept.
 */
#include "slab/account.h"

#define GROUPS 16

struct group {
	struct page *slab;
	void *head;
	void *tail;
	uint32_t nr;
};

static void group_close(struct slub_cache *cache, struct group *group)
{
	if (group->slab)
		slab_free_objects(cache, group->slab, group->head,
				  group->tail, group->nr);
	group->slab = NULL;
}

static struct group *group_of(struct group *groups, const struct page *slab,
			      uint32_t order)
{
	size_t number = ((uintptr_t)slab / sizeof(struct page)) >> order;

	return &groups[number % GROUPS];
}

static void group_add(struct slub_cache *cache, struct group *group,
		      struct page *slab, void *object)
{
	if (group->slab != slab) {
		group_close(cache, group);
		*group = (struct group){ slab, object, object, 1 };
		return;
	}
	chain_set_next(cache, object, group->head);
	group->head = object;
	group->nr++;
}

uint32_t chain_flush(struct slub_cache *cache, void *chain)
{
	struct group groups[GROUPS] = { { NULL, NULL, NULL, 0 } };
	uint32_t nr = 0;

	if (unlikely(cache->account_path != ACCOUNT_SLOW))
		account_settle(cache, chain);
	while (chain) {
		void *next = chain_next(cache, chain);
		struct page *slab = slab_of(cache, chain);

		group_add(cache, group_of(groups, slab, cache->order), slab,
			  chain);
		chain = next;
		nr++;
	}
	for (int i = 0; i < GROUPS; i++)
		group_close(cache, &groups[i]);
	slab_tell(cache);
	return nr;
}
