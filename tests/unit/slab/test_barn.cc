/* SPDX-License-Identifier: MIT */
/* core/slab/barn.c: each CPU takes its own chains first, the newest, and others' oldest. */
#include <gtest/gtest.h>
#include <map>
#include <vector>

#include "check.h"
#include "start.h"

static uint32_t here_instead;

/* The linker sends the library's calls here (--wrap). */
extern "C" uint32_t __real_percpu_here(void);

extern "C" uint32_t __wrap_percpu_here(void)
{
	return here_instead ? here_instead : __real_percpu_here();
}

namespace {

constexpr size_t MiB = 1ul << 20;

class barn : public testing::TestWithParam<uint32_t> {
protected:
	static void SetUpTestSuite()
	{
		harness::stay_on_this_cpu();
		start::once([] { start::slab(256 * MiB, 16 * MiB); });
	}
	void SetUp() override
	{
		cache = test_cache(GetParam());
		slab_shrink_all();
		page_purge(0);
		percpu_area_make(other_cpu());
		own = barn_of(cache, percpu_here());
		other = barn_of(cache, other_cpu());
		ASSERT_NE(own, nullptr);
		ASSERT_NE(other, nullptr);
		ASSERT_NE(own, other);
		cache->barn_credit = 100;
		cache->barn_refused = 0;
	}
	void TearDown() override
	{
		slab_shrink_all();
		check_cache(cache, {});
		EXPECT_EQ(cache->in_barns, 0u);
		EXPECT_EQ(page_kept_bytes, 0);
		EXPECT_EQ(cache->nodes[0]->nr_slabs, 0u);
	}
	static uint32_t other_cpu()
	{
		return percpu_here() + 1;
	}
	/* A chain straight from the slabs. */
	void *chain()
	{
		return node_refill(cache, cache->nodes[0], &nr);
	}
	/* As a thread there would: this one stays where it is. */
	void move_to_other()
	{
		other->chains[other->newest++ % BARN_CHAINS] =
			own->chains[--own->newest % BARN_CHAINS];
	}
	struct slub_cache *cache;
	struct ::barn *own, *other;
	uint32_t nr;
};

TEST_P(barn, empty)
{
	EXPECT_EQ(barn_get(cache, &nr), nullptr);
	EXPECT_EQ(barn_take(cache, percpu_here()), nullptr);
	EXPECT_EQ(barn_take(cache, 8191), nullptr) << "a CPU that there is not";
}

/* Two loads while others put and get may see more than fits, or less than none. */
TEST_P(barn, a_number_that_cannot_be_is_none)
{
	struct ::barn torn = {};

	torn.oldest = 5;
	for (uint32_t newest : { 4u, 5u + BARN_CHAINS + 1 }) {
		torn.newest = newest;
		EXPECT_EQ(barn_nr(&torn), 0u);
	}
	torn.newest = 5 + BARN_CHAINS;
	EXPECT_EQ(barn_nr(&torn), (uint32_t)BARN_CHAINS);
}

TEST_P(barn, own_chains_newest_first_and_whole)
{
	void *one = chain(), *two = chain(), *three = chain();
	size_t objects = 0;

	for (void *c : { one, two, three }) {
		ASSERT_TRUE(barn_put(cache, c, 7));
		objects += 7;
		EXPECT_EQ(cache->in_barns, objects);
		EXPECT_EQ((size_t)page_kept_bytes, objects * cache->size);
	}
	for (void *c : { three, two, one }) {
		nr = 0;
		EXPECT_EQ(barn_get(cache, &nr), c);
		EXPECT_EQ(nr, 7u);
	}
	EXPECT_EQ(barn_get(cache, &nr), nullptr);
	for (void *c : { one, two, three })
		chain_flush(cache, c);
}

TEST_P(barn, oldest_of_another_cpu_only_without_own)
{
	void *first = chain(), *second = chain(), *mine = chain();

	for (void *c : { first, second }) {
		ASSERT_TRUE(barn_put(cache, c, 1));
		move_to_other();
	}
	ASSERT_TRUE(barn_put(cache, mine, 1));
	for (void *c : { mine, first, second })
		EXPECT_EQ(barn_get(cache, &nr), c);
	EXPECT_EQ(barn_get(cache, &nr), nullptr);
	for (void *c : { mine, first, second })
		chain_flush(cache, c);
}

TEST_P(barn, a_cpu_without_one_is_passed_by)
{
	void *far = chain();

	percpu_area_make(other_cpu() + 2);
	struct ::barn *third = barn_of(cache, other_cpu() + 2);
	ASSERT_TRUE(barn_put(cache, far, 1));
	third->chains[third->newest++ % BARN_CHAINS] = own->chains[--own->newest % BARN_CHAINS];
	EXPECT_EQ(barn_get(cache, &nr), far);
	chain_flush(cache, far);
}

/* The next in number first: CPUs that run out at once do not all look into the same barn. */
TEST_P(barn, others_are_asked_in_turn_from_the_next_on)
{
	void *near = chain(), *far = chain();

	percpu_area_make(other_cpu() + 1);
	struct ::barn *third = barn_of(cache, other_cpu() + 1);
	ASSERT_TRUE(barn_put(cache, far, 1));
	third->chains[third->newest++ % BARN_CHAINS] = own->chains[--own->newest % BARN_CHAINS];
	ASSERT_TRUE(barn_put(cache, near, 1));
	move_to_other();
	for (void *c : { near, far })
		EXPECT_EQ(barn_get(cache, &nr), c);
	for (void *c : { near, far })
		chain_flush(cache, c);
}

/* Where no area could be made for a CPU, it has no barn, and looks into each of the others. */
TEST_P(barn, a_cpu_without_an_area_looks_into_all)
{
	void *c = chain();

	ASSERT_TRUE(barn_put(cache, c, 1));
	for (uint32_t i = 0; i < percpu_areas_end(); i++) {
		here_instead = percpu_areas_end() + i;
		EXPECT_FALSE(barn_put(cache, c, 1)) << "nowhere to put it";
		void *got = barn_get(cache, &nr);
		here_instead = 0;
		ASSERT_EQ(got, c) << i;
		ASSERT_TRUE(barn_put(cache, c, 1));
	}
}

TEST_P(barn, holds_so_many_chains)
{
	std::vector<void *> objects, over;
	uint32_t n = 0;

	/* One object each, so that the budget is not what bounds it. */
	for (int i = 0; i < BARN_CHAINS + 2; i++)
		objects.push_back(cache_alloc(cache));
	for (void *object : objects) {
		chain_set_next(cache, object, nullptr);
		if (barn_put(cache, object, 1))
			n++;
		else
			over.push_back(object);
	}
	EXPECT_EQ(n, std::min<size_t>(BARN_CHAINS, page_budget() / cache->size));
	EXPECT_EQ(barn_nr(own), n);
	EXPECT_EQ(over.size(), BARN_CHAINS + 2 - n);
	for (void *object : over)
		chain_flush(cache, object);
}

TEST_P(barn, credit_is_used_up_and_earned)
{
	void *third, *c;

	cache->barn_credit = 2;
	for (int i = 0; i < 2; i++)
		ASSERT_TRUE(barn_put(cache, chain(), 1));
	third = chain();
	EXPECT_FALSE(barn_put(cache, third, 1)) << "who only frees gets no more";
	EXPECT_EQ(cache->barn_refused, 1u);
	c = barn_get(cache, &nr);
	EXPECT_EQ(cache->barn_credit, 4u);
	chain_flush(cache, c);
	c = barn_get(cache, &nr);
	EXPECT_EQ(cache->barn_credit, 8u);
	chain_flush(cache, c);
	EXPECT_EQ(barn_get(cache, &nr), nullptr);
	EXPECT_EQ(cache->barn_credit, 12u) << "the third would have been there";
	EXPECT_EQ(barn_get(cache, &nr), nullptr);
	EXPECT_EQ(cache->barn_credit, 12u) << "and no other";
	chain_flush(cache, third);
}

/* In a barn each of its objects would pin a slab. */
TEST_P(barn, takes_no_scattered_chain)
{
	const size_t nr_slabs = 10;
	std::map<struct page *, std::vector<void *>> slabs;
	std::vector<void *> scattered;

	while (slabs.size() < nr_slabs || slabs.begin()->second.size() < 2) {
		void *object = cache_alloc(cache);

		ASSERT_NE(object, nullptr);
		slabs[slab_of(cache, object)].push_back(object);
	}
	for (auto &slab : slabs) {
		scattered.push_back(slab.second.back());
		slab.second.pop_back();
	}
	for (size_t i = 0; i < nr_slabs; i++)
		chain_set_next(cache, scattered[i], i + 1 < nr_slabs ? scattered[i + 1] : nullptr);
	EXPECT_FALSE(barn_put(cache, scattered[0], nr_slabs));
	EXPECT_EQ(cache->barn_refused, 0u) << "room would change nothing";

	uint32_t more = (uint32_t)cache->nodes[0]->nr_slabs + 1;

	EXPECT_TRUE(barn_put(cache, scattered[0], more)) << "some must share a slab";
	EXPECT_EQ(barn_get(cache, &nr), scattered[0]);

	/* Two neighbours, which the seventh link joins. */
	void *neighbour = slabs.begin()->second.back();
	size_t at = 6;

	slabs.begin()->second.pop_back();
	std::swap(scattered[0], scattered[at]);
	scattered.insert(scattered.begin() + at, neighbour);
	for (size_t i = 0; i < scattered.size(); i++)
		chain_set_next(cache, scattered[i],
			       i + 1 < scattered.size() ? scattered[i + 1] : nullptr);
	EXPECT_TRUE(barn_put(cache, scattered[0], nr_slabs));
	EXPECT_EQ(barn_get(cache, &nr), scattered[0]);
	chain_flush(cache, scattered[0]);
	for (auto &slab : slabs)
		for (void *object : slab.second)
			cache_free(cache, object);
}

/* The numbers of chains grow for ever, and go round. */
TEST_P(barn, numbers_wrap)
{
	own->oldest = own->newest = UINT32_MAX - 1;
	for (int i = 0; i < 4; i++)
		ASSERT_TRUE(barn_put(cache, chain(), 1));
	EXPECT_EQ(own->newest, 2u);
	EXPECT_EQ(barn_nr(own), 4u);
	void *newest = barn_get(cache, &nr), *oldest = barn_take(cache, percpu_here());
	EXPECT_NE(newest, oldest);
	chain_flush(cache, newest);
	chain_flush(cache, oldest);
}

TEST_P(barn, none_beyond_the_budget)
{
	void *c = chain();

	size_t before = page_budget();

	page_kept_bytes = (ptrdiff_t)before;
	EXPECT_FALSE(barn_put(cache, c, 1));
	page_kept_bytes = 0;
	EXPECT_EQ(barn_get(cache, &nr), nullptr);
	EXPECT_EQ(page_budget(), before) << "no page went back";
	EXPECT_TRUE(barn_put(cache, c, 1));
}

/* Without room the sizes that hold chains give one each, in turn. */
TEST_P(barn, others_make_room)
{
	struct slub_cache *first = test_cache(64), *second = test_cache(128);
	void *c = chain();
	uint32_t n;

	for (struct slub_cache *other : { first, second }) {
		other->barn_credit = 100;
		for (int i = 0; i < 3; i++)
			ASSERT_TRUE(barn_put(other, node_refill(other, other->nodes[0], &n), 1));
	}
	/* There is room for all of these but a byte. */
	ptrdiff_t held = page_kept_bytes, others;
	page_kept_bytes = (ptrdiff_t)page_budget() - (ptrdiff_t)cache->size + 1;
	others = page_kept_bytes - held;
	EXPECT_TRUE(barn_put(cache, c, 1));
	EXPECT_EQ(first->in_barns + second->in_barns, 5u) << "one gave a chain, as far as it goes";
	page_kept_bytes -= others;
}

/* A thread of the parent had a lock, or had not counted its chain yet. */
TEST_P(barn, a_child_counts_what_is_there_and_frees_locks)
{
	struct slub_cache *second = test_cache(GetParam() == 64 ? 128 : 64);
	uint32_t n;

	/* A CPU between them has no barn. */
	percpu_area_make(other_cpu() + 2);
	second->barn_credit = 100;
	ASSERT_TRUE(barn_put(second, node_refill(second, second->nodes[0], &n), 2));
	ASSERT_TRUE(barn_put(cache, chain(), 3));
	move_to_other();
	for (uint32_t i = 0; i < 2; i++)
		ASSERT_TRUE(barn_put(cache, chain(), 5 + i));
	cache->in_barns = second->in_barns = 77;
	page_kept_bytes = 77;
	other->lock.word = ~thread_self() & ~LOCK_WAITERS;
	lock_acquire(&own->lock);
	barns_after_fork();
	EXPECT_EQ(other->lock.word, 0u);
	EXPECT_TRUE(lock_is_mine(&own->lock)) << "of the code that a handler interrupted";
	lock_release(&own->lock);
	EXPECT_EQ(cache->in_barns, 14u);
	EXPECT_EQ(second->in_barns, 2u);
	EXPECT_EQ(page_kept_bytes, (ptrdiff_t)(14 * cache->size + 2 * second->size));
}

INSTANTIATE_TEST_SUITE_P(size, barn, testing::Values(16, 256, 4096, 10240),
			 testing::PrintToStringParamName());

} /* namespace */
