/* SPDX-License-Identifier: MIT */
/*
 * features/idle/left.c: before the heap grows, caches that are used no more give their slabs back.
 */
#include <gtest/gtest.h>

#include "all_lists.h"
#include "clock.h"

namespace {

/* As many as lists and barn take, so that no list is shortened. */
enum { SIZE = 1024, OBJECTS = 256 };

class left : public all_lists {
protected:
	static void SetUpTestSuite()
	{
		harness::stay_on_this_cpu();
		all_lists::SetUpTestSuite();
	}
	void SetUp() override
	{
		all_lists::SetUp();
		if (IsSkipped())
			return;
		slab_shrink_all();
		/* What the test before bought again is forgotten. */
		now_ns += 100000000000ull;
		/* A heap of one superblock does not look. */
		while (superblock_nr_used() < 2)
			others.push_back(cache_alloc(other));
		for (void *&object : objects)
			object = cache_alloc(cache);
		harness::Random random(1);
		for (size_t i = OBJECTS; i-- > 1;)
			std::swap(objects[i], objects[random.below(i + 1)]);
	}
	void TearDown() override
	{
		for (void *object : others)
			cache_free(other, object);
		slab_shrink_all();
	}
	void grow()
	{
		size_t used = superblock_nr_used();

		/* What is idle comes first. */
		page_purge_all();
		while (superblock_nr_used() == used)
			others.push_back(cache_alloc(other));
	}

	struct slub_cache *cache = test_cache(SIZE), *other = test_cache(512);
	void *objects[OBJECTS];
	std::vector<void *> others;
};

TEST_F(left, slabs_go_back_before_the_heap_grows)
{
	for (void *object : objects)
		cache_free(cache, object);
	ASSERT_GT(cache_nr_cached(cache), 0u);
	ASSERT_GT(cache->nodes[0]->nr_slabs, 0u) << "lists pin them";
	grow();
	EXPECT_EQ(cache->nodes[0]->nr_slabs, 0u);
	EXPECT_EQ(cache_nr_cached(cache), 0u);
	check_cache(cache, {});
}

TEST_F(left, slabs_go_back_before_the_heap_grows_for_a_large_block)
{
	std::vector<void *> large;
	size_t used;
	bool is_zero;

	for (void *object : objects)
		cache_free(cache, object);
	ASSERT_GT(cache->nodes[0]->nr_slabs, 0u) << "lists pin them";
	page_purge_all();
	used = superblock_nr_used();
	while (superblock_nr_used() == used)
		large.push_back(large_alloc(256 << 10, PAGE_BYTES, &is_zero));
	EXPECT_EQ(cache->nodes[0]->nr_slabs, 0u);
	EXPECT_EQ(cache_nr_cached(cache), 0u);
	for (void *block : large)
		large_free(block);
}

/* More came back than a size may keep, and yet a small part of what is in use. */
TEST_F(left, lists_stay_where_a_small_part_came_back)
{
	if (SLUB_CONFIG_HARDENED)
		GTEST_SKIP() << "what is freed waits";
	std::vector<void *> mine;

	for (int i = 0; i < 8 * OBJECTS; i++)
		mine.push_back(cache_alloc(cache));
	for (void *object : objects)
		cache_free(cache, object);
	size_t cached = cache_nr_cached(cache);
	ASSERT_GT(cached, page_budget() / 16 / SIZE);
	slab_left_look(cache);
	EXPECT_EQ(cache_nr_cached(cache), cached);
	check_cache(cache, mine);
	/* Now a large one: frees look by themselves, and what comes back later is little. */
	for (; mine.size() > OBJECTS; mine.pop_back())
		cache_free(cache, mine.back());
	EXPECT_LT(cache_nr_cached(cache), cached / 4);
	for (void *object : mine)
		cache_free(cache, object);
}

TEST_F(left, lists_stay_where_objects_are_in_use)
{
	std::vector<void *> mine(objects + OBJECTS / 8, objects + OBJECTS);

	for (int i = 0; i < OBJECTS / 8; i++)
		cache_free(cache, objects[i]);
	size_t cached = cache_nr_cached(cache), slabs = cache->nodes[0]->nr_slabs;
	ASSERT_GT(cached, 0u);
	grow();
	EXPECT_EQ(cache_nr_cached(cache), cached);
	EXPECT_EQ(cache->nodes[0]->nr_slabs, slabs);
	check_cache(cache, mine);
	for (void *object : mine)
		cache_free(cache, object);
}

} // namespace
