/* SPDX-License-Identifier: MIT */
/* features/typed/visit.c: what is visited is what is allocated; what is shrunk is what is not. */
#include <algorithm>
#include <set>

#include "typed.h"

#include <slub/reserve.h>

namespace {

class visit : public typed, public testing::WithParamInterface<size_t> {};

std::set<void *> visited(struct slub_cache *cache)
{
	std::set<void *> out;

	EXPECT_EQ(slub_cache_for_each_object(cache, [](void *object, void *arg) {
		EXPECT_TRUE(((std::set<void *> *)arg)->insert(object).second);
		return 0;
	}, &out), 0);
	return out;
}

TEST_P(visit, sees_what_is_allocated_wherever_the_rest_lies)
{
	struct slub_cache *cache = make("visit", GetParam());
	harness::Random random(GetParam());
	std::set<void *> mine;

	for (int round = 0; round < 12; round++) {
		size_t most = std::min<size_t>((4 << 20) / cache->size, 20000);

		for (size_t i = 0; i < most / 3; i++)
			mine.insert(slub_cache_alloc_flags(cache, 0));
		for (auto one = mine.begin(); one != mine.end();) {
			if (random.below(3) == 0) {
				++one;
				continue;
			}
			slub_cache_free(cache, *one);
			one = mine.erase(one);
		}
		ASSERT_EQ(visited(cache), mine);
		check_cache(cache, std::vector<void *>(mine.begin(), mine.end()));
	}
	for (void *object : mine)
		slub_cache_free(cache, object);
	EXPECT_EQ(visited(cache).size(), 0u);
	end(cache);
}

/* What the map names for a slab that ends may be a cache that is being made by then. */
TEST_P(visit, does_not_go_by_what_another_cache_becomes)
{
	struct slub_cache *other = make("visit_other", GetParam());
	struct slub_cache *cache = make("visit_behind", GetParam());
	std::set<void *> mine;
	std::vector<void *> theirs;

	/* By turns, so that slabs of both lie side by side. */
	for (size_t i = 0; i < 8 * other->objects; i++) {
		theirs.push_back(slub_cache_alloc_flags(other, 0));
		mine.insert(slub_cache_alloc_flags(cache, 0));
	}
	uint32_t order = other->order;
	other->order = 9;
	EXPECT_EQ(visited(cache), mine);
	other->order = order;
	slub_cache_free_bulk(other, theirs.size(), theirs.data());
	for (void *object : mine)
		slub_cache_free(cache, object);
	end(cache);
	end(other);
}

/* A free object may be handed out in the middle of a look at its slab. */
TEST_P(visit, writes_nothing_where_a_program_has_written)
{
	struct slub_cache *cache = make("visit_taken", GetParam());
	static struct slab_iterator iterator;
	void *objects[8];

	ASSERT_EQ(slub_cache_alloc_bulk(cache, 0, 8, objects), 8u);
	slub_cache_free(cache, objects[3]);
	ASSERT_TRUE(cache_flush(cache));
	struct page *slab = slab_of(cache, objects[3]);
	void *first = (void *)page_state(slab)->first;
	void *link = *link_of(cache, first);
	for (uintptr_t word : { (uintptr_t)0x4141414141414141, (uintptr_t)objects[0] + 1 }) {
		*link_of(cache, first) = (void *)word;
		EXPECT_FALSE(slab_iterate(&iterator, cache, slab));
		EXPECT_EQ(*link_of(cache, first), (void *)word);
	}
	*link_of(cache, first) = link;
	EXPECT_TRUE(slab_iterate(&iterator, cache, slab));
	/* It has gone, and its first page begins a large block of 800 MiB. */
	uint32_t count = slab->count;
	slab->count = 200000;
	EXPECT_FALSE(slab_iterate(&iterator, cache, slab));
	slab->count = count;
	for (int i = 0; i < 8; i++) {
		if (i != 3)
			slub_cache_free(cache, objects[i]);
	}
	end(cache);
}

TEST_P(visit, shrink_leaves_slabs_with_objects_only)
{
	struct slub_cache *cache = make("shrink", GetParam());
	std::vector<void *> objects(std::min<size_t>((4 << 20) / cache->size, 50000)), kept;

	ASSERT_EQ(slub_cache_alloc_bulk(cache, 0, objects.size(), objects.data()), objects.size());
	std::set<uintptr_t> slabs;
	for (size_t i = 0; i < objects.size(); i++) {
		if (i % 64 == 5) {
			kept.push_back(objects[i]);
			slabs.insert((uintptr_t)slab_of(cache, objects[i]));
		} else {
			slub_cache_free(cache, objects[i]);
		}
	}
	EXPECT_EQ(slub_cache_shrink(cache), 1);
	EXPECT_EQ(check_cache(cache, kept), 0u) << "no list holds an object";
	EXPECT_EQ(cache->nodes[0]->nr_slabs, slabs.size());
	slub_cache_free_bulk(cache, kept.size(), kept.data());
	EXPECT_EQ(slub_cache_shrink(cache), 0);
	EXPECT_EQ(cache->nodes[0]->nr_slabs, 0u);
	end(cache);
}

TEST_P(visit, answers_what_the_visitor_said)
{
	struct slub_cache *cache = make("stop", GetParam());
	void *objects[3];

	ASSERT_EQ(slub_cache_alloc_bulk(cache, 0, 3, objects), 3u);
	int calls = 0;
	EXPECT_EQ(slub_cache_for_each_object(cache, [](void *, void *arg) {
		++*(int *)arg;
		return -7;
	}, &calls), -7);
	EXPECT_EQ(calls, 1);
	slub_cache_free_bulk(cache, 3, objects);
	end(cache);
}

/* What its objects of the reserve leave behind is free as well. */
TEST_F(typed, shrink_gives_the_reserve_back)
{
	ASSERT_EQ(slub_reserve_set(1 << 20), 0);
	struct slub_cache *cache = make("reserved", 256);
	void *object = cache_alloc_from_reserve(cache, SLUB_ALLOC_RESERVE);
	ASSERT_NE(object, nullptr);
	/* Not by a free, which would give the slab back itself. */
	struct slub_cache *shadow = cache_shadow(cache, SHADOW_RESERVE);
	slab_free_objects(shadow, slab_of(shadow, object), object, object, 1);
	ASSERT_TRUE(cache_has_slabs(shadow));
	EXPECT_EQ(slub_cache_shrink(cache), 0);
	EXPECT_FALSE(cache_has_slabs(shadow));
	end(cache);
	EXPECT_EQ(slub_reserve_set(0), 0);
}

INSTANTIATE_TEST_SUITE_P(sizes, visit, testing::Values(8, 64, 200, 4096, 30000));

} /* namespace */
