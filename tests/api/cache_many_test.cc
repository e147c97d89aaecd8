/* SPDX-License-Identifier: MIT */
/*
 * Promise: there are caches for thousands of tenants, all of them work alike, and who wants more
 * than there can be hears ENOSPC from each call that would make one.
 */
#include <malloc.h>
#include <set>
#include <thread>

#include <slub/slub.h>

#include "api.h"

namespace {

/* What slub/cache.h says, less what this process may have already. */
const size_t NR_MIN = getenv("SLUB_GUARD") || getenv("SLUB_DEBUG") ? 7900 : 15900;

class many : public testing::Test {
protected:
	std::vector<struct slub_cache *> caches;
	size_t nr_made = 0;

	/* Makes caches until there are no more, or @most; returns the errno of the last. */
	int fill(size_t size, void (*ctor)(void *) = nullptr, size_t most = SIZE_MAX,
		 unsigned long flags = 0)
	{
		for (errno = 0; most--; nr_made++) {
			auto name = "many-" + std::to_string(nr_made);
			struct slub_cache *cache =
				slub_cache_create(name.c_str(), size, 0,
						  flags | SLUB_CACHE_NO_MERGE, ctor);

			if (!cache)
				return errno;
			caches.push_back(cache);
		}
		return 0;
	}
	/* Every @step-th of them ends. */
	void end(size_t step)
	{
		std::vector<struct slub_cache *> stay;

		for (size_t i = 0; i < caches.size(); i++) {
			if (i % step)
				stay.push_back(caches[i]);
			else
				ASSERT_EQ(slub_cache_destroy(caches[i]), 0) << i;
		}
		caches.swap(stay);
	}
	void TearDown() override
	{
		end(1);
	}
};

void constructed(void *object)
{
	*(uint32_t *)object = 0x600d;
}

TEST_F(many, more_than_there_can_be_are_an_errno_of_their_own)
{
	ASSERT_EQ(fill(64), ENOSPC);
	EXPECT_GE(caches.size(), NR_MIN);
	size_t all = caches.size();
	/* Half of them end, and as many can be made, of any kind. */
	end(2);
	EXPECT_EQ(fill(64), ENOSPC);
	EXPECT_EQ(caches.size(), all);
	end(2);
	EXPECT_EQ(fill(8, constructed), ENOSPC);
	EXPECT_GE(caches.size(), NR_MIN);
	end(2);
	EXPECT_EQ(fill(5000), ENOSPC);
	EXPECT_GE(caches.size(), NR_MIN);
}

/* It needs a cache for buckets. */
TEST_F(many, so_the_first_bucket_of_a_process)
{
	EXPECT_EQ(harness::in_child([&] {
		int failed = fill(64) == ENOSPC ? 0 : 1;

		errno = 0;
		failed |= !slub_bucket_create("first", 0) && errno == ENOSPC ? 0 : 2;
		_exit(failed);
	}), 0);
}

TEST_F(many, what_needs_one_more_says_so)
{
	slub_bucket *before = slub_bucket_create("before", 0);

	ASSERT_NE(before, nullptr);
	ASSERT_EQ(fill(64), ENOSPC);
	errno = 0;
	EXPECT_EQ(slub_bucket_alloc(before, 100), nullptr);
	EXPECT_EQ(errno, ENOSPC);
	/* malloc's classes have slots in reserve for samples. */
	EXPECT_EQ(slub_profile_start(4096), 0);
	/* The first pool needs a cache for pools. */
	errno = 0;
	EXPECT_EQ(slub_mempool_create_malloc(3, 100), nullptr);
	EXPECT_EQ(errno, ENOSPC);
	for (size_t size = 1; size < 40000; size += size / 8 + 1) {
		void *block = malloc(size);

		ASSERT_NE(block, nullptr) << size;
		memset(block, 1, size);
		free(block);
	}
	EXPECT_EQ(slub_profile_stop(), 0);
	end(100);
	void *block = slub_bucket_alloc(before, 100);
	EXPECT_NE(block, nullptr);
	free(block);
	slub_mempool *pool = slub_mempool_create_malloc(3, 100);
	EXPECT_NE(pool, nullptr);
	slub_mempool_destroy(pool);
	EXPECT_EQ(slub_bucket_destroy(before), 0);
}

/* All ways to allocate and free, from those first made to the last. */
void use(struct slub_cache *cache, bool has_ctor)
{
	void *objects[40];

	for (int way = 0; way < 6; way++) {
		std::set<void *> seen;

		if (way == 4) {
			ASSERT_EQ(slub_cache_alloc_bulk(cache, 0, std::size(objects), objects),
				  (int)std::size(objects));
		}
		for (void *&object : objects) {
			if (way != 4)
				object = way % 2 ? slub_cache_alloc_flags(cache, 0) :
						   slub_cache_alloc(cache);
			ASSERT_NE(object, nullptr);
			ASSERT_TRUE(seen.insert(object).second) << "the same object twice";
			ASSERT_EQ(slub_cache_of(object), cache);
			if (has_ctor) {
				ASSERT_EQ(*(uint32_t *)object, 0x600du);
			} else {
				memset(object, way, slub_cache_size(cache));
			}
		}
		for (size_t i = 0; i < std::size(objects) && way < 5; i++) {
			if (way < 2)
				slub_cache_free(cache, objects[i]);
			else if (way < 4)
				free(objects[i]);
		}
		if (way == 4)
			slub_cache_free_bulk(cache, std::size(objects), objects);
	}
	/* The last forty by another thread. */
	std::thread([&] {
		for (void *object : objects)
			free(object);
	}).join();
}

TEST_F(many, all_of_them_work_alike)
{
	const size_t NR = 4000;

	ASSERT_EQ(fill(96, nullptr, NR), 0);
	ASSERT_EQ(fill(24, constructed, NR), 0);
	ASSERT_EQ(fill(6000, nullptr, 20), 0);
	for (size_t i = 0; i < caches.size(); i += i % NR < 60 || i > 2 * NR ? 1 : 97)
		use(caches[i], i >= NR && i < 2 * NR);
	use(caches.back(), false);
	for (size_t i : { (size_t)0, NR - 1, NR, 2 * NR - 1, caches.size() - 1 }) {
		EXPECT_EQ(slub_cache_find(("many-" + std::to_string(i)).c_str()), caches[i]);
		errno = 0;
		EXPECT_EQ(slub_cache_create(("many-" + std::to_string(i)).c_str(), 8, 0, 0,
					    nullptr), nullptr);
		EXPECT_EQ(errno, EEXIST);
	}
	size_t nr = 0;
	auto count = [](struct slub_cache *, void *arg) { return ++*(size_t *)arg, 0; };
	EXPECT_EQ(slub_cache_for_each(count, &nr), 0);
	EXPECT_GE(nr, caches.size());
}

size_t usage(slub_group *group)
{
	struct slub_group_stats stats;

	EXPECT_EQ(slub_group_stats(group, &stats), 0);
	return stats.usage;
}

/* Also of malloc's blocks, whose accounted classes come to live beyond all others. */
TEST_F(many, groups_are_charged_for_all_of_them)
{
	const size_t NR = 2500;
	std::vector<void *> objects;

	objects.reserve(NR);	/* not charged to the group */
	ASSERT_EQ(fill(200, nullptr, NR, SLUB_CACHE_ACCOUNT), 0);
	slub_group *group = slub_group_create("of-many", nullptr);
	ASSERT_NE(group, nullptr);
	ASSERT_EQ(slub_group_enter(group), 0);
	for (size_t round = 0; round < 3; round++) {
		size_t before = usage(group);

		for (size_t i = 0; i < NR; i += 50) {
			objects.push_back(slub_cache_alloc(caches[i]));
			objects.push_back(malloc(i * 4 % 9000 + 1));
			ASSERT_NE(objects.back(), nullptr);
		}
		EXPECT_GE(usage(group), before + NR / 50 * 200);
		for (void *object : objects)
			free(object);
		objects.clear();
	}
	ASSERT_EQ(slub_group_leave(group), 0);
	malloc_trim(0);
	EXPECT_EQ(usage(group), 0u);
	EXPECT_EQ(slub_group_destroy(group), 0);
}

TEST_F(many, a_trim_empties_the_lists_of_all)
{
	const size_t NR = 3000;

	ASSERT_EQ(fill(512, nullptr, NR), 0);
	for (struct slub_cache *cache : caches) {
		void *object = slub_cache_alloc(cache);

		ASSERT_NE(object, nullptr);
		slub_cache_free(cache, object);
	}
	malloc_trim(0);
	for (size_t i = 0; i < caches.size(); i++) {
		struct slub_cache_stats stats;

		ASSERT_EQ(slub_cache_stats(caches[i], &stats), 0);
		ASSERT_EQ(stats.slabs, 0u) << i;
	}
}

/* A bucket for each tenant, with blocks of one size. */
TEST_F(many, ten_thousand_buckets)
{
	std::vector<slub_bucket *> buckets;
	std::set<void *> blocks;

	for (int i = 0; i < 10000; i++) {
		auto name = "tenant-" + std::to_string(i);
		slub_bucket *bucket = slub_bucket_create(name.c_str(), 0);

		ASSERT_NE(bucket, nullptr);
		buckets.push_back(bucket);
		void *block = slub_bucket_alloc(bucket, 100);
		ASSERT_NE(block, nullptr) << i;
		ASSERT_TRUE(blocks.insert(block).second);
		/* A block of one that has ended does not go to the next. */
		if (i % 7 == 0) {
			free(block);
			blocks.erase(block);
			ASSERT_EQ(slub_bucket_destroy(bucket), 0);
			buckets.pop_back();
			errno = 0;
		}
	}
	EXPECT_EQ(slub_bucket_create("tenant-9999", 0), nullptr);
	EXPECT_EQ(errno, EEXIST);
	void *large = slub_bucket_alloc(buckets.back(), 100000);
	EXPECT_EQ(slub_bucket_destroy(buckets.front()), -EBUSY);
	for (void *block : blocks)
		free(block);
	EXPECT_EQ(slub_bucket_destroy(buckets.back()), -EBUSY) << "a large one is left";
	free(large);
	for (slub_bucket *bucket : buckets)
		ASSERT_EQ(slub_bucket_destroy(bucket), 0);
}

TEST_F(many, a_child_has_them_too)
{
	ASSERT_EQ(fill(64, nullptr, 3000), 0);
	void *object = slub_cache_alloc(caches.back());
	EXPECT_EQ(harness::in_child([&] {
		slub_cache_free(caches.back(), object);
		use(caches.back(), false);
		_exit(HasFailure() || slub_cache_destroy(caches.back()) ||
		      fill(64, nullptr, 3000));
	}), 0);
	free(object);
}

/* Where each comes to live is not asked by their users: what a list had is gone with its cache. */
TEST_F(many, a_new_one_has_nothing_of_the_old)
{
	ASSERT_EQ(fill(64, nullptr, 2500), 0);
	for (int round = 0; round < 3; round++) {
		for (struct slub_cache *cache : caches)
			slub_cache_free(cache, slub_cache_alloc(cache));
		end(2);
		ASSERT_EQ(fill(round ? 200 : 64, round == 1 ? constructed : nullptr,
			       2500 - caches.size()), 0);
		for (size_t i = 1250; i < caches.size(); i += 50)
			use(caches[i], round == 1);
	}
}

} /* namespace */
