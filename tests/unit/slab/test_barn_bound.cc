/* SPDX-License-Identifier: MIT */
/* slab/barn_bound.c: what all barns hold, with a clock that stands still unless it is moved on. */
#include <gtest/gtest.h>

#include "check.h"
#include "start.h"

static uint64_t clock_ns = 1000000000000;

extern "C" uint64_t os_clock_ns(void)
{
	return clock_ns;
}

namespace {

constexpr size_t RETAIN = 16ul << 20;
constexpr uint64_t SECOND = 1000000000;

struct side {
	struct slub_cache *cache;
	struct cache_node *node;

	explicit side(uint32_t size) : cache(test_cache(size)), node(cache->nodes[0]) { }
	size_t bytes() const { return (size_t)cache->capacity_now * cache->size; }
	/* A chain straight from the slabs. */
	void *chain() const
	{
		uint32_t nr;

		return node_refill(cache, node, &nr);
	}
	/* False: the slabs have it. */
	bool put() const
	{
		void *c = chain();

		node->barn.credit = 100;
		if (barn_put(node, cache, c))
			return true;
		chain_flush(cache, c);
		return false;
	}
	/* To the bound; how many chains are there then. */
	uint32_t fill() const
	{
		while (node->barn.nr < node->barn.nr_max && put())
			;
		return node->barn.nr;
	}
	void empty() const
	{
		while (void *c = barn_take(node))
			chain_flush(cache, c);
	}
	/* @n chains are refused, and as many are wanted when the barn is empty. */
	void want_again(uint32_t n) const
	{
		fill();
		node->barn.refused = 0;
		for (uint32_t i = 0; i < n; i++)
			ASSERT_FALSE(put());
		empty();
		for (uint32_t i = 0; i < n; i++)
			ASSERT_EQ(barn_get(node, cache), nullptr);
	}
};

class barn_bound : public testing::Test {
protected:
	barn_bound() : large(4096), small(64) { }
	static void SetUpTestSuite()
	{
		start::once([] { start::slab(512ul << 20, RETAIN); });
	}
	/* The heap is large, so that it is not what bounds them. */
	void SetUp() override
	{
		clock_ns += 100 * SECOND;
		for (const side &s : { large, small }) {
			s.cache->capacity_now = s.cache->capacity;
			s.node->barn.refused = 0;
		}
		while (superblock_nr_used() < 96)
			ballast.push_back(large.chain());
		barns_have_sent();
	}
	void TearDown() override
	{
		for (const side &s : { large, small })
			s.empty();
		for (void *c : ballast)
			chain_flush(large.cache, c);
		slab_shrink_all();
		for (const side &s : { large, small })
			check_cache(s.cache, {});
	}
	/* Chains of @s until more than @bound is there. */
	static uint32_t chains(const side &s, size_t bound)
	{
		return (uint32_t)(bound / s.bytes()) + 1;
	}
	/* As far as may be. */
	void raise() const
	{
		for (int i = 0; i < 20; i++)
			large.want_again((uint32_t)((12ul << 20) / large.bytes()));
	}
	side large, small;
	std::vector<void *> ballast;
};

TEST_F(barn_bound, is_what_may_lie_idle)
{
	EXPECT_EQ(large.fill(), chains(large, RETAIN));
	large.empty();
	EXPECT_EQ(large.fill(), chains(large, RETAIN));
}

TEST_F(barn_bound, chains_count_for_what_a_list_held_then)
{
	const ptrdiff_t before = page_kept_bytes;

	large.cache->capacity_now = 4;
	const size_t four = large.bytes();
	for (int i = 0; i < 3; i++)
		ASSERT_TRUE(large.put());
	EXPECT_EQ(page_kept_bytes, before + (ptrdiff_t)(3 * four));
	large.cache->capacity_now = large.cache->capacity;
	EXPECT_EQ(large.fill(), 3 + chains(large, RETAIN - 3 * four));
	large.cache->capacity_now = 4;
	EXPECT_FALSE(large.put()) << "there is no room for a short one either";
	large.empty();
	EXPECT_EQ(page_kept_bytes, before) << "nothing is lost or left";
	EXPECT_EQ(large.node->barn.bytes, 0u);
}

/* Objects of a chain in @s's barn. */
static size_t chain_objects(const side &s, uint32_t n)
{
	size_t nr = 0;

	for (void *o = s.node->barn.chains[n]; o; o = *link_of(s.cache, o))
		nr++;
	return nr;
}

TEST_F(barn_bound, chains_freed_in_bulk_are_no_longer_than_they_count)
{
	std::vector<void *> objects(4096);

	for (void *&o : objects)
		ASSERT_NE(o = cache_alloc(small.cache), nullptr);
	small.cache->capacity_now = 32;
	small.node->barn.credit = 200;
	cache_empty_lists(small.cache);
	cache_free_run(small.cache, objects.size(), objects.data());
	ASSERT_GT(small.node->barn.nr, 10u);
	for (uint32_t n = 0; n < small.node->barn.nr; n++)
		EXPECT_LE(chain_objects(small, n), 32u);
	EXPECT_EQ(small.node->barn.bytes, small.node->barn.nr * 32 * 64);
}

TEST_F(barn_bound, rises_while_what_it_refused_is_wanted_again)
{
	const auto wanted = (uint32_t)((12ul << 20) / large.bytes());

	large.want_again(wanted);
	EXPECT_EQ(large.fill(), chains(large, RETAIN)) << "that may happen once";
	large.empty();
	large.want_again(wanted);
	const uint32_t risen = large.fill();
	EXPECT_GT(risen, chains(large, RETAIN + (7ul << 20)));
	EXPECT_LE(risen, chains(large, RETAIN + (24ul << 20))) << "by no more than was wanted";
	large.empty();
	raise();
	const size_t heap = superblock_nr_used() * SUPERBLOCK_BYTES;
	EXPECT_GT(large.fill(), chains(large, 2 * RETAIN)) << "and again";
	EXPECT_LE(large.fill(), chains(large, heap / 2)) << "up to half of the heap";
	large.empty();
	clock_ns += 10 * SECOND;
	EXPECT_EQ(large.fill(), chains(large, RETAIN)) << "it halves with each second";
}

TEST_F(barn_bound, rises_beyond_half_of_the_heap_when_that_was_paid_for)
{
	const size_t heap = superblock_nr_used() * SUPERBLOCK_BYTES;
	const auto wanted = (uint32_t)((16ul << 20) / large.bytes());

	for (size_t paid = 0; paid < 14 * heap; paid += wanted * large.bytes())
		large.want_again(wanted);
	EXPECT_GT(large.fill(), chains(large, heap / 2));
	EXPECT_LE(large.node->barn.nr * large.bytes(), heap);
	large.empty();
	clock_ns += 10 * SECOND;
	EXPECT_EQ(large.fill(), chains(large, RETAIN));
}

TEST_F(barn_bound, stays_raised_while_it_is_used)
{
	raise();
	const uint32_t risen = large.fill();

	ASSERT_GT(risen, chains(large, 2 * RETAIN));
	for (int i = 0; i < 20; i++) {
		large.empty();
		clock_ns += SECOND;
		EXPECT_EQ(large.fill(), risen) << "second " << i;
	}
	large.empty();
	clock_ns -= SECOND / 100;
	EXPECT_EQ(large.fill(), risen) << "another thread's clock";
	clock_ns += SECOND / 100;
	/* What is full and stays so is not in use. */
	clock_ns += SECOND;
	EXPECT_FALSE(large.put()) << "and the second after the last use halves it";
	clock_ns += SECOND;
	EXPECT_FALSE(large.put());
	large.empty();
	EXPECT_LT(large.fill(), risen);
	large.empty();
	clock_ns += 2 * SECOND;
	EXPECT_LT(large.fill(), risen / 2) << "nor what was silent for two seconds";
}

TEST_F(barn_bound, a_limit_that_comes_near_counts)
{
	raise();
	ASSERT_GT(large.fill(), chains(large, 2 * RETAIN));
	void *c = barn_take(large.node);
	page_limit_set(1);
	EXPECT_FALSE(barn_put(large.node, large.cache, c));
	page_limit_set(0);
	EXPECT_TRUE(barn_put(large.node, large.cache, c));
}

TEST_F(barn_bound, stays_where_little_is_wanted_again)
{
	const auto wanted = (uint32_t)((6ul << 20) / large.bytes());

	for (int i = 0; i < 10; i++) {
		large.want_again(wanted);
		clock_ns += SECOND;
	}
	EXPECT_EQ(large.fill(), chains(large, RETAIN));
}

TEST_F(barn_bound, idle_barns_make_room)
{
	const uint32_t before = large.fill();
	int tries = 0;

	while (tries < 100 && !small.put())
		tries++;
	EXPECT_GT(tries, 0) << "it was in use a moment ago";
	EXPECT_LT(tries, 100);
	EXPECT_EQ(small.node->barn.nr, 1u);
	EXPECT_LT(large.node->barn.nr, before);
	EXPECT_GE(large.node->barn.nr + 4, before) << "no more than it takes";
	EXPECT_TRUE(barns_have_sent());
	EXPECT_FALSE(barns_have_sent());
}

TEST_F(barn_bound, busy_barns_keep_theirs)
{
	const uint32_t before = large.fill();

	for (int i = 0; i < 200; i++) {
		void *c = barn_get(large.node, large.cache);

		ASSERT_NE(c, nullptr);
		ASSERT_TRUE(barn_put(large.node, large.cache, c));
		ASSERT_FALSE(small.put()) << i;
	}
	EXPECT_EQ(large.node->barn.nr, before);
	EXPECT_FALSE(barns_have_sent());
}

} /* namespace */
