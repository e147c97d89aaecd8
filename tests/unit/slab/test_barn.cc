/* SPDX-License-Identifier: MIT */
/* slab/barn.c: chains on credit, last in first out. */
#include <algorithm>
#include <gtest/gtest.h>

#include "check.h"
#include "start.h"

namespace {

class barn : public testing::TestWithParam<uint32_t> {
protected:
	static void SetUpTestSuite()
	{
		start::once([] { start::slab(256ul << 20, 16ul << 20); });
	}
	void SetUp() override
	{
		cache = test_cache(GetParam());
		node = cache->nodes[0];
		slab_shrink_all();
		node->barn.credit = 6;
		/*
		 * So that a full barn of the smallest is in one superblock: before the heap takes
		 * another it empties caches that nobody allocates from, as it is here.
		 */
		cache->carve_batch = std::min(cache->carve_batch, 512u);
	}
	void TearDown() override
	{
		while (void *chain = barn_take(node))
			chain_flush(cache, chain);
		slab_shrink_all();
		check_cache(cache, {});
		EXPECT_EQ(node->nr_slabs, 0u);
	}
	/* A chain straight from the slabs. */
	void *chain()
	{
		uint32_t nr;

		return node_refill(cache, node, &nr);
	}
	struct slub_cache *cache;
	struct cache_node *node;
};

TEST_P(barn, empty)
{
	EXPECT_EQ(barn_get(node, cache), nullptr);
	EXPECT_EQ(node->barn.credit, 6u) << "nothing was fetched";
	EXPECT_EQ(barn_take(node), nullptr);
}

TEST_P(barn, opened_for_a_number_of_objects)
{
	uint32_t length = list_given(cache->capacity), most = node->barn.nr_max;

	ASSERT_GE(most, 9u);
	node->barn.credit = 0;
	cache_barns_open(cache, 7 * length + 1);
	EXPECT_EQ(node->barn.credit, 8u) << "the last one need not be full";
	cache_barns_open(cache, length);
	EXPECT_EQ(node->barn.credit, 8u) << "never lowered";
	cache_barns_open(cache, most * length + 1);
	EXPECT_EQ(node->barn.credit, most) << "what there is room for";
}

TEST_P(barn, last_in_first_out_and_whole)
{
	void *one = chain(), *two = chain(), *three = chain();
	void *after_one = *link_of(cache, one);

	EXPECT_TRUE(barn_put(node, cache, one));
	EXPECT_TRUE(barn_put(node, cache, two));
	EXPECT_TRUE(barn_put(node, cache, three));
	EXPECT_EQ(node->barn.nr, 3u);
	check_cache(cache, {});
	EXPECT_EQ(barn_get(node, cache), three);
	EXPECT_EQ(barn_get(node, cache), two);
	EXPECT_EQ(barn_get(node, cache), one);
	EXPECT_EQ(*link_of(cache, one), after_one) << "the chain itself is as it was";
	EXPECT_EQ(barn_get(node, cache), nullptr);
	EXPECT_EQ(node->barn.nr, 0u);
	for (void *c : { one, two, three })
		chain_flush(cache, c);
}

TEST_P(barn, credit_is_used_up_and_earned)
{
	node->barn.credit = 2;
	EXPECT_TRUE(barn_put(node, cache, chain()));
	EXPECT_TRUE(barn_put(node, cache, chain()));
	EXPECT_EQ(node->barn.credit, 0u);
	void *third = chain();
	EXPECT_FALSE(barn_put(node, cache, third)) << "who only frees gets no more";
	check_cache(cache, [&] {
		std::vector<void *> mine;

		for (void *o = third; o; o = *link_of(cache, o))
			mine.push_back(o);
		return mine;
	}());
	void *got = barn_get(node, cache);
	ASSERT_NE(got, nullptr);
	EXPECT_EQ(node->barn.credit, std::min(4u, node->barn.nr_max));
	EXPECT_TRUE(barn_put(node, cache, third));
	chain_flush(cache, got);
}

TEST_P(barn, holds_no_more_than_its_bound)
{
	uint32_t nr = 0;
	void *c;

	for (; nr <= node->barn.nr_max; nr++) {
		node->barn.credit = 100;
		c = chain();
		if (!barn_put(node, cache, c))
			break;
	}
	EXPECT_LE(nr, node->barn.nr_max);
	EXPECT_EQ(node->barn.nr, nr);
	chain_flush(cache, c);
	check_cache(cache, {});
	/* No credit beyond what it can hold. */
	void *got = barn_get(node, cache);
	EXPECT_LE(node->barn.credit, node->barn.nr_max);
	chain_flush(cache, got);
}

TEST_P(barn, all_barns_share_a_bound_in_bytes)
{
	size_t bytes = (size_t)cache->capacity_now * cache->size;
	size_t most = std::max<size_t>(page_idle_limit(), 16ul << 20) / bytes + 1, nr = 0;

	most = std::min<size_t>(most, barn_nr_room());
	void *c = nullptr;

	node->barn.nr_max = barn_nr_room();
	for (; nr <= most; nr++) {
		node->barn.credit = 100;
		c = chain();
		if (!c || !barn_put(node, cache, c))
			break;
	}
	EXPECT_LE(nr, most);
	if (c)
		chain_flush(cache, c);
	/* Taking them out makes room again. */
	TearDown();
	node->barn.credit = 1;
	c = chain();
	EXPECT_TRUE(barn_put(node, cache, c));
}

TEST_P(barn, take_empties_it)
{
	std::vector<void *> in = { chain(), chain(), chain() };
	std::vector<void *> out;

	for (void *c : in)
		ASSERT_TRUE(barn_put(node, cache, c));
	while (void *c = barn_take(node))
		out.push_back(c);
	EXPECT_EQ(out, std::vector<void *>(in.rbegin(), in.rend()));
	EXPECT_EQ(node->barn.nr, 0u);
	EXPECT_EQ(barn_get(node, cache), nullptr);
	for (void *c : in)
		chain_flush(cache, c);
}

TEST_P(barn, lists_grow_by_no_more_than_it_holds)
{
	int32_t before = cache->capacity_now;
	const int32_t length = 4;
	/* Chains that fill what the lists of all CPUs get longer by. */
	uint32_t enough = (length * percpu_areas_end() + list_given(length) - 1) /
			  list_given(length);
	std::vector<void *> out;
	uint32_t nr;

	cache->capacity_now = length;
	node->barn.credit = node->barn.nr_max = enough + 2;
	for (uint32_t i = 0; i < enough; i++)
		ASSERT_TRUE(barn_put(node, cache, chain()));
	out.push_back(chain_fetch(cache, node, &nr));
	ASSERT_EQ(node->barn.nr, enough - 1);
	EXPECT_EQ(cache->capacity_now, length) << "a chain too few";
	for (int i = 0; i < 2; i++)
		ASSERT_TRUE(barn_put(node, cache, chain()));
	out.push_back(chain_fetch(cache, node, &nr));
	ASSERT_EQ(node->barn.nr, enough);
	EXPECT_EQ(cache->capacity_now, 2 * length);
	cache->capacity_now = cache->capacity;
	out.push_back(chain_fetch(cache, node, &nr));
	EXPECT_EQ(cache->capacity_now, cache->capacity) << "no more than there may be";
	for (void *c : out)
		chain_flush(cache, c);
	cache->capacity_now = before;
	node->barn.nr_max = barn_nr_max(cache);
}

TEST_P(barn, lists_grow_where_main_and_spare_change_places)
{
	int32_t before = cache->capacity_now;
	void *objects[12];

	cache->capacity_now = 8;
	for (int round = 0; round < 200; round++) {
		for (void *&object : objects)
			ASSERT_NE(object = cache_alloc(cache), nullptr);
		for (void *object : objects)
			cache_free(cache, object);
	}
	EXPECT_EQ(cache->capacity_now, 16) << "and then all of them fit into one";
	cache->capacity_now = 48;
	for (int i = 0; i < 100; i++)
		capacity_grow_swapped(cache);
	EXPECT_EQ(cache->capacity_now, std::min(64, cache->capacity_most))
		<< "no more than there may be";
	cache->capacity_now = 8;
	capacity_swaps_end(cache);
	for (int i = 0; i < 100; i++) {
		capacity_grow_swapped(cache);
		if (i % 4 == 3)
			capacity_swaps_end(cache);
	}
	EXPECT_EQ(cache->capacity_now, 8) << "never so many in a row";
	cache->capacity_now = before;
}

INSTANTIATE_TEST_SUITE_P(size, barn, testing::Values(16, 256, 4096, 10240),
			 testing::PrintToStringParamName());

} /* namespace */
