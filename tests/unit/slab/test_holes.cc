/* SPDX-License-Identifier: MIT */
/* features/idle/holes.c: free pages of slabs that are in use go back, and come again. */
#include <algorithm>
#include <atomic>
#include <gtest/gtest.h>
#include <thread>

#include "all_lists.h"

extern "C" {

static std::atomic<size_t> bought;
void __real_page_bought_again(size_t pages);

/* The linker sends the library's calls here (--wrap). */
void __wrap_page_bought_again(size_t pages)
{
	bought += pages;
	__real_page_bought_again(pages);
}

/* A system with larger pages is pretended; what it would round is counted. */
static size_t pretended, nr_purged, nr_rounded;
size_t __real_os_page_size(void);
int __real_os_purge(void *start, size_t bytes);

size_t __wrap_os_page_size(void)
{
	return pretended ? pretended : __real_os_page_size();
}

int __wrap_os_purge(void *start, size_t bytes)
{
	nr_purged++;
	nr_rounded += ((uintptr_t)start | bytes) % __wrap_os_page_size() != 0;
	return __real_os_purge(start, bytes);
}

} /* extern "C" */

namespace {

class holes : public all_lists {
protected:
	void SetUp() override
	{
		all_lists::SetUp();
		if (IsSkipped())
			return;
		if (SLUB_CONFIG_HARDENED)
			GTEST_SKIP() << "the hardened build knows free objects by their link";
		shrink_fully();
		used = page_used_bytes();
	}
	static void fill(void *object, uint32_t size)
	{
		memset(object, (int)((uintptr_t)object >> 4 & 0xff), size);
	}
	static bool is_filled(const void *object, uint32_t size)
	{
		auto *bytes = (const unsigned char *)object;

		for (uint32_t i = 0; i < size; i++)
			if (bytes[i] != ((uintptr_t)object >> 4 & 0xff))
				return false;
		return true;
	}
	static void *alloc(struct slub_cache *cache)
	{
		void *object = cache_alloc(cache);

		fill(object, cache->size);
		return object;
	}
	/* The first of 1,000 objects; the others are free again. */
	static void *one_of_1000(struct slub_cache *cache)
	{
		std::vector<void *> mine;

		for (int i = 0; i < 1000; i++)
			mine.push_back(cache_alloc(cache));
		for (size_t i = 1; i < mine.size(); i++)
			cache_free(cache, mine[i]);
		slab_shrink_all();
		return mine[0];
	}
	/* Empties the lists first: what lies in them is not free in its slab. */
	static void purge()
	{
		slab_shrink_all();
		slab_purge_objects(0, -1);
		page_purge(0);
	}
	size_t used;
};

TEST_F(holes, what_is_sparse_gives_back_its_free_pages)
{
	if (os_page_size() != PAGE_BYTES)
		GTEST_SKIP() << "the system's pages are larger";
	start::one_cpu stays;
	struct slub_cache *cache = test_cache(1024);
	std::vector<void *> mine, kept;

	for (int i = 0; i < 32768; i++)
		mine.push_back(alloc(cache));
	size_t full = harness::resident_bytes(), full_used = page_used_bytes();
	for (size_t i = 0; i < mine.size(); i++) {
		if (i % 32 == 5)
			kept.push_back(mine[i]);
		else
			cache_free(cache, mine[i]);
	}
	purge();
	size_t slabs = cache->nodes[0]->nr_slabs;
	EXPECT_GE(slabs, 1000u) << "each has an object";
	EXPECT_LE(harness::resident_bytes(), full - (24ul << 20)) << "of 31 MiB";
	EXPECT_LE(page_used_bytes(), full_used - (24ul << 20)) << "and does not count";
	for (void *object : kept)
		EXPECT_TRUE(is_filled(object, 1024));
	check_cache(cache, kept);
	/* All of it comes again, before any new slab. */
	while (kept.size() < mine.size())
		kept.push_back(alloc(cache));
	EXPECT_LE(cache->nodes[0]->nr_slabs, slabs + 2);
	for (void *object : kept)
		EXPECT_TRUE(is_filled(object, 1024));
	check_cache(cache, kept);
	for (void *object : kept)
		cache_free(cache, object);
	shrink_fully();
	EXPECT_EQ(page_used_bytes(), used) << "the account is off";
}

/*
 * The kernel rounds a length up to its pages: an object whose first page begins one of those took
 * the beginning of the next with it.
 */
TEST_F(holes, of_an_object_whole_pages_of_the_system_go_back)
{
	for (size_t page : { (size_t)65536, (size_t)0 }) {
		struct slub_cache *cache = test_cache(8192);
		std::vector<void *> mine, kept;

		ASSERT_FALSE(link_is_in_object(cache->link));
		for (int i = 0; i < 256; i++)
			mine.push_back(alloc(cache));
		for (size_t i = 0; i < mine.size(); i++) {
			if (i % 2)
				kept.push_back(mine[i]);
			else
				cache_free(cache, mine[i]);
		}
		slab_shrink_all();
		pretended = page;
		nr_purged = nr_rounded = 0;
		slab_purge_objects(0, -1);
		EXPECT_EQ(nr_rounded, 0u);
		if (os_page_size() == PAGE_BYTES)
			EXPECT_GE(nr_purged, 100u);
		else
			EXPECT_EQ(nr_purged, 0u) << "none has a whole page";
		pretended = 0;
		for (void *object : kept) {
			EXPECT_TRUE(is_filled(object, 8192));
			cache_free(cache, object);
		}
	}
}

/* The budget hears of each page that has memory again. */
TEST_F(holes, what_is_carved_anew_is_bought)
{
	if (os_page_size() != PAGE_BYTES)
		GTEST_SKIP() << "the system's pages are larger";
	start::one_cpu stays;
	struct slub_cache *cache = test_cache(1024);
	std::vector<void *> mine = { one_of_1000(cache) };
	struct page *slab = slab_of(cache, mine[0]);

	purge();
	size_t pages = (size_t)__builtin_popcountll(slab_holes(cache, slab));
	ASSERT_GT(pages, 0u);
	ASSERT_EQ(cache->nodes[0]->nr_slabs, 1u);
	bought = 0;
	while (slab_holes(cache, slab))
		mine.push_back(alloc(cache));
	EXPECT_EQ(bought, pages);
	for (void *object : mine)
		cache_free(cache, object);
}

/* Sizes whose objects lie across pages, fill them, and have room behind the last. */
TEST_F(holes, come_and_go_among_objects_in_use)
{
	harness::Random random(7);

	for (uint32_t size : { 8u, 16u, 48u, 112u, 144u, 208u, 576u, 1152u, 1408u, 1920u, 2048u,
			       3072u, 3584u }) {
		struct slub_cache *cache = test_cache(size);
		std::vector<void *> mine;

		for (int round = 0; round < 12; round++) {
			size_t wanted = random.below(3) ? random.below(300) : 3000;

			while (mine.size() < wanted)
				mine.push_back(alloc(cache));
			while (mine.size() > wanted) {
				size_t i = random.below(mine.size());

				ASSERT_TRUE(is_filled(mine[i], size)) << size;
				cache_free(cache, mine[i]);
				mine[i] = mine.back();
				mine.pop_back();
			}
			purge();
			check_cache(cache, mine);
			ASSERT_FALSE(HasFatalFailure()) << size << " round " << round;
		}
		for (void *object : mine)
			cache_free(cache, object);
		shrink_fully();
		ASSERT_EQ(page_used_bytes(), used) << size;
	}
}

TEST_F(holes, a_constructed_object_stays_as_it_is)
{
	static struct slub_cache cache;

	ASSERT_EQ(cache_create(&cache, "constructed", 2032), 0);
	cache.ctor = [](void *object) { memset(object, 0x5a, 2032); };
	void *kept = one_of_1000(&cache);
	size_t before = page_used_bytes();
	slab_purge_objects(0, -1);
	EXPECT_EQ(page_used_bytes(), before);
	cache_free(&cache, kept);
	shrink_fully();
}

/* Between the look at a cache and the pin it may end, and its place be another one's. */
TEST_F(holes, none_in_a_cache_that_has_a_constructor_by_then)
{
	if (os_page_size() != PAGE_BYTES)
		GTEST_SKIP() << "the system's pages are larger";
	/* Walks go on with it, so it is in their list for good. */
	static struct slub_cache cache;

	ASSERT_EQ(cache_create(&cache, "becomes", 2032), 0);
	void *kept = one_of_1000(&cache);
	size_t before = page_used_bytes();
	lock_acquire(&cache_lock);
	std::thread purger([] { slab_purge_objects(0, -1); });
	/* The newest one is the first in the list: there it waits for the lock. */
	while (!(__atomic_load_n(&cache_lock.word, __ATOMIC_RELAXED) & LOCK_WAITERS))
		std::this_thread::yield();
	cache.ctor = [](void *) {};
	lock_release(&cache_lock);
	purger.join();
	EXPECT_EQ(page_used_bytes(), before);
	cache.ctor = nullptr;
	slab_purge_objects(0, -1);
	EXPECT_LT(page_used_bytes(), before);
	cache_free(&cache, kept);
	shrink_fully();
}

TEST_F(holes, a_visit_passes_them_over)
{
	struct slub_cache *cache = test_cache(2048);
	std::set<void *> kept, seen;
	std::vector<void *> mine;

	for (int i = 0; i < 2000; i++)
		mine.push_back(alloc(cache));
	for (size_t i = 0; i < mine.size(); i++) {
		if (i % 10)
			cache_free(cache, mine[i]);
		else
			kept.insert(mine[i]);
	}
	purge();
	EXPECT_EQ(slub_cache_for_each_object(cache, [](void *object, void *arg) {
		((std::set<void *> *)arg)->insert(object);
		return 0;
	}, &seen), 0);
	EXPECT_EQ(seen, kept);
	for (void *object : kept)
		cache_free(cache, object);
	shrink_fully();
}

TEST_F(holes, are_made_while_others_work)
{
	struct slub_cache *caches[] = { test_cache(208), test_cache(1152), test_cache(2048) };
	std::atomic<int> errors{0}, left{3};
	std::vector<std::thread> threads;

	for (uint64_t t = 0; t < 3; t++)
		threads.emplace_back([&, t] {
			harness::Random random(t);
			std::vector<void *> mine;
			struct slub_cache *cache = caches[t];

			for (int i = 0; i < 20000; i++) {
				if (random.below(1000) >= mine.size()) {
					mine.push_back(alloc(cache));
					continue;
				}
				size_t at = random.below(mine.size());
				errors += !is_filled(mine[at], cache->size);
				cache_free(cache, mine[at]);
				mine[at] = mine.back();
				mine.pop_back();
			}
			for (void *object : mine)
				cache_free(cache, object);
			left--;
		});
	do {
		slab_shrink_all();
		slab_purge_objects(0, -1);
	} while (left > 0);
	for (auto &thread : threads)
		thread.join();
	EXPECT_EQ(errors, 0) << "an object was given back that was in use";
	for (struct slub_cache *cache : caches)
		check_cache(cache, {});
	shrink_fully();
	EXPECT_EQ(page_used_bytes(), used);
}

/* ---- objects of a page or more, whose link lies elsewhere ---- */

constexpr uint32_t BIG = 16384;

/* Objects that are free have no memory, so nobody minds what a test writes there. */
class purged : public holes {
protected:
	void SetUp() override
	{
		holes::SetUp();
		if (IsSkipped())
			return;
		if (os_page_size() > BIG)
			GTEST_SKIP() << "the system's pages are larger";
		cache = test_cache(BIG);
		for (int i = 0; i < 256; i++)
			mine.push_back(alloc(cache));
		/* One of two that lie beside each other keeps the slab. */
		for (void *object : mine) {
			if ((uintptr_t)object / BIG % 2)
				kept.push_back(object);
			else
				free.push_back(object);
		}
		ASSERT_GE(free.size(), 100u);
		mark(mine);
		give_back(free);
	}
	void TearDown() override
	{
		if (IsSkipped())
			return;
		check_cache(cache, kept);
		give_back(kept);
		check_cache(cache, {});
	}
	void give_back(const std::vector<void *> &objects)
	{
		for (void *object : objects)
			cache_free(cache, object);
		purge();
	}
	static void mark(const std::vector<void *> &objects)
	{
		for (void *object : objects)
			((char *)object)[BIG / 2] = 1;
	}
	static size_t nr_marked(const std::vector<void *> &objects)
	{
		size_t nr = 0;

		for (void *object : objects)
			nr += ((char *)object)[BIG / 2] == 1;
		return nr;
	}

	struct slub_cache *cache;
	std::vector<void *> mine, kept, free;
};

TEST_F(purged, what_is_free_goes_back_once)
{
	EXPECT_EQ(nr_marked(free), 0u);
	mark(free);
	for (int i = 0; i < 3; i++)
		purge();
	EXPECT_EQ(nr_marked(free), free.size()) << "a system call for what was given back before";
}

TEST_F(purged, only_what_was_freed_since_goes_back)
{
	std::vector<void *> more(kept.begin(), kept.begin() + 20);

	mark(free);
	mark(more);
	kept.erase(kept.begin(), kept.begin() + 20);
	/* The last of a slab takes the slab along: then it is none of ours any more. */
	for (void *object : more) {
		void *other = (char *)object - BIG;

		free.erase(std::remove(free.begin(), free.end(), other), free.end());
	}
	EXPECT_EQ(nr_marked(kept), kept.size());
	give_back(more);
	EXPECT_EQ(nr_marked(more), 0u);
	EXPECT_EQ(nr_marked(free), free.size());
}

TEST_F(purged, what_was_in_use_again_goes_back_again)
{
	std::vector<void *> again;

	for (size_t i = 0; i < free.size(); i++)
		again.push_back(cache_alloc(cache));
	mark(again);
	give_back(again);
	EXPECT_EQ(nr_marked(again), 0u);
	EXPECT_EQ(nr_marked(free), 0u);
}

/* Freed in such an order that no object follows its neighbour in the freelist. */
TEST_F(holes, a_page_that_two_free_objects_share_goes_back)
{
	constexpr uint32_t SIZE = PAGE_BYTES + PAGE_BYTES / 2;

	if (os_page_size() != PAGE_BYTES)
		GTEST_SKIP() << "the system's pages are larger";
	start::one_cpu stays;
	struct slub_cache *cache = test_cache(SIZE);
	std::vector<void *> mine, kept, shared;

	for (int i = 0; i < 256; i++)
		mine.push_back(alloc(cache));
	std::sort(mine.begin(), mine.end());
	for (size_t i = 0; i < mine.size(); i++) {
		if (i % 8 == 0)
			kept.push_back(mine[i]);
		else if (i % 8 > 1 && (char *)mine[i] == (char *)mine[i - 1] + SIZE &&
			 (uintptr_t)mine[i] % PAGE_BYTES)
			shared.push_back(mine[i]);
	}
	ASSERT_GE(shared.size(), 60u);
	for (size_t first : { 1, 3, 5, 7, 2, 4, 6 })
		for (size_t i = first; i < mine.size(); i += 8)
			cache_free(cache, mine[i]);
	for (void *object : shared)
		*(char *)object = 1;
	purge();
	for (void *object : shared)
		EXPECT_EQ(*(char *)object, 0);
	for (void *object : kept) {
		EXPECT_TRUE(is_filled(object, SIZE));
		cache_free(cache, object);
	}
	check_cache(cache, {});
}

} /* namespace */
