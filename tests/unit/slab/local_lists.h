/* SPDX-License-Identifier: MIT */
/*
 * The local lists of a class of malloc(), filled and looked at.
 */
#ifndef SLUB_TESTS_UNIT_SLAB_LOCAL_LISTS_H
#define SLUB_TESTS_UNIT_SLAB_LOCAL_LISTS_H

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <gtest/gtest.h>
#include <map>
#include <set>
#include <sys/wait.h>
#include <vector>

#include "harness.h"
#include "slub.h"
#include "start.h"

extern "C" {
#define new new_value
#define _Atomic
#include "features/misuse/misuse.h"
#include "core/slab/key.h"
#include "core/slab/local.h"
#undef new
#undef _Atomic

/* The linker sends the library's calls here (--wrap). */
static bool barrier_is_refused;
static int nr_barriers;
int __real_os_barrier_rseq(void);
int __wrap_os_barrier_rseq(void)
{
	__atomic_fetch_add(&nr_barriers, 1, __ATOMIC_RELAXED);
	return barrier_is_refused ? -EPERM : __real_os_barrier_rseq();
}
}

namespace {

/* No test program asks for so many bytes itself. */
constexpr size_t BYTES = 400;
constexpr size_t MANY = 20000;

/* What the local lists of a cache hold, looked through link by link. */
struct locals {
	explicit locals(const struct slub_cache *cache)
	{
		for (uint32_t cid = 0; cid < percpu_areas_end(); cid++)
			look(cache, cid);
	}
	void look(const struct slub_cache *cache, uint32_t cid)
	{
		struct local_slabs *mine = local_slabs_of(cache->nodes[0], cid);

		for (struct list *i = mine ? mine->slabs.next : nullptr;
		     mine && i != &mine->slabs; i = i->next) {
			struct page *local = container_of(i, struct page, list);
			uint64_t word = local_read(local);
			uint64_t sum = 0;
			uint32_t n = 0;

			EXPECT_EQ(local_owner(word), cid);
			for (void *o = local_head(local, word); o; o = *(void **)o, n++) {
				sum += local_addend(o);
				EXPECT_EQ(local_of(slab_of(cache, o)), local);
				EXPECT_TRUE(cache_is_at_object(cache, o));
				EXPECT_TRUE(key_is_right(o));
				EXPECT_TRUE(objects.insert(o).second) << "once";
				if (!*(void **)o) {
					EXPECT_EQ(*local_last(local), o);
				}
			}
			EXPECT_EQ(n, local_count(local, word));
			EXPECT_GE(n, 1u) << "LOCAL-3";
			EXPECT_LE(n, state_inuse(slab_read(local - 1))) << "LOCAL-4";
			slabs++;
			EXPECT_EQ(local_sum(word), sum) << "LOCAL-6";
		}
	}
	std::set<void *> objects;
	size_t slabs = 0;
};

inline bool has_list(const struct page *local)
{
	return local->list.next;
}

class local_lists : public testing::Test {
protected:
	void SetUp() override
	{
		static char ignore[] = "SLUB_ON_ERROR=ignore";
		char *environment[] = { ignore, nullptr };

		free(harness::opaque(malloc(BYTES)));
		if (!start::has_wanted_backend())
			GTEST_SKIP() << "this process cannot have that backend";
		void *object = harness::opaque(malloc(BYTES));
		cache = cache_of(object);
		free(object);
		if (!cache || !cache->has_local)
			GTEST_SKIP() << "slabs have no local lists here";
		option_read(environment);
		slab_shrink_all();
		found = misuse_nr_found();
		lost = in_use();
		nr_barriers = 0;
	}
	void TearDown() override
	{
		barrier_is_refused = false;
		for (void *object : mine)
			free(object);
		slab_shrink_all();
	}
	void fill(size_t nr)
	{
		for (size_t i = 0; i < nr; i++)
			mine.push_back(memset(harness::opaque(malloc(BYTES)), 1, BYTES));
	}
	/* All but @kept of them, by chance. */
	void free_scattered(size_t kept)
	{
		for (size_t i = mine.size(); i > 1; i--)
			std::swap(mine[i - 1], mine[random.below(i)]);
		while (mine.size() > kept) {
			free(mine.back());
			mine.pop_back();
		}
	}
	/* All objects of a slab that has no others. */
	std::vector<void *> take_slab()
	{
		std::map<struct page *, std::vector<void *>> by_slab;

		for (void *object : mine)
			by_slab[slab_of(cache, object)].push_back(object);
		for (auto &[slab, inside] : by_slab) {
			if (inside.size() != cache->objects)
				continue;
			std::set<void *> out(inside.begin(), inside.end());
			mine.erase(std::remove_if(mine.begin(), mine.end(),
						  [&](void *o) { return out.count(o); }),
				   mine.end());
			return inside;
		}
		return {};
	}
	/* ... and this CPU's list is a short one then. */
	std::vector<void *> take_slab_of_a_short_list()
	{
		std::vector<void *> inside = take_slab();

		EXPECT_EQ(inside.size(), cache->objects);
		free_scattered(MANY / 2);
		EXPECT_LE(slot()->main.room, ROOM_SHORT);
		return inside;
	}
	/* As if another CPU freed it. */
	static void give(struct slub_cache *cache, void *object)
	{
		link_set_keyed(object, NULL);
		chain_flush(cache, object);
	}
	struct local_slabs *own() const
	{
		return local_slabs_of(cache->nodes[0], percpu_here());
	}
	/* The first is freed here, the second elsewhere: the list is set right as a shared one. */
	void share(const std::vector<void *> &inside)
	{
		free(inside[0]);
		give(cache, inside[1]);
		EXPECT_EQ(own()->nr_marked, 1u) << "there was room for all others but one";
		while (own()->nr_marked && !mine.empty()) {
			free(mine.back());
			mine.pop_back();
		}
	}
	struct slot *slot() const
	{
		return (struct slot *)(percpu_area(percpu_here()) + cache->list_slot);
	}
	static size_t length(const void *chain)
	{
		size_t n = 0;

		for (; chain; chain = *(void *const *)chain)
			n++;
		return n;
	}
	/* Objects that slabs count as in use, but for those that an earlier test damaged. */
	size_t in_use() const
	{
		uint32_t stats = cache->stats;

		return (uint32_t)slub_percpu_sum32(stats + 4 * STAT_OBJECTS_OUT) -
		       (uint32_t)slub_percpu_sum32(stats + 4 * STAT_OBJECTS_BACK) - lost;
	}
	size_t slabs() const { return cache->nodes[0]->nr_slabs; }

	start::one_cpu stays;
	struct slub_cache *cache = nullptr;
	std::vector<void *> mine;
	harness::Random random{ 11 };
	uint64_t found = 0;
	size_t lost = 0;
};

} /* namespace */

#endif
