/* SPDX-License-Identifier: MIT */
/* core/slab/node.c: refilling from slabs, giving back to them, and when a slab goes. */
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "check.h"
#include "lists.h"
#include "start.h"
#if defined(__x86_64__)
#include "steps.h"
#endif

static size_t nr_touched;

/* The linker sends the library's calls here (--wrap). */
extern "C" void *__real_block_alloc_touched(uint32_t order, uint32_t node);
extern "C" void *__wrap_block_alloc_touched(uint32_t order, uint32_t node)
{
	nr_touched++;
	return __real_block_alloc_touched(order, node);
}

static std::vector<std::pair<void *, uint32_t>> owned;

/* In place of the library's, which would write owners behind the objects. */
extern "C" void __wrap_account_carved(const struct slub_cache *, void *first, uint32_t nr)
{
	owned.emplace_back(first, nr);
}

namespace {

class node : public testing::TestWithParam<uint32_t> {
protected:
	static void SetUpTestSuite()
	{
		start::once([] {
			start::option("ON_ERROR=ignore");
			start::slab(512ul << 20, 16ul << 20);
		});
	}
	void SetUp() override
	{
		if (!start::can_empty_lists())
			GTEST_SKIP() << "without membarrier(2) no CPU can be stopped";
		cache = test_cache(GetParam());
		where = cache->nodes[0];
		slab_shrink_all();
		ASSERT_EQ(where->nr_slabs, 0u);
	}
	void TearDown() override
	{
		if (IsSkipped())
			return;
		give_all();
		node_shrink(cache, where);
		EXPECT_EQ(where->nr_slabs, 0u) << "a slab stayed although nothing is in use";
		EXPECT_EQ(where->nr_carved, 0u);
		check_cache(cache, {});
		shrink_fully();
		EXPECT_EQ(superblock_nr_used(), 0u);
	}
	/* Objects of one refill, now the test's. */
	size_t refill()
	{
		uint32_t nr = 0;
		void *chain = node_refill(cache, where, &nr);
		size_t n = 0;

		for (; chain && n <= nr; n++) {
			mine.push_back(chain);
			chain = link_next(cache, chain);
		}
		EXPECT_EQ(n, nr) << "the chain is not as long as said";
		return n;
	}
	void refill_until(size_t nr)
	{
		while (mine.size() < nr && refill())
			;
		ASSERT_GE(mine.size(), nr);
	}
	void give(void *object)
	{
		slab_free_objects(cache, slab_of(cache, object), object, object, 1);
	}
	void give_all()
	{
		for (void *object : mine)
			give(object);
		mine.clear();
	}
	struct slub_cache *cache;
	struct cache_node *where;
	std::vector<void *> mine;
};

/* In the order of addresses; small ones by turns, so that neighbours share no line. */
TEST_P(node, fresh_objects_are_neighbours_on_lines_of_their_own)
{
	if (SLUB_CONFIG_HARDENED)
		GTEST_SKIP() << "the hardened build shuffles them";
	ASSERT_GT(refill(), 0u);
	EXPECT_LE(mine.size(), (size_t)cache->capacity);
	for (size_t i = 1; i < mine.size(); i++)
		EXPECT_NE((uintptr_t)mine[i] / 64, (uintptr_t)mine[i - 1] / 64);
	if (cache->size < 64)
		std::sort(mine.begin(), mine.end());
	for (size_t i = 1; i < mine.size(); i++)
		EXPECT_EQ((char *)mine[i] - (char *)mine[i - 1], cache->size);
	EXPECT_EQ(where->nr_slabs, 1u);
	EXPECT_EQ(where->nr_carved, mine.size());
	EXPECT_EQ(where->carve != nullptr, mine.size() < cache->objects);
	check_cache(cache, mine);
}

TEST_P(node, carves_a_page_at_first_and_more_as_it_grows)
{
	/* The hardened build draws the first ones from some more. */
	size_t first = refill(), least = SLUB_CONFIG_HARDENED ? HARDENED_SHUFFLED : 1;
	size_t most = std::max<size_t>(PAGE_BYTES, least * cache->size);
	EXPECT_LE(first * cache->size, most);
	EXPECT_GE(first, std::min<size_t>(least, cache->objects));
	while (where->nr_carved * cache->size <= 8 * PAGE_BYTES && mine.size() < 4000) {
		size_t carved = where->nr_carved;
		refill();
		EXPECT_LE((where->nr_carved - carved) * cache->size, most);
	}
	refill_until(std::min<size_t>(40 * (size_t)cache->capacity, (128ul << 20) / cache->size));
	size_t before = mine.size();
	refill();
	EXPECT_GE(mine.size() - before, std::min<size_t>(first, 1));
	EXPECT_LE(mine.size() - before, 2 * (size_t)cache->capacity);
	check_cache(cache, mine);
}

TEST_P(node, no_object_twice_and_none_overlap)
{
	refill_until(5 * cache->objects + 3);
	check_cache(cache, mine);
	std::sort(mine.begin(), mine.end());
	for (size_t i = 1; i < mine.size(); i++)
		ASSERT_GE((char *)mine[i] - (char *)mine[i - 1], (ptrdiff_t)cache->size);
	EXPECT_LE(where->nr_slabs, 7u) << "slabs are filled before there are more";
	harness::Random random(GetParam());
	for (size_t i = mine.size(); i-- > 1;)
		std::swap(mine[i], mine[random.below(i + 1)]);
}

TEST_P(node, what_comes_back_is_given_out_before_more_is_carved)
{
	refill_until(2 * cache->objects);
	size_t carved = where->nr_carved;
	std::vector<void *> back(mine.end() - 10, mine.end());
	mine.resize(mine.size() - 10);
	for (void *object : back)
		give(object);
	check_cache(cache, mine);
	refill_until(mine.size() + 1);
	for (void *object : back)
		EXPECT_NE(std::find(mine.begin(), mine.end(), object), mine.end());
	EXPECT_GE(where->nr_carved, carved);
	check_cache(cache, mine);
}

TEST_P(node, full_slab_is_listed_with_its_first_free_object)
{
	refill_until(3 * cache->objects);
	struct page *slab = slab_of(cache, mine[0]);
	ASSERT_EQ(slab->count, cache->objects);
	ASSERT_EQ(page_state(slab)->second & (STATE_LISTED | STATE_FROZEN), 0u);
	size_t before = where->nr_partial;
	give(mine[0]);
	mine.erase(mine.begin());
	EXPECT_EQ(where->nr_partial, before + 1);
	EXPECT_TRUE(page_state(slab)->second & STATE_LISTED);
	check_cache(cache, mine);
	/* Behind those that are there, which have had longer to get more back. */
	auto other = std::find_if(mine.begin(), mine.end(), [&](void *object) {
		struct page *its = slab_of(cache, object);

		return its != slab && !(page_state(its)->second & (STATE_LISTED | STATE_FROZEN));
	});
	ASSERT_NE(other, mine.end());
	struct page *second = slab_of(cache, *other);
	give(*other);
	mine.erase(other);
	EXPECT_EQ(where->partial.prev, &second->list);
}

/* From the ninth on, where objects have their links in them: it has come to stay. */
TEST_P(node, later_slabs_are_to_be_touched)
{
	size_t seen = 0, slabs = 0;

	nr_touched = 0;
	while (where->nr_slabs < 12) {
		ASSERT_GT(refill(), 0u);
		for (; slabs < where->nr_slabs; slabs++)
			seen += slabs >= 8 && link_is_in_object(cache->link);
		ASSERT_EQ(nr_touched, seen) << slabs;
	}
	ASSERT_EQ(option_change(OPTION_mode, "compact"), 0);
	while (where->nr_slabs < 14)
		ASSERT_GT(refill(), 0u);
	EXPECT_EQ(nr_touched, seen) << "not where memory is dear";
	EXPECT_EQ(option_change(OPTION_mode, "balanced"), 0);
}

/* What one refill takes together, and no more: it holds the lock each time. */
TEST_P(node, a_refill_empties_so_many_slabs)
{
	uint32_t nr;

	if (cache->objects < 2 || capacity_now(cache) < 20)
		GTEST_SKIP() << "lists of such objects are too short";
	refill_until(30 * cache->objects);
	std::sort(mine.begin(), mine.end());
	std::vector<void *> kept;
	std::set<struct page *> gave;
	for (void *object : mine) {
		struct page *slab = slab_of(cache, object);

		if (slab->count == cache->objects && gave.insert(slab).second)
			give(object);
		else
			kept.push_back(object);
	}
	mine = kept;
	ASSERT_GE(where->nr_partial, 20u);
	void *chain = node_refill(cache, where, &nr);
	EXPECT_EQ(nr, 8u);
	for (; chain; chain = link_next(cache, chain))
		mine.push_back(chain);
	EXPECT_EQ(mine.size(), kept.size() + 8);
	check_cache(cache, mine);
}

TEST_P(node, empty_slabs_go_back_but_for_min_partial)
{
	refill_until(12 * cache->objects);
	size_t peak = where->nr_slabs;
	give_all();
	/* The one being carved, and those the partial list keeps. */
	EXPECT_LE(where->nr_slabs, cache->min_partial + 1u);
	EXPECT_GE(where->nr_slabs, 1u);
	EXPECT_GE(where->nr_slabs_peak, peak);
	check_cache(cache, {});
}

TEST_P(node, partial_slabs_stay_with_what_is_in_use)
{
	std::vector<void *> kept;

	refill_until(8 * cache->objects);
	std::sort(mine.begin(), mine.end());
	/* One object of each slab stays in use. */
	for (void *object : mine)
		if (kept.empty() || slab_of(cache, kept.back()) != slab_of(cache, object))
			kept.push_back(object);
		else
			give(object);
	mine = kept;
	EXPECT_GE(where->nr_slabs, kept.size());
	node_shrink(cache, where);
	EXPECT_EQ(where->nr_slabs, kept.size()) << "those without an object are gone";
	check_cache(cache, mine);
	for (void *object : mine)
		EXPECT_EQ(cache_of(object), cache);
}

TEST_P(node, many_objects_of_one_slab_at_once)
{
	refill_until(cache->objects);
	std::vector<void *> some;
	struct page *slab = slab_of(cache, mine[0]);

	for (size_t i = 0; i < mine.size();)
		if (slab_of(cache, mine[i]) == slab && some.size() < cache->objects / 2) {
			some.push_back(mine[i]);
			mine.erase(mine.begin() + (ptrdiff_t)i);
		} else {
			i++;
		}
	for (size_t i = 0; i + 1 < some.size(); i++)
		chain_set_next(cache, some[i], some[i + 1]);
	slab_free_objects(cache, slab, some[0], some.back(), (uint32_t)some.size());
	check_cache(cache, mine);
}

/* From full to empty in one step: it was on no list, and must not get on one. */
TEST_P(node, full_slab_that_comes_back_whole)
{
	std::map<struct page *, std::vector<void *>> slabs;
	std::vector<void *> whole;

	refill_until(12 * cache->objects);
	for (void *object : mine)
		slabs[slab_of(cache, object)].push_back(object);
	mine.clear();
	for (auto &[slab, objects] : slabs) {
		bool is_full = objects.size() == cache->objects;

		/* Others fill the partial list, with all but one of their objects. */
		if (is_full && where->nr_partial < cache->min_partial) {
			give(objects.back());
			objects.pop_back();
		} else if (is_full && whole.empty()) {
			whole.swap(objects);
		}
		mine.insert(mine.end(), objects.begin(), objects.end());
	}
	ASSERT_EQ(whole.size(), cache->objects);
	size_t partial = where->nr_partial, nr_slabs = where->nr_slabs;
	for (size_t i = 0; i + 1 < whole.size(); i++)
		chain_set_next(cache, whole[i], whole[i + 1]);
	slab_free_objects(cache, slab_of(cache, whole[0]), whole[0], whole.back(), cache->objects);
	EXPECT_EQ(where->nr_partial, partial);
	EXPECT_EQ(where->nr_slabs, nr_slabs - 1);
	EXPECT_EQ(cache_of(whole[0]), nullptr);
	check_cache(cache, mine);
}

TEST_P(node, random_operations)
{
	harness::Random random(GetParam());
	size_t most = 6 * cache->objects;

	for (int i = 0; i < 3000; i++) {
		if (random.below(most) > mine.size()) {
			refill();
		} else {
			for (size_t n = random.below(40) + 1; n && !mine.empty(); n--) {
				size_t at = random.below(mine.size());

				give(mine[at]);
				mine[at] = mine.back();
				mine.pop_back();
			}
		}
		if (i % 500 == 499)
			node_shrink(cache, where);
		if (i % 100 == 0)
			check_cache(cache, mine);
		ASSERT_FALSE(HasFailure()) << "operation " << i;
	}
}

TEST_P(node, constructors_are_counted_while_they_run)
{
	static struct slub_cache constructed;
	static uint32_t seen;
	uint32_t nr;

	if (!constructed.size) {
		ASSERT_EQ(cache_create(&constructed, "constructed", 256), 0);
		constructed.ctor = [](void *) { seen = constructed.nodes[0]->nr_constructing; };
	}
	struct cache_node *its = constructed.nodes[0];
	seen = 0;
	void *chain = node_refill(&constructed, its, &nr);
	EXPECT_EQ(seen, 1u);
	EXPECT_EQ(its->nr_constructing, 0u);
	chain_flush(&constructed, chain);
	node_shrink(&constructed, its);
}

/* Only objects with an owner's word behind them; a watched object has it elsewhere. */
TEST_P(node, owners_of_fresh_objects_are_written_where_there_are_some)
{
	auto *none = cache->debug, *some = (const struct debug_layout *)&nr_touched;

	owned.clear();
	for (bool is_accounted : { false, true }) {
		for (bool is_watched : { true, false }) {
			size_t before = mine.size(), carved = where->nr_carved;

			cache->is_accounted = is_accounted;
			cache->debug = is_watched ? some : none;
			while (where->nr_carved == carved)
				refill();
			cache->is_accounted = false;
			cache->debug = none;
			if (!is_accounted || is_watched) {
				EXPECT_EQ(owned.size(), 0u) << is_accounted << is_watched;
				continue;
			}
			ASSERT_EQ(owned.size(), 1u);
			EXPECT_EQ(owned[0].first,
				  *std::min_element(mine.begin() + (ptrdiff_t)before, mine.end()));
			EXPECT_EQ(owned[0].second, where->nr_carved - carved);
		}
	}
}

/* Memory that free objects lay in before: their keys would accuse who frees these. */
TEST_P(node, fresh_objects_have_no_key_of_what_was_there_before)
{
	if (!cache_may_have_keys(cache))
		GTEST_SKIP() << "such objects have no key";
	for (bool has_keys : { false, true }) {
		cache->has_keys = has_keys;
		refill_until(2 * cache->objects);
		for (void *object : mine)
			*key_of(object) = has_keys ? 0 : slub_key;
		give_all();
		node_shrink(cache, where);
		refill_until(2 * cache->objects);
		for (void *object : mine)
			ASSERT_TRUE(has_keys ? key_is_right(object) : !*key_of(object));
		give_all();
		node_shrink(cache, where);
	}
	cache->has_keys = false;
}

#if defined(__x86_64__)
/*
 * While the last objects of a slab are carved another comes back to it: with nothing left to
 * carve it is listed for that one.
 */
class carved : public node {
protected:
	/* Refills until that has happened once; false: slabs are carved in one go. */
	bool meet()
	{
		bool met = false;

		for (int i = 0; i < 200 && !met; i++) {
			struct page *slab = is_listed ? first_partial() : where->carve;
			void *back = slab && slab->count > 2 ? mine_of(slab) : nullptr;

			if (!back) {
				refill();
				list_if_asked();
				continue;
			}
			steps::run([&] { refill(); }, [&] {
				if (slab->count < cache->objects || met)
					return !met;
				give(back);
				met = true;
				return false;
			});
			if (met)
				mine.erase(std::find(mine.begin(), mine.end(), back));
			met_at = slab;
		}
		return met;
	}
	bool is_listed = false;
	struct page *met_at = nullptr;

private:
	struct page *first_partial()
	{
		return list_is_empty(&where->partial) ?
			       nullptr : container_of(where->partial.next, struct page, list);
	}
	void *mine_of(struct page *slab)
	{
		for (void *object : mine)
			if (slab_of(cache, object) == slab)
				return object;
		return nullptr;
	}
	void list_if_asked()
	{
		struct page *slab = where->carve;

		if (!is_listed || !slab)
			return;
		where->carve = nullptr;
		page_state(slab)->second ^= STATE_FROZEN | STATE_LISTED;
		partial_add(where, slab, true);
	}
};

/*
 * Two objects in use are given back together, and one of them by another thread, too: whenever it
 * comes, the slab has fewer in use than come back, and the node's lock is free afterwards.
 */
TEST_P(carved, an_object_that_another_thread_frees_as_well)
{
	STEPS_OR_SKIP();
	uint64_t found = misuse_nr_found();
	unsigned nr = 0;
	bool met = true;

	for (; met && nr < 200 && !HasFailure(); nr++) {
		unsigned left = nr;

		met = false;
		refill_until(cache->objects + 2);
		std::map<struct page *, std::vector<void *>> slabs;
		for (void *object : mine)
			slabs[slab_of(cache, object)].push_back(object);
		auto whole = std::find_if(slabs.begin(), slabs.end(), [&](auto &slab) {
			return slab.first != where->carve &&
			       slab.second.size() == cache->objects;
		});
		ASSERT_NE(whole, slabs.end());
		std::vector<void *> &objects = whole->second;
		while (objects.size() > 2) {
			give(objects.back());
			mine.erase(std::find(mine.begin(), mine.end(), objects.back()));
			objects.pop_back();
		}
		void *one = objects[0], *two = objects[1];
		chain_set_next(cache, one, two);
		steps::run([&] {
			slab_free_objects(cache, whole->first, one, two, 2);
		}, [&] {
			if (slub_thread.locks_held)
				return false;
			if (left--)
				return true;
			met = true;
			give(two);
			return false;
		});
		EXPECT_EQ(slub_thread.locks_held, 0u);
		EXPECT_EQ(where->lock.word, 0u);
		/* Else what follows would wait for ever. */
		slub_thread.locks_held = where->lock.word = 0;
		EXPECT_EQ(misuse_nr_found() - found, nr + met);
		mine.erase(std::find(mine.begin(), mine.end(), two));
		if (!met)
			mine.erase(std::find(mine.begin(), mine.end(), one));
		check_cache(cache, mine);
		give_all();
	}
	EXPECT_GT(nr, 5u);
	EXPECT_FALSE(met);
}

/* Another object of the slab comes back between the look at its word and the exchange. */
TEST_P(carved, an_exchange_that_fails_is_counted_and_tried_again)
{
	STEPS_OR_SKIP();
	if (SLUB_CONFIG_LAYOUT == 2)
		GTEST_SKIP() << "layout lock56 has a lock bit, and nobody comes in between";
	uint32_t stat = cache->stats + 4 * STAT_CMPXCHG_DOUBLE_FAIL;
	bool met = true;
	int64_t failed = 0;

	for (unsigned nr = 0; met && !failed && nr < 500; nr++) {
		std::vector<void *> some;
		unsigned left = nr;

		refill_until(4 * cache->objects);
		for (void *object : mine)
			if (slab_of(cache, object) == slab_of(cache, mine[0]))
				some.push_back(object);
		ASSERT_GE(some.size(), 4u);
		/* On the list, and with something in use afterwards: no lock is taken. */
		give(some[1]);
		int64_t before = slub_percpu_sum32(stat);
		met = false;
		steps::run([&] { give(some[0]); }, [&] {
			if (left--)
				return true;
			met = true;
			give(some[2]);
			return false;
		});
		failed = slub_percpu_sum32(stat) - before;
		for (int i = 0; i < (met ? 3 : 2); i++)
			mine.erase(std::find(mine.begin(), mine.end(), some[(size_t)i]));
		check_cache(cache, mine);
		give_all();
	}
	EXPECT_EQ(failed, 1);
}

TEST_P(carved, whole_while_an_object_comes_back)
{
	STEPS_OR_SKIP();
	for (bool listed : { false, true }) {
		is_listed = listed;
		if (!meet())
			GTEST_SKIP() << "slabs of this size are carved in one go";
		EXPECT_TRUE(page_state(met_at)->second & STATE_LISTED);
		EXPECT_EQ(where->carve, nullptr);
		check_cache(cache, mine);
		give_all();
		node_shrink(cache, where);
	}
}

INSTANTIATE_TEST_SUITE_P(size, carved, testing::Values(240, 1024, 4096),
			 testing::PrintToStringParamName());
#endif

INSTANTIATE_TEST_SUITE_P(size, node, testing::Values(16, 64, 240, 1024, 3584, 4096, 5120, 32768),
			 testing::PrintToStringParamName());

} /* namespace */
