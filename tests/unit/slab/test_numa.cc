/* SPDX-License-Identifier: MIT */
/* Caches on several NUMA nodes, which this test has whatever the machine is. */
#include <climits>
#include <set>

#include "typed.h"

#include <slub/debug.h>
#include <slub/reserve.h>

namespace {

const uint32_t nr_nodes = 3;

class numa : public testing::TestWithParam<size_t> {
protected:
	static void SetUpTestSuite()
	{
		static bool started;

		if (!started) {
			start::slab(128ul << 20, 16ul << 20, nr_nodes);
			ASSERT_EQ(deferred_init(), 0);
		}
		started = true;
	}
	void SetUp() override
	{
		if (!start::can_empty_lists())
			GTEST_SKIP() << "without membarrier(2) no CPU can be stopped";
		cache = slub_cache_create("numa", GetParam(), 0, 0, nullptr);
		ASSERT_NE(cache, nullptr);
	}
	void TearDown() override
	{
		if (IsSkipped())
			return;
		EXPECT_EQ(slub_cache_destroy(cache), 0);
	}

	uint32_t node_of(void *object) { return page_node(slab_of(cache, object)); }
	size_t slabs_on(uint32_t node) { return cache->nodes[node]->nr_slabs; }

	struct slub_cache *cache;
};

TEST_P(numa, objects_come_from_the_node_that_is_asked_for)
{
	std::vector<void *> objects;

	for (int i = 0; i < 300; i++) {
		for (uint32_t node = 0; node < nr_nodes; node++) {
			objects.push_back(slub_cache_alloc_node(cache, SLUB_ALLOC_ZERO, (int)node));
			ASSERT_NE(objects.back(), nullptr);
			EXPECT_EQ(node_of(objects.back()), node);
		}
	}
	EXPECT_EQ(std::set<void *>(objects.begin(), objects.end()).size(), objects.size());
	struct slub_cache_stats stats;
	EXPECT_EQ(slub_cache_stats(cache, &stats), 0);
	EXPECT_EQ(stats.slabs, slabs_on(0) + slabs_on(1) + slabs_on(2)) << "of all nodes";
	EXPECT_EQ(stats.objects, stats.slabs * cache->objects);
	EXPECT_EQ(stats.alloc_node_mismatch, 0u);
	std::set<void *> seen;
	EXPECT_EQ(slub_cache_for_each_object(cache, [](void *object, void *arg) {
		((std::set<void *> *)arg)->insert(object);
		return 0;
	}, &seen), 0);
	EXPECT_EQ(seen, std::set<void *>(objects.begin(), objects.end()));
	for (void *object : objects)
		slub_cache_free(cache, object);
	EXPECT_EQ(slub_cache_shrink(cache), 0);
	for (uint32_t node = 0; node < nr_nodes; node++)
		EXPECT_EQ(slabs_on(node), 0u) << "on node " << node;
}

TEST_P(numa, without_a_wish_they_come_from_the_thread_s_own)
{
	void *object = slub_cache_alloc_node(cache, 0, SLUB_NODE_ANY);

	ASSERT_NE(object, nullptr);
	EXPECT_EQ(node_of(object), os_node_current());
	slub_cache_free(cache, object);
}

/* Whoever frees: the slab says where its object belongs. */
TEST_P(numa, freed_objects_go_home)
{
	const size_t nr = 4000;
	std::vector<void *> objects;

	for (size_t i = 0; i < nr; i++)
		objects.push_back(slub_cache_alloc_node(cache, 0, 2));
	EXPECT_GT(slabs_on(2), 0u);
	slub_cache_free_bulk(cache, nr, objects.data());
	EXPECT_EQ(slub_cache_shrink(cache), 0);
	EXPECT_EQ(slabs_on(2), 0u);
}

/* A chain in a barn may be of any node: who asks for one is served by its slabs. */
TEST_P(numa, a_node_that_is_asked_for_is_not_served_by_barns)
{
	void *object = slub_cache_alloc_node(cache, 0, 0), *other;
	struct slub_cache_stats stats;
	uint32_t nr;

	ASSERT_NE(object, nullptr);
	chain_set_next(cache, object, nullptr);
	cache->barn_credit = 1;
	page_purge(0);
	ASSERT_TRUE(barn_put(cache, object, 1));
	other = slub_cache_alloc_node(cache, 0, 2);
	ASSERT_NE(other, nullptr);
	EXPECT_EQ(page_node(slab_of(cache, other)), 2u);
	EXPECT_EQ(slub_cache_stats(cache, &stats), 0);
	EXPECT_EQ(stats.alloc_node_mismatch, 0u);
	while (void *chain = barn_get(cache, &nr))
		chain_flush(cache, chain);
	slub_cache_free(cache, other);
}

TEST_P(numa, nodes_that_there_are_not)
{
	for (int node : { (int)nr_nodes, -2, INT_MAX, INT_MIN }) {
		errno = 0;
		EXPECT_EQ(slub_cache_alloc_node(cache, 0, node), nullptr) << node;
		EXPECT_EQ(errno, EINVAL) << node;
	}
}

/* What lies in another node's reserve is had too, and goes back to where it came from. */
TEST_P(numa, the_reserve_of_all_nodes)
{
	std::vector<void *> objects;

	ASSERT_EQ(slub_reserve_set(nr_nodes * RESERVE_BYTES), 0);
	while (void *object = cache_alloc_from_reserve(cache, SLUB_ALLOC_RESERVE)) {
		objects.push_back(object);
		ASSERT_LT(objects.size(), nr_nodes * RESERVE_BYTES / 8);
	}
	EXPECT_EQ(page_reserve_bytes(), 0u);
	std::set<uint32_t> nodes;
	for (void *object : objects)
		nodes.insert(node_of(object));
	EXPECT_EQ(nodes.size(), nr_nodes);
	for (void *object : objects)
		slub_cache_free(cache, object);
	EXPECT_EQ(slub_cache_shrink(cache), 0);
	EXPECT_EQ(page_reserve_bytes(), nr_nodes * RESERVE_BYTES);
	EXPECT_EQ(slub_reserve_set(0), 0);
	/* No zone has an empty list for one with blocks. */
	for (uint32_t node = 0; node < nr_nodes; node++)
		for (uint32_t order = 0; order <= BLOCK_ORDER_MAX; order++) {
			bool is_zero;
			void *block = zone_alloc(order, node, &is_zero);

			ASSERT_TRUE(pagemap_covers(block)) << node << ", " << order;
			memset(block, 1, PAGE_BYTES << order);
			zone_free(block, order, node, true);
		}
}

/* All memory is @owner's, and all but one block of it in use. */
class one_block_left {
public:
	explicit one_block_left(uint32_t owner) : owner(owner)
	{
		for (uint32_t order = BLOCK_ORDER_MAX + 1; order-- > 0;) {
			bool is_zero;

			while (void *block = zone_alloc(order, owner, &is_zero))
				taken.push_back({ block, order });
		}
		zone_free(taken.front().first, BLOCK_ORDER_MAX, owner, true);
	}
	~one_block_left()
	{
		for (size_t i = 1; i < taken.size(); i++)
			zone_free(taken[i].first, taken[i].second, owner, true);
	}

private:
	uint32_t owner;
	std::vector<std::pair<void *, uint32_t>> taken;
};

/* A node is preferred, not insisted on. */
TEST_P(numa, another_node_s_memory_is_better_than_none)
{
	for (uint32_t owner = 0; owner < nr_nodes; owner++) {
		one_block_left left(owner);

		for (int node : { 0, 1, 2, SLUB_NODE_ANY }) {
			void *object = slub_cache_alloc_node(cache, 0, node);

			ASSERT_NE(object, nullptr) << node << " of " << owner;
			EXPECT_EQ(node_of(object), owner);
			slub_cache_free(cache, object);
			EXPECT_EQ(slub_cache_shrink(cache), 0);
			EXPECT_EQ(slabs_on(owner), 0u);
		}
	}
}

TEST_P(numa, so_it_is_to_a_watched_cache)
{
	ASSERT_EQ(slub_cache_debug(cache, SLUB_CACHE_POISON | SLUB_CACHE_STORE_USER), 0);
	for (uint32_t owner = 0; owner < nr_nodes; owner++) {
		one_block_left left(owner);
		void *object = slub_cache_alloc_flags(cache, 0);

		ASSERT_NE(object, nullptr) << owner;
		EXPECT_EQ(node_of(object), owner);
		slub_cache_free(cache, object);
		EXPECT_EQ(slub_cache_shrink(cache), 0);
	}
}

INSTANTIATE_TEST_SUITE_P(sizes, numa, testing::Values<size_t>(16, 200, 5000));

} /* namespace */
