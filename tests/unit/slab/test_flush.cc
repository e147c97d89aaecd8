/* SPDX-License-Identifier: MIT */
/* core/slab/free.c: a chain goes back to its slabs, however its objects are mixed. */
#include <algorithm>
#include <gtest/gtest.h>
#include <map>

#include "check.h"
#include "start.h"

static unsigned nr_exchanges;

/* The linker sends the library's calls here (--wrap). */
extern "C" void __real_slab_free_objects(struct slub_cache *cache, struct page *slab, void *head,
					 void *tail, uint32_t nr);

extern "C" void __wrap_slab_free_objects(struct slub_cache *cache, struct page *slab, void *head,
					 void *tail, uint32_t nr)
{
	nr_exchanges++;
	__real_slab_free_objects(cache, slab, head, tail, nr);
}

namespace {

class flush : public testing::TestWithParam<uint32_t> {
protected:
	static void SetUpTestSuite()
	{
		start::once([] { start::slab(512ul << 20, 16ul << 20); });
	}
	void SetUp() override
	{
		cache = test_cache(GetParam());
		slab_shrink_all();
		ASSERT_EQ(cache->nodes[0]->nr_slabs, 0u);
		/* More slabs than flush keeps groups for. */
		while (mine.size() < 40 * cache->objects) {
			uint32_t nr;
			void *chain = node_refill(cache, cache->nodes[0], &nr);

			ASSERT_NE(chain, nullptr);
			for (; chain; chain = link_next(cache, chain))
				mine.push_back(chain);
		}
	}
	void TearDown() override
	{
		flush_numbers(0, mine.size());
		check_cache(cache, {});
		slab_shrink_all();
		EXPECT_EQ(cache->nodes[0]->nr_slabs, 0u);
	}
	/* Gives the objects from number @first back as one chain. */
	void flush_numbers(size_t first, size_t nr)
	{
		void *chain = nullptr;

		for (size_t i = first; i < first + nr; i++) {
			chain_set_next(cache, mine[i], chain);
			chain = mine[i];
		}
		EXPECT_EQ(chain_flush(cache, chain), nr);
		mine.erase(mine.begin() + (ptrdiff_t)first, mine.begin() + (ptrdiff_t)(first + nr));
	}
	void shuffle()
	{
		harness::Random random(GetParam());

		for (size_t i = mine.size(); i-- > 1;)
			std::swap(mine[i], mine[random.below(i + 1)]);
	}
	struct slub_cache *cache;
	std::vector<void *> mine;
};

TEST_P(flush, no_chain)
{
	EXPECT_EQ(chain_flush(cache, nullptr), 0u);
	check_cache(cache, mine);
}

TEST_P(flush, one_object)
{
	flush_numbers(mine.size() / 2, 1);
	check_cache(cache, mine);
}

TEST_P(flush, objects_in_order)
{
	flush_numbers(cache->objects / 2, 3 * cache->objects);
	check_cache(cache, mine);
}

/* Slabs 16 apart share a group: each object closes the other's. */
TEST_P(flush, slabs_that_share_a_group)
{
	std::sort(mine.begin(), mine.end());
	std::vector<void *> mixed;
	size_t far = 16 * (size_t)cache->objects;

	for (size_t i = 0; i < cache->objects; i++) {
		mixed.push_back(mine[i]);
		mixed.push_back(mine[far + i]);
		mixed.push_back(mine[2 * far + i]);
	}
	for (size_t first : { 2 * far, far, (size_t)0 }) {
		auto from = mine.begin() + (ptrdiff_t)first;

		mine.erase(from, from + cache->objects);
	}
	mine.insert(mine.begin(), mixed.begin(), mixed.end());
	flush_numbers(0, mixed.size());
	check_cache(cache, mine);
}

/* Sixteen slabs in a row take turns: each is given all of its objects at once. */
TEST_P(flush, slabs_that_follow_each_other_have_groups_of_their_own)
{
	const size_t NR = 16, SLAB_BYTES = PAGE_BYTES << cache->order;
	std::map<uintptr_t, std::vector<void *>> slabs;
	std::vector<void *> mixed, others;
	uintptr_t first = 0;

	for (void *object : mine)
		slabs[(uintptr_t)object / SLAB_BYTES].push_back(object);
	for (auto &[number, objects] : slabs) {
		size_t n = 0;

		while (slabs.count(number + n) && slabs[number + n].size() >= 2 && n < NR)
			n++;
		if (n == NR)
			first = number;
	}
	/* One slab in eight has a guard page behind it there. */
	if (SLUB_CONFIG_HARDENED && !first)
		GTEST_SKIP() << "closed pages lie between slabs";
	ASSERT_NE(first, 0u) << "no such slabs";
	for (size_t i = 0; i < 2 * NR; i++) {
		mixed.push_back(slabs[first + i % NR].back());
		slabs[first + i % NR].pop_back();
	}
	for (auto &[number, objects] : slabs)
		others.insert(others.end(), objects.begin(), objects.end());
	mine = mixed;
	mine.insert(mine.end(), others.begin(), others.end());
	nr_exchanges = 0;
	flush_numbers(0, mixed.size());
	EXPECT_EQ(nr_exchanges, NR);
	check_cache(cache, mine);
}

TEST_P(flush, objects_of_many_slabs_in_no_order)
{
	shuffle();
	while (mine.size() > 50) {
		flush_numbers(0, mine.size() / 3);
		check_cache(cache, mine);
		ASSERT_FALSE(HasFailure());
	}
}

INSTANTIATE_TEST_SUITE_P(size, flush, testing::Values(16, 192, 2048, 4096, 12288),
			 testing::PrintToStringParamName());

} /* namespace */
