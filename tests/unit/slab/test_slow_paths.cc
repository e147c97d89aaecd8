/* SPDX-License-Identifier: MIT */
/* core/slab/alloc.c, free.c: where a chain goes, and comes from, at each step of the slow paths. */
#include <functional>
#include <gtest/gtest.h>
#include <map>
#include <thread>
#include <vector>

#include "check.h"
#include "lists.h"
#include "start.h"

#define _Static_assert static_assert
#define _Atomic
extern "C" {
#include "features/groups/owned.h"
}
#undef _Static_assert
#undef _Atomic

static bool has_no_lists, has_no_memory;
static unsigned nr_looks, nr_told;
static std::vector<void *> settled;
static struct slub_cache *asked_twin;
static size_t asked_bytes;

/* The linker sends the library's calls to these (--wrap). */
extern "C" bool __real_percpu_push(uint32_t slot, void *object, uintptr_t link);
extern "C" bool __real_percpu_put(uint32_t half, void *chain, int64_t room);
extern "C" void *__real_node_refill(struct slub_cache *cache, struct cache_node *node,
				    uint32_t *nr);

extern "C" bool __wrap_percpu_push(uint32_t slot, void *object, uintptr_t link)
{
	return !has_no_lists && __real_percpu_push(slot, object, link);
}

extern "C" bool __wrap_percpu_put(uint32_t half, void *chain, int64_t room)
{
	return !has_no_lists && __real_percpu_put(half, chain, room);
}

extern "C" void *__wrap_node_refill(struct slub_cache *cache, struct cache_node *node, uint32_t *nr)
{
	return has_no_memory ? nullptr : __real_node_refill(cache, node, nr);
}

extern "C" void __wrap_slab_left_look(struct slub_cache *)
{
	nr_looks++;
}

extern "C" void __wrap_stats_file_update(struct slub_cache *)
{
	nr_told++;
}

extern "C" void __wrap_account_settle(const struct slub_cache *, void *chain)
{
	settled.push_back(chain);
}

extern "C" void *__wrap_debug_alloc(struct slub_cache *twin, size_t bytes)
{
	asked_twin = twin;
	asked_bytes = bytes;
	return &asked_twin;
}

namespace {

class slow_paths : public testing::Test {
protected:
	static void SetUpTestSuite()
	{
		harness::stay_on_this_cpu();
		start::once([] { start::slab(256ul << 20, 16ul << 20); });
		/* CPUs share the budget. */
		percpu_area_make(percpu_here() + 3);
	}
	void SetUp() override
	{
		if (!start::has_wanted_backend())
			GTEST_SKIP() << "this process cannot have that backend";
		if (SLUB_CONFIG_HARDENED)
			GTEST_SKIP() << "links are encoded, and no charge stays";
		if (!percpu_can_stop && percpu_backend <= BACKEND_THREAD)
			GTEST_SKIP() << "without membarrier(2) no CPU can be stopped";
		cache = test_cache(112);
		percpu_enter();
		empty();
		lists = (struct slot *)(percpu_area(percpu_here()) + cache->list_slot);
	}
	void TearDown() override
	{
		if (IsSkipped())
			return;
		slab_is_told = false;
		for (void *object : stock)
			slab_free_objects(cache, slab_of(cache, object), object, object, 1);
		empty();
		check_cache(cache, {});
		EXPECT_EQ(cache->nodes[0]->nr_slabs, 0u);
	}
	/* Nothing is owed to the system, however slow the machine: lists have their full length. */
	void empty()
	{
		slab_shrink_all();
		page_purge_all();
		cache->barn_credit = 100;
		cache->barn_refused = 0;
		cache->capacity_now = 320;
	}
	/* Of @nr objects, straight from slabs. */
	void *chain(size_t nr)
	{
		void *made = nullptr;

		while (stock.size() < nr) {
			uint32_t n;
			void *more = node_refill(cache, cache->nodes[0], &n);

			for (; more; more = link_next(cache, more))
				stock.push_back(more);
		}
		for (; nr; nr--) {
			chain_set_next(cache, stock.back(), made);
			made = stock.back();
			stock.pop_back();
		}
		return made;
	}
	size_t length(void *from)
	{
		size_t nr = 0;

		for (; from; from = link_next(cache, from))
			nr++;
		return nr;
	}
	int32_t stat(enum cache_stat which)
	{
		return slub_percpu_sum32(cache->stats + 4 * which);
	}
	/* How many of them @work adds. */
	template <typename Work> int32_t adds(enum cache_stat which, Work work)
	{
		int32_t before = stat(which);

		work();
		return stat(which) - before;
	}
	struct slub_cache *cache;
	struct slot *lists;
	std::vector<void *> stock;
};

TEST_F(slow_paths, a_chain_retires_to_the_spare_then_the_barn_then_the_slabs)
{
	size_t in_use;

	EXPECT_EQ(adds(STAT_FREE_SPARE, [&] { chain_retire(cache, chain(5), 5); }), 1);
	EXPECT_EQ(length(lists->spare.head), 5u);
	EXPECT_EQ(lists->main.head, nullptr);
	EXPECT_EQ(cache->in_barns, 0u);
	/* Under backend tid the main list's room lies there. */
	if (percpu_backend != BACKEND_TID) {
		EXPECT_EQ(lists->spare.room, 5);
	}
	EXPECT_EQ(adds(STAT_FREE_BARN, [&] { chain_retire(cache, chain(6), 6); }), 1);
	EXPECT_EQ(cache->in_barns, 6u);
	EXPECT_EQ(cache->capacity_now, 320);
	in_use = stat(STAT_OBJECTS_BACK);
	cache->barn_credit = 0;
	cache->left_in = 100;
	EXPECT_EQ(adds(STAT_FREE_FLUSH, [&] { chain_retire(cache, chain(7), 7); }), 1);
	EXPECT_EQ(stat(STAT_OBJECTS_BACK) - in_use, 12u) << "the spare's five too";
	EXPECT_EQ(cache->capacity_now, 300) << "shorter by a sixteenth";
	EXPECT_EQ(cache->left_in, 88u);
	EXPECT_EQ(lists->spare.head, nullptr);
}

/* What a cache that its program has left waits for: so many objects back in their slabs. */
TEST_F(slow_paths, left_caches_are_looked_at_when_enough_came_back)
{
	cache->barn_credit = 0;
	cache->left_in = 8;
	nr_looks = 0;
	EXPECT_FALSE(chain_give(cache, chain(7), 7));
	EXPECT_EQ(cache->left_in, 1u);
	EXPECT_EQ(nr_looks, 0u);
	EXPECT_FALSE(chain_give(cache, chain(1), 1));
	EXPECT_EQ(nr_looks, 1u);
	cache->barn_credit = 1;
	EXPECT_TRUE(chain_give(cache, chain(1), 1));
	EXPECT_EQ(nr_looks, 1u);
}

TEST_F(slow_paths, a_stored_chain_has_the_room_that_it_lacks)
{
	const uint32_t nr[] = { 49, 50, 55 };

	for (uint32_t n : nr) {
		empty();
		cache->capacity_now = 50;
		chain_store(cache, chain(n), n);
		EXPECT_EQ(length(lists->main.head), n);
		EXPECT_EQ(*percpu_room(lists), n < 50 ? 1 : 0) << n;
	}
	chain_store(cache, chain(3), 3);
	EXPECT_EQ(length(lists->spare.head), 3u);
	if (percpu_backend != BACKEND_TID) {
		EXPECT_EQ(lists->spare.room, 3);
	}
	chain_store(cache, chain(4), 4);
	EXPECT_EQ(cache->in_barns, 4u);
	EXPECT_EQ(length(lists->main.head), 55u);
}

TEST_F(slow_paths, a_chain_is_fetched_from_the_nearest_place)
{
	void *spare = chain(3), *kept = chain(4), *got;
	uint32_t nr = 0;

	ASSERT_TRUE(percpu_put(cache->list_slot + SLOT_SPARE, spare, 3));
	ASSERT_TRUE(barn_put(cache, kept, 4));
	cache->capacity_now = 40;
	EXPECT_EQ(adds(STAT_ALLOC_SPARE, [&] {
		got = chain_fetch(cache, cache->nodes[0], &nr);
	}), 1);
	EXPECT_EQ(got, spare);
	EXPECT_EQ(cache->capacity_now, 51) << "longer by a quarter and one";
	if (percpu_backend != BACKEND_TID) {
		EXPECT_EQ(lists->spare.room, 0);
		EXPECT_EQ(nr, 3u);
	}
	EXPECT_EQ(adds(STAT_ALLOC_BARN, [&] {
		got = chain_fetch(cache, cache->nodes[0], &nr);
	}), 1);
	EXPECT_EQ(got, kept);
	EXPECT_EQ(nr, 4u);
	chain_flush(cache, spare);
	chain_flush(cache, kept);
	EXPECT_EQ(adds(STAT_ALLOC_REFILL, [&] {
		got = chain_fetch(cache, cache->nodes[0], &nr);
	}), 1);
	EXPECT_EQ(length(got), nr);
	chain_flush(cache, got);
	has_no_memory = true;
	EXPECT_EQ(adds(STAT_ALLOC_REFILL_FAIL, [&] {
		got = chain_fetch(cache, cache->nodes[0], &nr);
	}), 1);
	has_no_memory = false;
	EXPECT_EQ(got, nullptr);
	EXPECT_EQ(adds(STAT_ALLOC_REFILL_FAIL, [&] {
		chain_flush(cache, chain_fetch(cache, cache->nodes[0], &nr));
	}), 0);
}

TEST_F(slow_paths, lists_grow_up_to_their_share_and_no_further)
{
	size_t share = start::list_most_bytes() / cache->size;
	auto most = (int32_t)std::min<size_t>(share, (size_t)cache->capacity);
	int32_t n = 1;

	while (n + n / 4 + 1 < most)
		n++;
	for (int32_t from : { n, n + 1 }) {
		int32_t to = from + from / 4 + 1;

		capacity_set(cache, from);
		capacity_grow(cache);
		EXPECT_EQ(cache->capacity_now, to <= most ? to : from);
	}
	capacity_set(cache, 11);
}

/* From slabs with one free object each: a refill takes half a list's length. */
TEST_F(slow_paths, a_refill_is_half_a_list)
{
	std::map<struct page *, void *> slabs;
	void *all = chain(10 * cache->objects);
	std::vector<void *> mine;
	uint32_t nr = 0;

	for (; all; all = link_next(cache, all)) {
		struct page *slab = slab_of(cache, all);

		/* The first of each whole slab. */
		if (slab->count == cache->objects && slabs.size() < 8)
			slabs.emplace(slab, all);
		if (!slabs.count(slab) || slabs[slab] != all)
			mine.push_back(all);
	}
	for (void *object : stock)
		mine.push_back(object);
	stock.clear();
	ASSERT_EQ(slabs.size(), 8u);
	for (auto &[slab, object] : slabs)
		slab_free_objects(cache, slab, object, object, 1);
	ASSERT_EQ(cache->nodes[0]->nr_partial, 8u);
	cache->capacity_now = 11;
	void *got = node_refill(cache, cache->nodes[0], &nr);
	EXPECT_EQ(nr, 6u);
	EXPECT_EQ(length(got), 6u);
	chain_flush(cache, got);
	stock = mine;
}

/* Without statistics, which enter as well. */
TEST_F(slow_paths, a_new_thread_gets_its_lists_by_each_of_them)
{
	if (percpu_backend > BACKEND_THREAD)
		GTEST_SKIP() << "other backends take any thread";
	void *one = cache_alloc(cache), *two = cache_alloc(cache), *three = nullptr;
	uint32_t stats = cache->stats;
	const std::function<void()> calls[] = {
		[&] { three = cache_alloc(cache); },
		[&] { cache_free(cache, one); },
		[&] { EXPECT_TRUE(cache_free_kept(cache, two)); },
	};

	cache->stats = 0;
	for (auto &call : calls)
		std::thread([&] {
			EXPECT_FALSE(slub_thread.flags & THREAD_CHECKED);
			call();
			EXPECT_TRUE(slub_thread.flags & THREAD_CHECKED) << &call - calls;
		}).join();
	cache->stats = stats;
	cache_free(cache, three);
}

/* Watchers of caches are told by each slow path. */
TEST_F(slow_paths, watchers_are_told)
{
	slab_is_told = true;
	ASSERT_TRUE(percpu_put(cache->list_slot + SLOT_SPARE, chain(3), 0));
	nr_told = 0;
	void *object = cache_alloc(cache);
	EXPECT_EQ(nr_told, 1u) << "cache_alloc";
	slab_shrink_all();
	nr_told = 0;
	cache_free(cache, object);
	EXPECT_EQ(nr_told, 1u) << "cache_free";
	void *some = chain(2);
	nr_told = 0;
	chain_flush(cache, some);
	EXPECT_EQ(nr_told, 1u) << "chain_flush";
	for (void *one : stock)
		slab_free_objects(cache, slab_of(cache, one), one, one, 1);
	stock.clear();
	slab_shrink_all();
	nr_told = 0;
	some = chain(1);
	EXPECT_EQ(nr_told, 2u) << "a slab, and what a refill takes of it";
	stock.push_back(some);
	for (void *one : stock)
		slab_free_objects(cache, slab_of(cache, one), one, one, 1);
	stock.clear();
	nr_told = 0;
	node_shrink(cache, cache->nodes[0]);
	EXPECT_EQ(nr_told, 1u) << "the slab goes";
}

/* As in a signal handler that interrupted an operation on the thread's lists. */
TEST_F(slow_paths, a_free_without_lists_goes_to_the_slab_and_settles_its_owner)
{
	for (enum account_path path : { ACCOUNT_SLOW, ACCOUNT_SLAB }) {
		void *object = cache_alloc(cache);

		slab_shrink_all();
		settled.clear();
		cache->account_path = path;
		has_no_lists = true;
		EXPECT_EQ(adds(STAT_FREE_DIRECT, [&] { cache_free(cache, object); }), 1);
		has_no_lists = false;
		cache->account_path = ACCOUNT_SLOW;
		EXPECT_EQ(settled, path == ACCOUNT_SLOW ? std::vector<void *>{} :
							  std::vector<void *>{ object });
		EXPECT_EQ(lists->main.head, nullptr);
	}
	/* A whole chain of such a cache is settled before a barn has it, or its slabs. */
	cache->account_path = ACCOUNT_SLAB;
	settled.clear();
	void *one = chain(2), *two = chain(2);
	ASSERT_TRUE(barn_put(cache, one, 2));
	chain_flush(cache, two);
	cache->account_path = ACCOUNT_SLOW;
	EXPECT_EQ(settled, (std::vector<void *>{ one, two }));
}

TEST_F(slow_paths, a_charge_stays_only_where_lists_take_the_object)
{
	void *object = cache_alloc(cache);
	bool *const refusing[] = { &cache->is_sampled, &cache->is_reserve };

	empty();
	for (bool *why : refusing) {
		*why = true;
		EXPECT_FALSE(cache_free_kept(cache, object));
		*why = false;
	}
	slub_thread.locks_held++;
	EXPECT_FALSE(cache_free_kept(cache, object));
	slub_thread.locks_held--;
	cache->twin = cache;
	EXPECT_FALSE(cache_free_kept(cache, object));
	cache->twin = nullptr;
	EXPECT_EQ(lists->main.head, nullptr);
	EXPECT_TRUE(cache_free_kept(cache, object));
	EXPECT_EQ(lists->main.head, object);
	EXPECT_EQ(length(object), 1u);
	EXPECT_EQ(*percpu_room(lists), capacity_now(cache) - 1);
}

TEST_F(slow_paths, a_watched_cache_has_its_twin_asked)
{
	struct slub_cache *other = test_cache(64);
	const struct debug_layout *none = cache->debug;

	cache->twin = other;
	EXPECT_EQ(cache_alloc_sized(cache, 30), &asked_twin);
	EXPECT_EQ(asked_twin, other);
	EXPECT_EQ(asked_bytes, 30u);
	cache->twin = nullptr;
	cache->debug = (const struct debug_layout *)&asked_twin;
	EXPECT_EQ(cache_alloc(cache), &asked_twin);
	cache->debug = none;
	EXPECT_EQ(asked_twin, cache);
	EXPECT_EQ(asked_bytes, cache->object_size);
}

} /* namespace */
