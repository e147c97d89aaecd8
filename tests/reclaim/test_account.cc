/* SPDX-License-Identifier: MIT */
/*
 * What malloc and caches with SLUB_CACHE_ACCOUNT charge to groups: to the byte, whoever
 * frees it.
 */
#include <slub/bucket.h>
#include <slub/debug.h>
#include <slub/defrag.h>
#include <slub/profile.h>
#include <slub/rcu.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>
#include <vector>

#include "account.h"

extern "C" void free_sized(void *ptr, size_t bytes);

namespace {

const std::array<size_t, 17> SIZES = { 0,    1,    16,    17,    100,   128,    129,    1000,  4095,
				       4096, 4097, 10000, 32768, 32769, 100000, 300000, 5000000 };

TEST_F(Account, MallocIsChargedWithTheSizeOfItsClass)
{
	for (size_t bytes : SIZES) {
		void *block = in_group([&] { return malloc(harness::opaque(bytes)); });
		ASSERT_NE(block, nullptr);
		EXPECT_EQ(usage(group), charge_of(block)) << bytes;
		EXPECT_GE(charge_of(block), bytes);
		free(block);
		EXPECT_EQ(usage(group), 0u) << bytes;
	}
}

/* A length out of a broken file: not the peak, and not more than the counters hold. */
TEST_F(Account, WhatCanNeverBeHadIsNotCharged)
{
	slub_bucket *bucket = slub_bucket_create("impossible", SLUB_CACHE_ACCOUNT);
	struct slub_group_stats stats = {};

	ASSERT_NE(bucket, nullptr);
	for (size_t bytes : { (size_t)1 << 50, (size_t)1 << 62, (size_t)PTRDIFF_MAX }) {
		Inside inside(group);

		free(malloc(100));
		EXPECT_EQ(malloc(harness::opaque(bytes)), nullptr);
		EXPECT_EQ(slub_bucket_alloc(bucket, harness::opaque(bytes)), nullptr);
		free(malloc(100));
	}
	EXPECT_EQ(slub_group_stats(group, &stats), 0);
	EXPECT_LT(stats.peak, (size_t)64 << 20);
	EXPECT_EQ(stats.usage, 0u);
	EXPECT_EQ(slub_bucket_destroy(bucket), 0);
}

TEST_F(Account, EveryWayToAllocateAndToFree)
{
	std::vector<void *> blocks;
	size_t sum = 0;

	blocks.reserve(100);
	auto keep = [&](void *block) {
		blocks.push_back(block);
		return block;
	};
	for (size_t bytes : { (size_t)40, (size_t)3000, (size_t)20000, (size_t)70000 }) {
		Inside inside(group);
		void *aligned = nullptr;

		keep(calloc(3, bytes));
		keep(realloc(nullptr, bytes));
		keep(reallocarray(nullptr, 2, bytes));
		keep(aligned_alloc(64, bytes));
		keep(memalign(4096, bytes));
		keep(memalign(65536, bytes));
		EXPECT_EQ(posix_memalign(&aligned, 256, bytes), 0);
		keep(aligned);
		keep(valloc(bytes));
		keep(pvalloc(bytes));
		keep(::operator new(bytes));
		keep(::operator new[](bytes));
		keep(::operator new(bytes, std::nothrow));
		keep(::operator new(bytes, std::align_val_t(128)));
	}
	for (void *block : blocks) {
		ASSERT_NE(block, nullptr);
		sum += charge_of(block);
	}
	EXPECT_EQ(usage(group), sum);
	for (size_t i = 0; i < blocks.size(); i++) {
		sum -= charge_of(blocks[i]);
		switch (i % 5) {
		case 0:
			free(blocks[i]);
			break;
		case 1:
			slub_free(blocks[i]);
			break;
		case 2:
			::operator delete(blocks[i], (size_t)1);
			break;
		case 3:
			free_sized(blocks[i], 1);
			break;
		case 4:
			slub_cache_free_bulk(nullptr, 1, &blocks[i]);
		}
		EXPECT_EQ(usage(group), sum) << i;
	}
}

TEST_F(Account, CallocIsZeroAlsoWhereMemoryIsUsedAgain)
{
	Inside inside(group);

	for (int round = 0; round < 3; round++) {
		for (size_t bytes : { (size_t)100, (size_t)5000, (size_t)200000 }) {
			char *block = (char *)calloc(1, bytes);
			size_t damage = harness::first_nonzero(block, bytes);

			memset(block, 0x55, bytes);
			free(block);
			if (damage != bytes)
				FAIL() << bytes;
		}
	}
}

TEST_F(Account, ReallocFollowsTheBlock)
{
	void *block = in_group([] { return malloc(100); });
	size_t before = usage(group);

	/* In place: still the group's, whoever calls. */
	block = realloc(block, 99);
	if (!getenv("SLUB_DEBUG")) {	/* else it always moves */
		EXPECT_EQ(usage(group), before);
	}
	for (size_t bytes : SIZES) {
		if (!bytes)
			continue;
		block = in_group([&] { return realloc(block, bytes); });
		ASSERT_NE(block, nullptr);
		EXPECT_EQ(usage(group), charge_of(block)) << bytes;
	}
	for (size_t bytes : { (size_t)4000000, (size_t)9000000, (size_t)40000, (size_t)10 }) {
		block = in_group([&] { return realloc(block, bytes); });
		EXPECT_EQ(usage(group), charge_of(block)) << bytes;
	}
	/* It moves, by a thread that is in no group. */
	block = realloc(block, 30000);
	EXPECT_EQ(usage(group), 0u);
	/* And the other way round. */
	block = in_group([&] { return realloc(block, 300); });
	EXPECT_EQ(usage(group), charge_of(block));
	free(block);
}

TEST_F(Account, TheChargeFollowsItsObject)
{
	slub_group *other = slub_group_create("other", nullptr);
	std::vector<void *> blocks;

	blocks.reserve(3000);
	{
		Inside inside(group);
		for (int i = 0; i < 3000; i++)
			blocks.push_back(malloc(1 + i % 600));
	}
	size_t sum = 0;
	for (void *block : blocks)
		sum += charge_of(block);
	EXPECT_EQ(usage(group), sum);
	EXPECT_EQ(usage(other), 0u);
	for (int i = 0; i < 1000; i++)	/* from no group */
		free(blocks[i]);
	std::thread([&] {	/* another thread in another group */
		Inside inside(other);
		for (int i = 1000; i < 2000; i++)
			free(blocks[i]);
	}).join();
	sum = 0;
	for (int i = 2000; i < 3000; i++)
		sum += charge_of(blocks[i]);
	EXPECT_EQ(usage(group), sum);
	EXPECT_EQ(usage(other), 0u);
	{
		Inside inside(other);
		Inside nested(group);
		for (int i = 2000; i < 2500; i++)
			free(blocks[i]);
	}
	std::thread([&] {
		for (int i = 2500; i < 3000; i++)
			free(blocks[i]);
	}).join();
	EXPECT_EQ(slub_group_destroy(other), 0);
}

TEST_F(Account, NestedGroupsChargeTheInnermost)
{
	slub_group *inner = slub_group_create("inner", group);
	void *a, *b, *c;

	{
		Inside outside(group);
		a = malloc(1000);
		{
			Inside inside(inner);
			b = malloc(1000);
		}
		c = malloc(1000);
	}
	EXPECT_EQ(usage(inner), charge_of(b));
	EXPECT_EQ(usage(group), charge_of(a) + charge_of(b) + charge_of(c));
	void *outside = malloc(1000);
	EXPECT_EQ(usage(group), charge_of(a) + charge_of(b) + charge_of(c));
	free(outside);
	free(a), free(b), free(c);
	EXPECT_EQ(slub_group_destroy(inner), 0);
}

/* ---- caches ---- */

void construct(void *object) { memset(object, 7, 8); }

TEST_F(Account, CachesWithTheFlagAreChargedOthersAreNot)
{
	struct Kind {
		size_t size, align;
		unsigned long flags;
		void (*ctor)(void *);
	};
	for (Kind kind : { Kind{ 8, 0, 0, nullptr }, Kind{ 24, 0, SLUB_CACHE_HWCACHE_ALIGN,
			nullptr },
			   Kind{ 200, 64, 0, nullptr }, Kind{ 72, 0, 0, construct },
			   Kind{ 72, 0, SLUB_CACHE_TYPESAFE_BY_RCU, nullptr },
			   Kind{ 3000, 0, 0, nullptr }, Kind{ 4096, 4096, 0, nullptr },
			   Kind{ 5000, 0, 0, nullptr }, Kind{ 200000, 0, 0, nullptr } }) {
		slub_cache *cache = slub_cache_create("charged", kind.size, kind.align,
						      kind.flags | SLUB_CACHE_ACCOUNT, kind.ctor);
		slub_cache *plain = slub_cache_create("plain", kind.size, 0, 0, nullptr);
		std::vector<void *> objects(40);

		ASSERT_NE(cache, nullptr);
		{
			Inside inside(group);
			for (size_t i = 0; i < 20; i++)
				objects[i] = slub_cache_alloc(cache);
			ASSERT_EQ(slub_cache_alloc_bulk(cache, 0, 20, &objects[20]), 20u);
			slub_cache_free(plain, slub_cache_alloc(plain));
		}
		void *uncharged = slub_cache_alloc(cache);
		EXPECT_EQ(usage(group), 40 * kind.size);
		EXPECT_EQ(slub_cache_of(objects[3]), cache);
		slub_cache_free(cache, uncharged);
		EXPECT_EQ(usage(group), 40 * kind.size);
		for (size_t i = 0; i < 10; i++)
			slub_cache_free(cache, objects[i]);
		for (size_t i = 10; i < 20; i++)
			free(objects[i]);
		EXPECT_EQ(usage(group), 20 * kind.size);
		slub_cache_free_bulk(cache, 10, &objects[20]);
		for (size_t i = 30; i < 40; i++)
			slub_free_deferred(objects[i]);
		slub_deferred_barrier();
		EXPECT_EQ(usage(group), 0u);
		EXPECT_EQ(slub_cache_destroy(cache), 0);
		EXPECT_EQ(slub_cache_destroy(plain), 0);
	}
}

TEST_F(Account, ObjectsDoNotOverlapTheirOwners)
{
	slub_cache *cache = slub_cache_create("packed", 40, 0, SLUB_CACHE_ACCOUNT, nullptr);
	std::vector<unsigned char *> objects(5000);

	{
		Inside inside(group);
		for (size_t i = 0; i < objects.size(); i++) {
			objects[i] = (unsigned char *)slub_cache_alloc(cache);
			harness::fill(objects[i], 40, i);
		}
	}
	EXPECT_EQ(usage(group), objects.size() * 40);
	for (size_t i = 0; i < objects.size(); i++) {
		ASSERT_TRUE(harness::intact(objects[i], 40, i)) << i;
		slub_cache_free(cache, objects[i]);
	}
	EXPECT_EQ(slub_cache_destroy(cache), 0);
}

TEST_F(Account, BulkIsAllOrNothingAtTheMaximum)
{
	slub_cache *cache = slub_cache_create("bulk", 1000, 0, SLUB_CACHE_ACCOUNT, nullptr);
	std::vector<void *> objects(100);
	size_t got, few;

	ASSERT_EQ(slub_group_limit_set(group, SLUB_GROUP_MAX, 50000), 0);
	{
		Inside inside(group);
		got = slub_cache_alloc_bulk(cache, 0, 51, objects.data());
		few = slub_cache_alloc_bulk(cache, 0, 50, objects.data());
	}
	EXPECT_EQ(got, 0u);
	ASSERT_EQ(few, 50u);
	EXPECT_EQ(usage(group), 50000u);
	slub_cache_free_bulk(cache, 50, objects.data());
	slub_cache_destroy(cache);
}

TEST_F(Account, PrefillIsChargedWhenItIsFilled)
{
	slub_cache *cache = slub_cache_create("prefill", 100, 0, SLUB_CACHE_ACCOUNT, nullptr);
	slub_prefill prefill = {};

	{
		Inside inside(group);
		ASSERT_EQ(slub_cache_prefill(cache, &prefill, 10), 0);
	}
	EXPECT_EQ(usage(group), 1000u);
	slub_cache_free(cache, slub_prefill_alloc(&prefill));
	EXPECT_EQ(usage(group), 900u);
	slub_prefill_return(&prefill);
	EXPECT_EQ(usage(group), 0u);
	slub_cache_destroy(cache);
}

TEST_F(Account, BucketsWithTheFlagAreCharged)
{
	slub_bucket *bucket = slub_bucket_create("charged-bucket", SLUB_CACHE_ACCOUNT);
	slub_bucket *plain = slub_bucket_create("plain-bucket", 0);

	for (size_t bytes : { (size_t)50, (size_t)9000, (size_t)3000000 }) {
		void *block = in_group([&] { return slub_bucket_alloc(bucket, bytes); });
		void *other = in_group([&] { return slub_bucket_alloc(plain, bytes); });

		EXPECT_EQ(usage(group), charge_of(block)) << bytes;
		block = slub_bucket_realloc(bucket, block, 2 * bytes);
		if (bytes > 100000) {	/* moved with its owner */
			EXPECT_EQ(usage(group), charge_of(block)) << bytes;
		}
		slub_bucket_free(bucket, block);
		slub_bucket_free(plain, other);
		EXPECT_EQ(usage(group), 0u) << bytes;
	}
	EXPECT_EQ(slub_bucket_destroy(bucket), 0);
	EXPECT_EQ(slub_bucket_destroy(plain), 0);
}

TEST_F(Account, ASecondFreeGivesNothingBack)
{
	/* With a constructor: frees are not inline. */
	slub_cache *cache = slub_cache_create("twice", 64, 0, SLUB_CACHE_ACCOUNT, construct);
	void *a = in_group([&] { return slub_cache_alloc(cache); });
	void *b = in_group([&] { return slub_cache_alloc(cache); });

	slub_cache_free(cache, a);
	slub_cache_free(cache, b);
	slub_cache_free(cache, a);	/* not the one freed last */
	slub_cache_free(cache, a);
	EXPECT_EQ(usage(group), 0u);
	struct slub_cache_stats stats;
	EXPECT_EQ(slub_cache_stats(cache, &stats), 0);
	EXPECT_EQ(stats.double_free, 2u);
	EXPECT_EQ(slub_cache_destroy(cache), 0);
}

/* ---- charges that stay with free objects in lists ---- */

TEST_F(Account, WhoTakesAnObjectThatAnotherGroupFreedIsCharged)
{
	slub_group *other = slub_group_create("other", nullptr);

	for (size_t bytes : { (size_t)64, (size_t)5000 }) {
		void *block = in_group([&] { return malloc(bytes); });
		size_t charge = charge_of(block);

		free(block);
		{
			Inside inside(other);
			block = malloc(harness::opaque(bytes));
		}
		EXPECT_EQ(usage(other), charge);
		EXPECT_EQ(usage(group), 0u);
		block = in_group([&] { return realloc(block, 3 * bytes); });
		EXPECT_EQ(usage(other), 0u);
		EXPECT_EQ(usage(group), charge_of(block));
		free(block);
	}
	EXPECT_EQ(slub_group_destroy(other), 0);
}

TEST_F(Account, FreeObjectsInListsOutliveTheirGroup)
{
	slub_group *child = slub_group_create("child", group);
	std::vector<void *> blocks(100);

	{
		Inside inside(child);
		for (auto &block : blocks)
			block = malloc(200);
	}
	for (size_t i = 0; i < 50; i++)
		free(blocks[i]);
	EXPECT_EQ(slub_group_destroy(child), 0);
	EXPECT_EQ(usage(group), 50 * charge_of(blocks[99]));
	for (size_t i = 50; i < 100; i++)
		free(blocks[i]);
	void *block = in_group([] { return malloc(200); });
	EXPECT_EQ(usage(group), charge_of(block));
	free(block);
}

/* What one thread frees is in the lists of whatever CPU it is on. */
TEST_F(Account, AtTheMaximumWhatLiesInListsIsFound)
{
	constexpr size_t BYTES = 1000, NR = 60;
	std::vector<void *> blocks(NR);
	std::vector<void *> others(NR / 2);

	ASSERT_EQ(slub_group_limit_set(group, SLUB_GROUP_MAX, NR * 1024), 0);
	{
		Inside inside(group);
		for (auto &block : blocks)
			block = malloc(BYTES);
		EXPECT_EQ(malloc(harness::opaque(BYTES)), nullptr);
	}
	for (int round = 0; round < 20; round++) {
		std::thread([&] {
			for (auto &block : blocks)
				free(block);
		}).join();
		/* Of another size: none of these are in the list that is asked. */
		{
			Inside inside(group);
			for (auto &block : others)
				block = malloc(2 * BYTES);
		}
		for (auto &block : others) {
			ASSERT_NE(block, nullptr);
			free(block);
		}
		Inside inside(group);
		for (auto &block : blocks) {
			block = malloc(BYTES);
			ASSERT_NE(block, nullptr);
		}
	}
	for (auto &block : blocks)
		free(block);
}

TEST_F(Account, AnObjectThatMovesTakesItsChargeAlong)
{
	slub_cache *cache = slub_cache_create("moving", 500, 0, SLUB_CACHE_ACCOUNT, nullptr);
	std::vector<void *> objects(3000);
	size_t moved = 0, left = 0;

	{
		Inside inside(group);
		for (auto &object : objects)
			object = slub_cache_alloc(cache);
	}
	for (size_t i = 0; i < objects.size(); i++) {
		if (i % 8 == 0)
			continue;
		slub_cache_free(cache, objects[i]);
		objects[i] = nullptr;
	}
	slub_shrink_all();
	for (auto &object : objects) {
		void *to = object ? slub_object_move(object) : nullptr;	/* watched: never */

		left += object != nullptr;
		moved += to != nullptr;
		object = to ? to : object;
	}
	if (!getenv("SLUB_DEBUG")) {
		EXPECT_GT(moved, 0u);
	}
	EXPECT_EQ(usage(group), left * 500);
	for (auto &object : objects)
		slub_cache_free(cache, object);
	EXPECT_EQ(usage(group), 0u);
	EXPECT_EQ(slub_cache_destroy(cache), 0);
}

/* ---- debugging, profile ---- */

TEST_F(Account, WatchedObjectsAreCharged)
{
	slub_cache *cache = slub_cache_create("watched", 100, 0, SLUB_CACHE_ACCOUNT, nullptr);
	void *before = in_group([&] { return slub_cache_alloc(cache); });

	ASSERT_EQ(slub_cache_debug(cache, SLUB_CACHE_CONSISTENCY_CHECKS | SLUB_CACHE_RED_ZONE |
			SLUB_CACHE_POISON |
					  SLUB_CACHE_STORE_USER), 0);
	void *after = in_group([&] { return slub_cache_alloc(cache); });
	EXPECT_EQ(usage(group), 200u);
	slub_cache_free(cache, after);
	EXPECT_EQ(usage(group), 100u);
	slub_cache_free(cache, after);	/* found, and gives nothing back */
	EXPECT_EQ(usage(group), 100u);
	after = in_group([&] { return slub_cache_alloc(cache); });
	ASSERT_EQ(slub_cache_debug(cache, 0), 0);
	slub_cache_free(cache, before);
	free(after);
	EXPECT_EQ(usage(group), 0u);
	slub_cache_destroy(cache);
}

TEST_F(Account, SampledObjectsAreCharged)
{
	std::vector<void *> blocks(2000);
	size_t sum = 0;

	ASSERT_EQ(slub_profile_start(1000), 0);
	{
		Inside inside(group);
		for (size_t i = 0; i < blocks.size(); i++)
			blocks[i] = malloc(i % 5000);
	}
	for (void *block : blocks)
		sum += charge_of(block);
	EXPECT_EQ(usage(group), sum);
	for (size_t i = 0; i < blocks.size() / 2; i++)
		free(blocks[i]);
	slub_profile_stop();
	for (size_t i = blocks.size() / 2; i < blocks.size(); i++)
		free(blocks[i]);
}

} /* namespace */
