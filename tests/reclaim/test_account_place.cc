/* SPDX-License-Identifier: MIT */
/* Which memory a group's objects keep; caches and buckets that are in a group by themselves. */
#include <slub/bucket.h>

#include <atomic>
#include <cstdlib>
#include <set>
#include <thread>
#include <vector>

#include "account.h"

namespace {

using AccountMemory = Account;
using AccountPlace = Account;

struct slub_group_memory memory_of(slub_group *group)
{
	struct slub_group_memory memory = {};

	EXPECT_EQ(slub_group_memory(group, &memory), 0);
	return memory;
}

TEST_F(AccountMemory, CountsWhatIsCharged)
{
	slub_group *child = slub_group_create("child", group);
	std::vector<void *> blocks;
	size_t bytes = 0, large = 0;

	blocks.reserve(300);
	for (slub_group *g : { group, child }) {
		Inside inside(g);
		for (size_t i = 0; i < 100; i++)
			blocks.push_back(malloc(1 + i * 97));
		blocks.push_back(malloc(100000));
	}
	for (void *block : blocks) {
		if (malloc_usable_size(block) >= 100000)
			large += charge_of(block);
		else
			bytes += charge_of(block);
	}
	struct slub_group_memory all = memory_of(group), below = memory_of(child);
	EXPECT_EQ(all.objects, 200u);
	EXPECT_EQ(all.object_bytes, bytes);
	EXPECT_EQ(all.large_blocks, 2u);
	EXPECT_EQ(all.large_bytes, large);
	EXPECT_EQ(below.objects, 100u);
	EXPECT_EQ(below.large_blocks, 1u);
	EXPECT_EQ(all.object_bytes + all.large_bytes, usage(group));
	EXPECT_GE(all.slab_bytes, all.share_bytes);
	EXPECT_GE(all.share_bytes, all.object_bytes);
	/* One for each size at the least, and each of a page or more. */
	std::set<size_t> sizes;
	for (void *block : blocks) {
		if (malloc_usable_size(block) < 100000)
			sizes.insert(charge_of(block));
	}
	EXPECT_GE(all.slabs, sizes.size());
	EXPECT_LE(all.slabs * 4096, all.slab_bytes);
	/* Both are on each slab: they pin all of it, and have a half each. */
	EXPECT_LT(below.share_bytes, below.slab_bytes);
	for (void *block : blocks)
		free(block);
	all = memory_of(group);
	EXPECT_EQ(all.objects, 0u);
	EXPECT_EQ(all.slab_bytes, 0u);
	EXPECT_EQ(all.slabs, 0u);
	EXPECT_EQ(slub_group_destroy(child), 0);
	EXPECT_EQ(slub_group_memory(child, &all), -EINVAL);
}

/* Trimming takes whole free pages out of slabs, so the last objects are not the last carved. */
TEST_F(AccountMemory, CountsWhatLiesBehindHoles)
{
	std::vector<void *> kept, freed;

	kept.reserve(2000);
	freed.reserve(2000);
	{
		Inside inside(group);
		for (int i = 0; i < 2000; i++)
			(i % 32 == 25 ? kept : freed).push_back(malloc(1000));
	}
	for (void *block : freed)
		free(block);
	malloc_trim(0);
	struct slub_group_memory memory = memory_of(group);
	EXPECT_EQ(memory.objects, kept.size());
	EXPECT_EQ(memory.object_bytes, usage(group));
	for (void *block : kept)
		free(block);
}

void construct(void *object) { *(int *)object = 1; }

TEST_F(AccountPlace, ACacheInAGroupChargesIt)
{
	for (auto ctor : { (void (*)(void *)) nullptr, construct }) {
		slub_cache *cache = slub_cache_create("placed", 100, 0, SLUB_CACHE_ACCOUNT, ctor);
		slub_group *other = slub_group_create("other", nullptr);
		void *objects[20], *before;
		{
			Inside inside(other);
			before = slub_cache_alloc(cache);
			ASSERT_EQ(slub_cache_group_set(cache, group), 0);
			for (int i = 0; i < 10; i++)
				objects[i] = slub_cache_alloc(cache);
		}
		ASSERT_EQ(slub_cache_alloc_bulk(cache, 0, 10, objects + 10), 10u);
		EXPECT_EQ(usage(group), 2000u);
		EXPECT_EQ(usage(other), 100u);	/* stays where it was */
		slub_cache_free(cache, before);
		for (void *object : objects)
			slub_cache_free(cache, object);
		EXPECT_EQ(usage(other), 0u);
		/* Back to who allocates. */
		ASSERT_EQ(slub_cache_group_set(cache, nullptr), 0);
		{
			Inside inside(other);
			before = slub_cache_alloc(cache);
		}
		EXPECT_EQ(usage(other), 100u);
		EXPECT_EQ(usage(group), 0u);
		slub_cache_free(cache, before);
		EXPECT_EQ(slub_group_destroy(other), 0);
		EXPECT_EQ(slub_cache_destroy(cache), 0);
	}
}

TEST_F(AccountPlace, ItsMaximumHolds)
{
	slub_cache *cache = slub_cache_create("bounded", 1000, 0, SLUB_CACHE_ACCOUNT, nullptr);
	std::vector<void *> objects;

	objects.reserve(100);
	ASSERT_EQ(slub_group_limit_set(group, SLUB_GROUP_MAX, 50000), 0);
	ASSERT_EQ(slub_cache_group_set(cache, group), 0);
	while (void *object = slub_cache_alloc(cache))
		objects.push_back(object);
	EXPECT_EQ(errno, ENOMEM);
	EXPECT_EQ(objects.size(), 50u);
	for (void *object : objects)
		slub_cache_free(cache, object);
	EXPECT_EQ(slub_cache_destroy(cache), 0);
}

TEST_F(AccountPlace, ABucketTakesItsClassesAndLargeBlocksAlong)
{
	slub_bucket *bucket = slub_bucket_create("placed-bucket", SLUB_CACHE_ACCOUNT);
	void *first = slub_bucket_alloc(bucket, 100);

	ASSERT_EQ(slub_bucket_group_set(bucket, group), 0);
	std::vector<void *> blocks;
	for (size_t bytes : { (size_t)100, (size_t)3000, (size_t)9000, (size_t)300000 })
		blocks.push_back(slub_bucket_alloc(bucket, bytes));
	size_t sum = 0;
	for (void *block : blocks)
		sum += charge_of(block);
	EXPECT_EQ(usage(group), sum);
	for (void *block : blocks)
		slub_bucket_free(bucket, block);
	slub_bucket_free(bucket, first);
	EXPECT_EQ(slub_bucket_destroy(bucket), 0);
}

TEST_F(AccountPlace, WhenTheGroupEndsItsParentTakesItsPlace)
{
	slub_group *child = slub_group_create("child", group);
	slub_cache *cache = slub_cache_create("orphan", 64, 0, SLUB_CACHE_ACCOUNT, nullptr);

	ASSERT_EQ(slub_cache_group_set(cache, child), 0);
	void *before = slub_cache_alloc(cache);
	EXPECT_EQ(slub_group_destroy(child), 0);
	void *after = slub_cache_alloc(cache);
	EXPECT_EQ(usage(group), 128u);
	slub_cache_free(cache, before);
	slub_cache_free(cache, after);
	EXPECT_EQ(slub_cache_destroy(cache), 0);
}

TEST_F(AccountPlace, WhatCannotBeMovedIsRefused)
{
	slub_cache *plain = slub_cache_create("plain", 64, 0, 0, nullptr);
	slub_bucket *bucket = slub_bucket_create("plain-bucket", 0);
	slub_cache *cache = slub_cache_create("account", 64, 0, SLUB_CACHE_ACCOUNT, nullptr);

	EXPECT_EQ(slub_cache_group_set(plain, group), -EINVAL);
	EXPECT_EQ(slub_cache_group_set(nullptr, group), -EINVAL);
	EXPECT_EQ(slub_cache_group_set(cache, (slub_group *)plain), -EINVAL);
	EXPECT_EQ(slub_bucket_group_set(bucket, group), -EINVAL);
	EXPECT_EQ(slub_bucket_group_set(nullptr, group), -EINVAL);
	slub_cache_destroy(plain);
	slub_cache_destroy(cache);
	slub_bucket_destroy(bucket);
}

/* Threads allocate and free while the cache goes from group to group, and groups end. */
TEST_F(AccountPlace, MovingBesideThreadsLosesNothing)
{
	slub_cache *cache = slub_cache_create("restless", 80, 0, SLUB_CACHE_ACCOUNT, nullptr);
	std::atomic<bool> stop{ false };
	std::vector<std::thread> threads;

	for (int t = 0; t < 4; t++)
		threads.emplace_back([&, t] {
			std::vector<void *> mine(64);
			harness::Random random(t + 1);

			while (!stop) {
				void *&place = mine[random.below(mine.size())];

				slub_cache_free(cache, place);
				place = slub_cache_alloc(cache);
			}
			for (void *object : mine)
				slub_cache_free(cache, object);
		});
	for (int i = 0; i < 30; i++) {
		slub_group *child = slub_group_create("child", group);

		EXPECT_EQ(slub_cache_group_set(cache, child), 0);
		std::this_thread::yield();
		EXPECT_EQ(slub_cache_group_set(cache, i % 3 ? group : nullptr), 0);
		EXPECT_EQ(slub_group_destroy(child), 0);
	}
	stop = true;
	for (auto &thread : threads)
		thread.join();
	EXPECT_EQ(usage(group), 0u);
	EXPECT_EQ(memory_of(slub_group_root()).objects, 0u);
	EXPECT_EQ(slub_cache_destroy(cache), 0);
}

/* A thread's bytes in advance put the counter above the maximum; no block ever was there. */
TEST_F(Account, APeakIsNotAboveTheMaximum)
{
	constexpr size_t max = 555 << 10;
	struct slub_group_stats stats = {};
	std::vector<void *> blocks;
	uint32_t chance = 1;

	blocks.reserve(100000);
	ASSERT_EQ(slub_group_limit_set(group, SLUB_GROUP_MAX, max), 0);
	for (int round = 0; round < 200; round++) {
		Inside inside(group);

		while (blocks.size() < blocks.capacity()) {
			chance = chance * 1103515245 + 12345;
			void *block = malloc(chance >> 16 & 3 ? 16 + (chance >> 8) % 300 :
							   1000 + (chance >> 8) % 9000);
			if (!block)
				break;
			blocks.push_back(block);
		}
		for (void *block : blocks)
			free(block);
		blocks.clear();
	}
	ASSERT_EQ(slub_group_stats(group, &stats), 0);
	EXPECT_LE(stats.peak, max);
	EXPECT_GT(stats.peak, max - (64 << 10));
	EXPECT_GT(stats.failures, 0u);
}

} /* namespace */
