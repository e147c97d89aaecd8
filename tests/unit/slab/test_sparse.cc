/* SPDX-License-Identifier: MIT */
/* features/idle/sparse.c: free pages of slabs that are in use belong to the budget. */
#include <gtest/gtest.h>
#include <map>
#include <vector>

#include "all_lists.h"
#include "clock.h"

extern "C" {

static std::vector<uintptr_t> purged;
static bool is_refused;
int __real_os_purge(void *start, size_t bytes);

/* The linker sends the library's calls here (--wrap). */
int __wrap_os_purge(void *start, size_t bytes)
{
	purged.push_back((uintptr_t)start);
	return is_refused ? -EINVAL : __real_os_purge(start, bytes);
}

} /* extern "C" */

namespace {

constexpr unsigned CALLS = 16;		/* PURGE_CALLS of budget.c */
constexpr uint64_t SECOND = 1000000000;
constexpr size_t MiB = 1ul << 20;

class sparse : public all_lists {
protected:
	/* What lies in the list of another CPU would leave pages whose objects are all free. */
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
		if (SLUB_CONFIG_HARDENED)
			GTEST_SKIP() << "the hardened build knows free objects by their link";
		if (os_page_size() != PAGE_BYTES)
			GTEST_SKIP() << "the system's pages are larger";
		page_set_sparse_hook(sparse_purge);
		clock_step_ns = 1000;
		is_refused = false;
		start_anew();
	}
	void TearDown() override
	{
		for (auto &[cache, objects] : kept)
			for (void *object : objects)
				cache_free(cache, object);
		kept.clear();
		shrink_fully();
	}
	/* No regret, nothing idle, and nobody has looked. */
	static void start_anew()
	{
		shrink_fully();
		now_ns += 100 * SECOND;
		page_purge_if_needed();
		purged.clear();
	}
	/* One in @of of @bytes in all stays; the others lie in slabs, and the cache has looked. */
	struct slub_cache *leave(uint32_t size, size_t bytes, size_t of)
	{
		struct slub_cache *cache = test_cache(size);
		std::vector<void *> mine;

		for (size_t i = 0; i < bytes / size; i++) {
			mine.push_back(cache_alloc(cache));
			memset(mine.back(), 1, size);
		}
		for (size_t i = 0; i < mine.size(); i++) {
			if (i % of == of / 2)
				kept[cache].push_back(mine[i]);
			else
				cache_free(cache, mine[i]);
		}
		purged.clear();
		return cache;
	}
	static void flush_all()
	{
		slab_shrink_all();
		page_purge_all();
		purged.clear();
		now_ns += SECOND;
	}
	/* A call each hundredth of a second, until one gives something back: caches must rest. */
	static size_t purge_once()
	{
		size_t pages = 0;

		for (int i = 0; i < 20 && !pages; i++) {
			size_t before = purged.size();

			now_ns += SECOND / 100;
			pages = page_purge_if_needed();
			EXPECT_LE(purged.size() - before, CALLS);
		}
		return pages;
	}
	/* Until none does. */
	static size_t purge()
	{
		size_t pages = 0, more;

		while ((more = purge_once()) != 0)
			pages += more;
		return pages;
	}
	std::map<struct slub_cache *, std::vector<void *>> kept;
};

/* 16 MiB of which each slab has one object: 7 of 8 pages are free. */
TEST_F(sparse, the_account_knows_what_is_free)
{
	size_t before = size_read(&page_nr_sparse);

	leave(1024, 16 * MiB, 32);
	slab_shrink_all();
	size_t pages = size_read(&page_nr_sparse) - before;
	EXPECT_GE(pages, 3000u) << "3,584 are";
	EXPECT_LE(pages, 4096u);
	EXPECT_EQ(page_purge_if_needed(), 0u) << "it was at work just now";
	EXPECT_GT(purge_once(), 0u) << "more than an eighth of what is used";
}

TEST_F(sparse, a_call_has_a_bound_and_all_calls_come_to_an_end)
{
	leave(1024, 32 * MiB, 32);
	size_t full = harness::resident_bytes(), used = page_used_bytes();

	flush_all();
	size_t pages = purge();
	EXPECT_GE(pages, 24 * MiB / PAGE_BYTES) << "of 28 MiB";
	EXPECT_LE(harness::resident_bytes(), full - 24 * MiB);
	EXPECT_LE(page_used_bytes(), used - 24 * MiB) << "what went back is not in use";
	size_t calls = purged.size();
	EXPECT_EQ(purge(), 0u);
	EXPECT_EQ(purged.size(), calls) << "there is no more";
}

TEST_F(sparse, large_objects_are_pages_too)
{
	struct slub_cache *cache = leave(16384, 32 * MiB, 10);

	ASSERT_FALSE(link_is_in_object(cache->link));
	/* Its frees have given most of it back by then: a look at such a slab costs little. */
	flush_all();
	purge();
	size_t used = page_used_bytes();
	EXPECT_LE(used, 8 * MiB);
	/* All of it is used again, and regretted. */
	size_t budget = page_budget();
	for (size_t i = 0; i < 24 * MiB / 16384; i++)
		kept[cache].push_back(cache_alloc(cache));
	EXPECT_GE(page_budget(), budget + 8 * MiB);
	EXPECT_GE(page_used_bytes(), used + 20 * MiB) << "and it counts again";
	check_cache(cache, kept[cache]);
}

/* A program that fills and empties the same slabs keeps them from the second time on. */
TEST_F(sparse, what_is_soon_wanted_again_is_regretted)
{
	struct slub_cache *cache = leave(1024, 16 * MiB, 32);

	flush_all();
	size_t budget = page_budget();
	ASSERT_GE(purge(), 8 * MiB / PAGE_BYTES);
	for (size_t i = 0; i < 12 * MiB / 1024; i++)
		kept[cache].push_back(cache_alloc(cache));
	EXPECT_GE(page_budget(), budget + 4 * MiB);
}

/* What went back from slabs would not have served a cache of another size. */
TEST_F(sparse, other_memory_is_no_reason_for_regret)
{
	leave(1024, 16 * MiB, 32);
	flush_all();
	ASSERT_GE(purge(), 8 * MiB / PAGE_BYTES);
	size_t budget = page_budget(), used = page_used_bytes();
	struct slub_cache *other = test_cache(2048);

	for (size_t i = 0; i < 16 * MiB / 2048; i++)
		kept[other].push_back(cache_alloc(other));
	EXPECT_LE(page_budget(), budget + (page_used_bytes() - used) / 8 + MiB);
}

TEST_F(sparse, the_emptiest_come_first)
{
	struct slub_cache *fuller = leave(1024, 16 * MiB, 6);
	struct slub_cache *emptier = leave(1024, 16 * MiB, 64);

	flush_all();
	ASSERT_GT(purge_once(), 0u);
	for (uintptr_t start : purged)
		EXPECT_EQ(cache_of((void *)start), emptier);
	purge();
	size_t of_fuller = 0;
	for (uintptr_t start : purged)
		of_fuller += cache_of((void *)start) == fuller;
	EXPECT_GT(of_fuller, 0u) << "and then the others";
}

/* The objects of each page are in use, though most are free: a few looks tell. */
TEST_F(sparse, a_round_in_vain_ends)
{
	struct slub_cache *cache = test_cache(512);
	std::vector<void *> mine;

	for (size_t i = 0; i < 16 * MiB / 512; i++)
		mine.push_back(cache_alloc(cache));
	for (void *object : mine) {
		if ((uintptr_t)object % PAGE_BYTES / 512 == 3)
			kept[cache].push_back(object);
		else
			cache_free(cache, object);
	}
	flush_all();
	size_t looked = cache->nodes[0]->nr_partial, seen = 0;
	EXPECT_EQ(purge(), 0u);
	EXPECT_EQ(purged.size(), 0u);
	for (struct list *i = cache->nodes[0]->partial.next; i != &cache->nodes[0]->partial;
	     i = i->next)
		seen += *page_looked(container_of(i, struct page, list)) != 0;
	EXPECT_LE(seen, looked / 4) << "not at all slabs";
	EXPECT_EQ(size_read(&cache->sparse_pages), 0u);
	check_cache(cache, kept[cache]);
}

/* Objects that come and go: each would fault its page again. */
TEST_F(sparse, a_cache_at_work_is_left_alone)
{
	struct slub_cache *cache = leave(1024, 16 * MiB, 32);

	slab_shrink_all();
	purged.clear();
	for (int i = 0; i < 20; i++) {
		kept[cache].push_back(cache_alloc(cache));
		slab_shrink_all();	/* the rest of its list goes to slabs */
		page_purge_if_needed();
		now_ns += 100000;
	}
	EXPECT_EQ(purged.size(), 0u);
	EXPECT_GT(purge(), 0u);
}

/* What the kernel does not take is not asked for again and again. */
TEST_F(sparse, a_refusal_is_remembered)
{
	struct slub_cache *cache = leave(1024, 16 * MiB, 32);

	flush_all();
	is_refused = true;
	for (int i = 0; i < 1000; i++) {
		now_ns += i < 20 ? SECOND / 100 : 100;
		page_purge_if_needed();
	}
	EXPECT_GT(purged.size(), 0u);
	size_t calls = purged.size();
	EXPECT_LE(calls, 20 * CALLS);
	is_refused = false;
	check_cache(cache, kept[cache]);
}

TEST_F(sparse, what_a_constructor_made_stays)
{
	static struct slub_cache cache;

	ASSERT_EQ(cache_create(&cache, "constructed-sparse", 2032), 0);
	cache.ctor = [](void *object) { memset(object, 0x5a, 2032); };
	std::vector<void *> mine;
	for (int i = 0; i < 8192; i++)
		mine.push_back(cache_alloc(&cache));
	for (size_t i = 0; i < mine.size(); i++)
		if (i % 16)
			cache_free(&cache, mine[i]);
	flush_all();
	purge();
	EXPECT_EQ(purged.size(), 0u);
	EXPECT_EQ(size_read(&cache.sparse_pages), 0u);
	for (size_t i = 0; i < mine.size(); i += 16)
		cache_free(&cache, mine[i]);
}

} /* namespace */
