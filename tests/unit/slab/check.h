/* SPDX-License-Identifier: MIT */
/*
 * Walks all slabs of a cache and everything that holds objects of it, and checks SLAB-1 to SLAB-4
 * of core/slab/slab.h.  Nobody else may be using the cache meanwhile.
 */
#ifndef SLUB_TESTS_UNIT_CHECK_H
#define SLUB_TESTS_UNIT_CHECK_H

#include <gtest/gtest.h>
#include <set>
#include <vector>

#include "links.h"

/* The core alone has no holes. */
extern "C" __attribute__((weak)) uint32_t holes_objects(const struct slub_cache *, uint64_t);

struct cache_check {
	struct slub_cache *cache;
	struct cache_node *node;
	std::set<void *> held;		/* in lists of CPUs, barns, slabs or with the user */
	size_t slabs = 0, carved = 0, inuse = 0, listed = 0, frozen = 0;

	explicit cache_check(struct slub_cache *c) : cache(c), node(c->nodes[0]) {}

	/* SLAB-3: an object is in one place at most. */
	void hold(void *object, const char *where)
	{
		ASSERT_TRUE(held.insert(object).second) << object << " is twice somewhere, last "
							<< where;
	}
	size_t hold_chain(void *chain, const char *where)
	{
		size_t n = 0;

		for (void *o = chain; o && !testing::Test::HasFatalFailure(); n++) {
			hold(o, where);
			o = link_next(cache, o);
		}
		return n;
	}

	void check_object(struct page *slab, void *object)
	{
		auto offset = (size_t)((char *)object - (char *)page_address(slab));

		ASSERT_EQ(offset % cache->size, 0u) << "not the start of an object";
		ASSERT_LT(offset / cache->size, slab_objects_end(cache, slab)) << "was not carved";
		ASSERT_FALSE(object_is_hole(cache, slab_holes(cache, slab), offset / cache->size))
			<< "is in a hole";
		ASSERT_EQ(cache_of(object), cache);
	}

	void check_slab(struct page *slab)
	{
		struct double_word state = *page_state(slab);
		bool is_listed = state.second & STATE_LISTED;
		bool is_frozen = state.second & STATE_FROZEN;
		size_t nr_free = 0;

		slabs++;
		carved += slab->count;
		inuse += state_inuse(state);
		listed += is_listed;
		frozen += is_frozen;
		EXPECT_EQ(page_order(slab), cache->order);
		EXPECT_EQ(state_objects(state), cache->objects);
		EXPECT_LE(slab->count, cache->objects);
		if (uint64_t holes = slab_holes(cache, slab)) {
			uint32_t uncarved = 0;

			for (uint32_t i = 0; i < cache->objects; i++)
				uncarved += object_is_hole(cache, holes, i);
			EXPECT_EQ(holes_objects(cache, holes), uncarved);
			EXPECT_EQ(slab->count + uncarved, cache->objects);
		}
		EXPECT_FALSE(slab->flags & PAGE_LOCK_BIT);
		for (void *o = (void *)state.first; o; o = link_next(cache, o)) {
			ASSERT_NO_FATAL_FAILURE(hold(o, "on a slab's freelist"));
			ASSERT_NO_FATAL_FAILURE(check_object(slab, o));
			nr_free++;
		}
		EXPECT_EQ(state_inuse(state), slab->count - nr_free);
		EXPECT_FALSE(is_listed && is_frozen) << "SLAB-1";
		EXPECT_EQ(is_frozen, node->carve == slab);
		if (!is_listed && !is_frozen) {
			EXPECT_EQ(nr_free, 0u) << "SLAB-2";
			EXPECT_EQ(slab->count, cache->objects) << "SLAB-2";
		}
	}

	void check_slabs()
	{
		char *addr = (char *)heap_start, *end = addr + pagemap_committed();

		while (addr < end) {
			struct page *page = page_of(addr);

			if (pagemap_get(addr) != cache->slot) {
				addr += PAGE_BYTES;
				continue;
			}
			ASSERT_EQ(page_type(page), TYPE_SLAB);
			ASSERT_EQ((uintptr_t)addr % (PAGE_BYTES << cache->order), 0u);
			for (size_t p = 0; p < (size_t)1 << cache->order; p++)
				ASSERT_EQ(pagemap_get(addr + p * PAGE_BYTES), cache->slot);
			ASSERT_NO_FATAL_FAILURE(check_slab(page));
			addr += PAGE_BYTES << cache->order;
		}
	}

	void check_node()
	{
		size_t on_list = 0;

		for (struct list *i = node->partial.next; i != &node->partial; i = i->next) {
			struct page *slab = container_of(i, struct page, list);

			ASSERT_EQ(i->next->prev, i);
			ASSERT_TRUE(page_state(slab)->second & STATE_LISTED);
			ASSERT_EQ(cache_of(page_address(slab)), cache);
			ASSERT_LE(++on_list, slabs);
		}
		EXPECT_EQ(on_list, listed);
		EXPECT_EQ(node->nr_partial, listed);
		EXPECT_EQ(frozen, node->carve ? 1u : 0u);
		EXPECT_EQ(node->nr_slabs, slabs);
		EXPECT_EQ(node->nr_objects, slabs * cache->objects);
		EXPECT_EQ(node->nr_carved, carved);
		EXPECT_GE(node->nr_slabs_peak, slabs);
		EXPECT_EQ(node->nr_constructing, 0u);
	}

	size_t hold_barns()
	{
		const uint64_t pointer = (1ull << BARN_ENTRY_SHIFT) - 1;
		size_t n = 0, counted = 0;

		for (uint32_t cid = 0; cid < percpu_areas_end(); cid++) {
			struct barn *barn = barn_of(cache, cid);

			if (!barn)
				continue;
			EXPECT_LE(barn->newest - barn->oldest, (uint32_t)BARN_CHAINS);
			for (uint32_t i = barn->oldest; i != barn->newest; i++) {
				uint64_t entry = barn->chains[i % BARN_CHAINS];

				n += hold_chain((void *)(uintptr_t)(entry & pointer), "in a barn");
				counted += entry >> BARN_ENTRY_SHIFT;
			}
		}
		EXPECT_EQ(cache->in_barns, counted);
		return n;
	}

	size_t hold_cpus()
	{
		size_t n = 0;

		for (uint32_t cid = 0; cid < percpu_areas_end(); cid++) {
			if (!percpu_area(cid))
				continue;
			auto *slot = (struct slot *)(percpu_area(cid) + cache->list_slot);
			n += hold_chain(slot->main.head, "on a main list");
			n += hold_chain(slot->spare.head, "on a spare list");
		}
		return n;
	}

	/* @user: what the caller holds; returns what the lists and barns hold. */
	size_t check(const std::vector<void *> &user)
	{
		check_slabs();
		if (testing::Test::HasFatalFailure())
			return 0;
		check_node();
		size_t kept = hold_cpus() + hold_barns();
		for (void *object : user) {
			hold(object, "with the user");
			check_object(slab_of(cache, object), object);
		}
		EXPECT_EQ(inuse, kept + user.size()) << "objects got lost, or came from nowhere";
		return kept;
	}
};

inline size_t check_cache(struct slub_cache *cache, const std::vector<void *> &user)
{
	cache_check check(cache);

	return check.check(user);
}

/*
 * The first round leaves the pages of the slabs that it frees in the lists of this CPU, from
 * where the second one takes them.
 */
inline void shrink_fully()
{
	slab_shrink_all();
	slab_shrink_all();
}

/* Caches are never destroyed: one for each size, emptied between tests. */
inline struct slub_cache *test_cache(uint32_t size)
{
	static struct slub_cache caches[64];
	static int nr;

	for (int i = 0; i < nr; i++)
		if (caches[i].size == size)
			return &caches[i];
	if (cache_create(&caches[nr], "test", size))
		abort();
	return &caches[nr++];
}

#endif
