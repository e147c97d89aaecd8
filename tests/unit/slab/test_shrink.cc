/* SPDX-License-Identifier: MIT */
/* core/slab/shrink.c: what is not in use goes back, whoever's list it is on. */
#include <atomic>
#include <gtest/gtest.h>
#include <thread>

#include "all_lists.h"

static struct slub_cache *watched;
static unsigned nr_pinned, nr_unpinned;

/* The linker sends the library's calls here (--wrap). */
extern "C" void __real_slab_free_objects(struct slub_cache *cache, struct page *slab, void *head,
					 void *tail, uint32_t nr);

extern "C" void __wrap_slab_free_objects(struct slub_cache *cache, struct page *slab, void *head,
					 void *tail, uint32_t nr)
{
	if (cache == watched)
		++(cache_is_pinned(cache) ? nr_pinned : nr_unpinned);
	__real_slab_free_objects(cache, slab, head, tail, nr);
}

namespace {

class shrink : public all_lists {
protected:
	void SetUp() override
	{
		all_lists::SetUp();
		if (IsSkipped())
			return;
		slab_shrink_all();
	}
	static std::vector<void *> alloc(struct slub_cache *cache, size_t nr)
	{
		std::vector<void *> mine;

		while (mine.size() < nr)
			mine.push_back(cache_alloc(cache));
		return mine;
	}
};

/*
 * A burst of frees in random order, then nothing: most of the memory is back by itself.
 * The first test: what others gave back and this one bought again would raise the idle limit.
 */
TEST_F(shrink, burst_of_frees_gives_memory_back)
{
	struct slub_cache *cache = test_cache(64);
	auto mine = alloc(cache, (128ul << 20) / 64);
	harness::Random random(1);

	for (void *object : mine)
		memset(object, 1, 64);
	size_t before = harness::resident_bytes();
	for (size_t i = mine.size(); i-- > 1;)
		std::swap(mine[i], mine[random.below(i + 1)]);
	for (void *object : mine)
		cache_free(cache, object);
	size_t given = before - std::min(before, harness::resident_bytes());
	EXPECT_GE(given, 96ul << 20) << "of 128 MiB";
	check_cache(cache, {});
}

TEST_F(shrink, everything_free_goes_back)
{
	for (uint32_t size : { 16u, 96u, 512u, 4096u, 8192u, 28672u }) {
		struct slub_cache *cache = test_cache(size);
		auto mine = alloc(cache, 3000);

		for (void *object : mine)
			cache_free(cache, object);
		EXPECT_GT(cache->nodes[0]->nr_slabs, 0u) << "some is kept for the next";
		shrink_fully();
		EXPECT_EQ(cache->nodes[0]->nr_slabs, 0u) << size;
		EXPECT_EQ(superblock_nr_used(), 0u) << "blocks in lists went back too";
	}
}

TEST_F(shrink, what_is_in_use_stays)
{
	struct slub_cache *cache = test_cache(160);
	auto mine = alloc(cache, 20000);
	std::vector<void *> kept;

	for (size_t i = 0; i < mine.size(); i++)
		if (i % 1000 == 0)
			kept.push_back(mine[i]);
		else
			cache_free(cache, mine[i]);
	for (void *object : kept)
		harness::fill(object, 160, (uintptr_t)object);
	slab_shrink_all();
	EXPECT_EQ(check_cache(cache, kept), 0u) << "nothing is left in lists and barns";
	EXPECT_LE(cache->nodes[0]->nr_slabs, kept.size());
	for (void *object : kept) {
		EXPECT_TRUE(harness::intact(object, 160, (uintptr_t)object));
		cache_free(cache, object);
	}
}

/* The thread that freed is still there, and asleep. */
TEST_F(shrink, lists_of_other_threads_are_emptied)
{
	struct slub_cache *cache = test_cache(320);
	std::atomic<bool> freed{false}, stop{false};
	std::thread other([&] {
		for (void *object : alloc(cache, 500))
			cache_free(cache, object);
		freed = true;
		while (!stop)
			usleep(1000);
		void *object = cache_alloc(cache);
		cache_free(cache, object);
	});

	while (!freed)
		std::this_thread::yield();
	slab_shrink_all();
	EXPECT_EQ(cache->nodes[0]->nr_slabs, 0u);
	stop = true;
	other.join();
	check_cache(cache, {});
}

/*
 * With its last object a cache could end, also one that is being destroyed already: a shrink
 * pins it while it holds objects that were in lists.
 */
TEST_F(shrink, a_cache_whose_objects_are_in_hand_is_pinned)
{
	struct slub_cache *cache = slub_cache_create("in_hand", 64, 0, SLUB_CACHE_NO_MERGE,
						     nullptr);
	struct cache_hold shut;

	ASSERT_NE(cache, nullptr);
	watched = cache;
	/* What earlier tests owe the system may empty the lists first: once more then. */
	for (int tries = 0, is_shut = 0; is_shut < 2 && tries < 100; tries++) {
		/* Some on the main list, some on the spare. */
		for (void *object : alloc(cache, 3 * (size_t)capacity_now(cache)))
			cache_free(cache, object);
		if (is_shut) {
			ASSERT_EQ(cache_shut(cache, &shut), 0);
		}
		nr_pinned = nr_unpinned = 0;
		slab_shrink_all();
		if (is_shut)
			cache_open(&shut);
		EXPECT_EQ(nr_unpinned, 0u) << is_shut;
		EXPECT_FALSE(cache_is_pinned(cache)) << is_shut;
		is_shut += nr_pinned > 0;
	}
	EXPECT_GT(nr_pinned, 0u);
	watched = nullptr;
	EXPECT_EQ(slub_cache_destroy(cache), 0);
}

/* A program that keeps what it can, and is asked to give some of it up. */
struct holder : slub_shrinker {
	std::vector<void *> held;
	struct slub_cache *cache;
	harness::Random random{ 1 };

	explicit holder(struct slub_cache *cache) : slub_shrinker(), cache(cache)
	{
		count = [](slub_shrinker *s, slub_shrink_control *) noexcept {
			return static_cast<holder *>(s)->held.size();
		};
		scan = [](slub_shrinker *s, slub_shrink_control *control) noexcept {
			return static_cast<holder *>(s)->give_up(control->nr_to_scan);
		};
		seeks = SLUB_SHRINKER_SEEKS;
	}
	/* Any of them: so no slab becomes empty for long. */
	size_t give_up(size_t nr)
	{
		nr = std::min(nr, held.size());
		for (size_t i = 0; i < nr; i++) {
			std::swap(held[random.below(held.size())], held.back());
			cache_free(cache, held.back());
			held.pop_back();
		}
		return nr;
	}
};

TEST_F(shrink, a_request_at_the_limit_does_not_cost_everything)
{
	holder program(test_cache(1024));
	size_t most = 0, least = SIZE_MAX;

	slab_reclaimer_init();
	page_limit_set(page_used_bytes() + (32ul << 20));
	ASSERT_EQ(slub_shrinker_create(&program), 0);
	for (int i = 0; i < 200000; i++) {
		void *object = cache_alloc_reserve(program.cache, 0);

		ASSERT_NE(object, nullptr);
		program.held.push_back(object);
		most = std::max(most, program.held.size());
		if (i > 100000)
			least = std::min(least, program.held.size());
	}
	EXPECT_GT(most, 25000u);
	EXPECT_GT(least, most / 2);
	EXPECT_EQ(slub_shrinker_destroy(&program), 0);
	page_limit_set(0);
	page_set_growth_hook(NULL);
	program.give_up(SIZE_MAX);
}

TEST_F(shrink, does_nothing_under_a_lock)
{
	struct slub_cache *cache = test_cache(64);

	for (void *object : alloc(cache, 500))
		cache_free(cache, object);
	size_t slabs = cache->nodes[0]->nr_slabs;
	slub_thread.locks_held = 1;
	slab_shrink_all();
	slub_thread.locks_held = 0;
	EXPECT_EQ(cache->nodes[0]->nr_slabs, slabs);
}

TEST_F(shrink, says_that_it_is_at_it_and_no_longer)
{
	slab_shrink_all();
	EXPECT_EQ(slub_thread.flags & THREAD_IN_RECLAIM, 0u);
	slub_thread.flags |= THREAD_IN_RECLAIM;
	slab_shrink_all();
	EXPECT_NE(slub_thread.flags & THREAD_IN_RECLAIM, 0u) << "the caller was at it already";
	slub_thread.flags &= ~(uint32_t)THREAD_IN_RECLAIM;
}

TEST_F(shrink, threads_shrink_while_others_work)
{
	struct slub_cache *small = test_cache(48), *paged = test_cache(4096);
	std::vector<std::thread> threads;
	std::atomic<int> errors{0};

	for (uint64_t t = 0; t < 4; t++)
		threads.emplace_back([&, t] {
			harness::Random random(t);

			for (int i = 0; i < 300; i++) {
				struct slub_cache *cache = random.below(2) ? small : paged;

				for (void *object : alloc(cache, random.below(200)))
					errors += !object, cache_free(cache, object);
				if (random.below(4) == 0)
					slab_shrink_all();
			}
		});
	for (auto &thread : threads)
		thread.join();
	EXPECT_EQ(errors, 0);
	check_cache(small, {});
	check_cache(paged, {});
	shrink_fully();
	EXPECT_EQ(superblock_nr_used(), 0u);
}

} /* namespace */
