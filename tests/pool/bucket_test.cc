/* SPDX-License-Identifier: MIT */
/* Promise: slub/bucket.h. */
#include <gtest/gtest.h>
#include <cerrno>
#include <csignal>
#include <malloc.h>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include <cstring>

#include <slub/bucket.h>
#include <slub/group.h>
#include <slub/rcu.h>

#include "harness.h"

namespace {

class Bucket : public testing::Test {
protected:
	void SetUp() override
	{
		bucket = slub_bucket_create("tenant", 0);
		ASSERT_NE(bucket, nullptr);
	}
	void TearDown() override { EXPECT_EQ(slub_bucket_destroy(bucket), 0); }

	struct slub_bucket_stats stats()
	{
		struct slub_bucket_stats stats = {};

		EXPECT_EQ(slub_bucket_stats(bucket, &stats), 0);
		return stats;
	}

	struct slub_bucket *bucket;
};

TEST_F(Bucket, EverySizeHoldsItsBytes)
{
	std::vector<std::pair<void *, size_t>> blocks;

	for (size_t size : harness::sizes()) {
		void *block = slub_bucket_alloc(bucket, size);

		ASSERT_NE(block, nullptr) << size;
		EXPECT_EQ((uintptr_t)block % 16, 0u);
		EXPECT_GE(malloc_usable_size(block), size);
		harness::fill(block, size, size);
		blocks.push_back({ block, size });
	}
	for (auto &[block, size] : blocks)
		EXPECT_TRUE(harness::intact(block, size, size)) << size;
	EXPECT_EQ(stats().live_blocks, blocks.size());
	for (auto &[block, size] : blocks)
		slub_bucket_free(bucket, block);
	EXPECT_EQ(stats().live_blocks, 0u);
	EXPECT_EQ(stats().live_bytes, 0u);
	EXPECT_EQ(stats().refused, 0u);
}

/* A block that was freed deferred is free, though readers may still have looked at it. */
TEST_F(Bucket, ClearFreesNothingTwice)
{
	for (size_t size : { 50, 5000, 32768, 32769, 100000, 5 << 20 }) {
		void *first = slub_bucket_alloc(bucket, size);
		void *kept = slub_bucket_alloc(bucket, size);

		ASSERT_TRUE(first && kept);
		slub_free_deferred(first);
		ASSERT_EQ(slub_bucket_clear(bucket), 0) << size;
		EXPECT_EQ(stats().live_blocks, 0u) << size;
		char *one = (char *)malloc(size), *two, *three;
		slub_deferred_barrier();
		two = (char *)malloc(size);
		three = (char *)malloc(size);
		EXPECT_TRUE(one != two && two != three && one != three) << size << " bytes, twice";
		free(one);
		free(two);
		free(three);
	}
}

TEST_F(Bucket, WhatWasFreedDeferredIsNotInUse)
{
	for (size_t size : { 50, 5000, 32769, 100000 }) {
		struct slub_bucket *other = slub_bucket_create("other", 0);

		ASSERT_NE(other, nullptr);
		slub_free_deferred(slub_bucket_alloc(other, size));
		struct slub_bucket_stats counted = {};
		EXPECT_EQ(slub_bucket_stats(other, &counted), 0);
		EXPECT_EQ(counted.live_blocks, 0u) << size;
		slub_free_deferred(slub_bucket_alloc(other, size));
		EXPECT_EQ(slub_bucket_destroy(other), 0) << size;
	}
}

TEST_F(Bucket, ClearFreesEveryBlock)
{
	struct slub_bucket *other = slub_bucket_create("other", 0);
	char *kept = (char *)slub_bucket_alloc(other, 100), *large, *mallocs = (char *)malloc(100);

	ASSERT_NE(other, nullptr);
	large = (char *)slub_bucket_alloc(other, 1 << 20);
	ASSERT_TRUE(kept && large && mallocs);
	strcpy(kept, "kept");
	strcpy(large, "large");
	strcpy(mallocs, "malloc's");
	for (int round = 0; round < 3; round++) {
		for (size_t size : harness::sizes()) {
			for (int i = 0; i < 70; i++) {
				void *block = slub_bucket_alloc(bucket, size);

				ASSERT_NE(block, nullptr) << size;
				if (i % 3 == 0)
					slub_bucket_free(bucket, block);
				else
					memset(block, 0xa5, size);
				if (size > 32768)
					break;
			}
		}
		EXPECT_GT(stats().live_blocks, 1000u);
		EXPECT_EQ(slub_bucket_clear(bucket), 0);
		EXPECT_EQ(stats().live_blocks, 0u);
		EXPECT_EQ(stats().live_bytes, 0u);
	}
	EXPECT_STREQ(kept, "kept");
	EXPECT_STREQ(large, "large");
	EXPECT_STREQ(mallocs, "malloc's");
	free(mallocs);
	EXPECT_EQ(slub_bucket_destroy(other), -EBUSY);
	EXPECT_EQ(slub_bucket_destroy_all(other), 0);
	other = slub_bucket_create("other", 0);
	EXPECT_NE(other, nullptr) << "the name is free again";
	EXPECT_EQ(slub_bucket_destroy_all(other), 0) << "an empty one";
	EXPECT_EQ(slub_bucket_destroy_all(nullptr), 0);
	EXPECT_EQ(slub_bucket_clear(nullptr), -EINVAL);
}

TEST_F(Bucket, ClearTakesBlocksOfOtherThreads)
{
	std::vector<std::thread> threads;

	for (int t = 0; t < 4; t++)
		threads.emplace_back([this] {
			for (int i = 0; i < 2000; i++)
				EXPECT_NE(slub_bucket_alloc(bucket, 16 + i % 500), nullptr);
		});
	for (std::thread &thread : threads)
		thread.join();
	EXPECT_EQ(stats().live_blocks, 8000u);
	EXPECT_EQ(slub_bucket_clear(bucket), 0);
	EXPECT_EQ(stats().live_blocks, 0u);
}

TEST(WatchedBucket, ClearChecksAndUncharges)
{
	struct slub_bucket *watched = slub_bucket_create("watched", SLUB_CACHE_RED_ZONE |
			SLUB_CACHE_POISON |
							 SLUB_CACHE_STORE_USER |
									SLUB_CACHE_ACCOUNT);
	struct slub_group *group = slub_group_create("clear", nullptr);
	struct slub_group_stats stats;

	ASSERT_TRUE(watched && group);
	ASSERT_EQ(slub_group_enter(group), 0);
	for (size_t size : { 16, 100, 1000, 10000, 100000, 3000000 }) {
		for (int i = 0; i < 20; i++)
			EXPECT_NE(slub_bucket_alloc(watched, size), nullptr);
	}
	EXPECT_EQ(slub_group_leave(group), 0);
	ASSERT_EQ(slub_group_stats(group, &stats), 0);
	EXPECT_GT(stats.usage, 60u * 1000 * 1000);
	EXPECT_EQ(slub_bucket_destroy_all(watched), 0);
	ASSERT_EQ(slub_group_stats(group, &stats), 0);
	EXPECT_LT(stats.usage, 1u << 20) << "stocks of the thread at the most";
	EXPECT_EQ(slub_group_destroy(group), 0);
}

TEST_F(Bucket, AlignedBlocksOfEverySize)
{
	std::vector<std::pair<void *, size_t>> blocks;

	const size_t sizes[] = { 0, 1, 16, 17, 100, 4096, 4097, 30000, 32768, 32769, 200000 };

	for (size_t align = 1; align <= 1 << 16; align *= 2) {
		for (size_t size : sizes) {
			void *block = slub_bucket_aligned_alloc(bucket, align, size);

			ASSERT_NE(block, nullptr) << align << " " << size;
			EXPECT_EQ((uintptr_t)block % (align < 16 ? 16 : align), 0u) << size;
			EXPECT_GE(malloc_usable_size(block), size);
			harness::fill(block, size, size);
			blocks.push_back({ block, size });
		}
	}
	EXPECT_EQ(stats().live_blocks, blocks.size()) << "all of them are the bucket's";
	for (auto &[block, size] : blocks) {
		EXPECT_TRUE(harness::intact(block, size, size)) << size;
		block = slub_bucket_realloc(bucket, block, size + 40);
		ASSERT_NE(block, nullptr);
		EXPECT_TRUE(harness::intact(block, size, size)) << size;
	}
	EXPECT_EQ(stats().live_blocks, blocks.size());
	for (auto &[block, size] : blocks)
		slub_bucket_free(bucket, block);
	EXPECT_EQ(stats().live_blocks, 0u);
	EXPECT_EQ(stats().refused, 0u);
}

TEST_F(Bucket, AlignmentsThatCannotBe)
{
	for (size_t align : { (size_t)0, (size_t)3, (size_t)48, SIZE_MAX }) {
		errno = 0;
		EXPECT_EQ(slub_bucket_aligned_alloc(bucket, align, 100), nullptr) << align;
		EXPECT_EQ(errno, EINVAL) << align;
	}
	errno = 0;
	EXPECT_EQ(slub_bucket_aligned_alloc(bucket, (size_t)1 << 62, 100), nullptr);
	EXPECT_EQ(errno, ENOMEM);
	errno = 0;
	EXPECT_EQ(slub_bucket_aligned_alloc(bucket, 64, SIZE_MAX), nullptr);
	EXPECT_EQ(errno, ENOMEM);
	errno = 0;
	EXPECT_EQ(slub_bucket_aligned_alloc(nullptr, 64, 100), nullptr);
	EXPECT_EQ(errno, EINVAL);
}

TEST_F(Bucket, ItsCachesCarryItsName)
{
	void *block = slub_bucket_alloc(bucket, 100);

	EXPECT_STREQ(slub_cache_name(slub_cache_of(block)), "tenant-112");
	slub_bucket_free(bucket, block);
}

TEST_F(Bucket, CachesAreMadeWhenTheyAreWanted)
{
	EXPECT_EQ(stats().classes, 0u);
	slub_bucket_free(bucket, slub_bucket_alloc(bucket, 100));
	EXPECT_EQ(stats().classes, 1u);
	slub_bucket_free(bucket, slub_bucket_alloc(bucket, 112));
	EXPECT_EQ(stats().classes, 1u);
	slub_bucket_free(bucket, slub_bucket_alloc(bucket, 113));
	EXPECT_EQ(stats().classes, 2u);
	slub_bucket_free(bucket, slub_bucket_alloc(bucket, 100000));
	EXPECT_EQ(stats().classes, 2u);
}

TEST_F(Bucket, SharesNoSlabWithOthers)
{
	struct slub_bucket *other = slub_bucket_create("tenant2", 0);
	void *a = slub_bucket_alloc(bucket, 64), *b = slub_bucket_alloc(other, 64),
	     *c = malloc(64);

	EXPECT_NE(slub_cache_of(a), slub_cache_of(b));
	EXPECT_NE(slub_cache_of(a), slub_cache_of(c));
	EXPECT_NE((uintptr_t)a >> 12, (uintptr_t)b >> 12);
	EXPECT_NE((uintptr_t)a >> 12, (uintptr_t)c >> 12);
	free(a);
	free(b);
	free(c);
	EXPECT_EQ(slub_bucket_destroy(other), 0);
}

TEST_F(Bucket, CountsWhatIsLive)
{
	std::vector<void *> blocks;

	for (int i = 0; i < 1000; i++)
		blocks.push_back(slub_bucket_alloc(bucket, 64));
	for (int i = 0; i < 3; i++)
		blocks.push_back(slub_bucket_alloc(bucket, 100000));
	struct slub_bucket_stats now = stats();
	EXPECT_EQ(now.live_blocks, 1003u);
	EXPECT_EQ(now.large_blocks, 3u);
	EXPECT_EQ(now.large_bytes, 3u * 106496);
	EXPECT_EQ(now.live_bytes, 64000u + now.large_bytes);
	EXPECT_GE(now.slab_bytes, 64000u);
	/* By whatever function: nothing is counted, so nothing can be missed. */
	for (size_t i = 0; i < blocks.size(); i++) {
		if (i % 2)
			free(blocks[i]);
		else
			slub_bucket_free(bucket, blocks[i]);
	}
	EXPECT_EQ(stats().live_blocks, 0u);
}

TEST_F(Bucket, ALargeBlockThatIsReusedIsNotTheBucketsAnyMore)
{
	for (size_t size : { 40000ul, 100000ul, 900000ul, 5000000ul }) {
		free(slub_bucket_alloc(bucket, size));
		void *others = malloc(size);

		EXPECT_EQ(stats().large_blocks, 0u) << size;
		free(others);
	}
}

TEST_F(Bucket, CallocIsZero)
{
	for (size_t size : { 1ul, 100ul, 4096ul, 32768ul, 50000ul, 3000000ul }) {
		for (int round = 0; round < 3; round++) {
			auto *block = (char *)slub_bucket_calloc(bucket, 1, size);

			EXPECT_EQ(harness::first_nonzero(block, size), size);
			memset(block, 0xaa, size);
			slub_bucket_free(bucket, block);
		}
	}
	errno = 0;
	EXPECT_EQ(slub_bucket_calloc(bucket, SIZE_MAX / 2, 3), nullptr);
	EXPECT_EQ(errno, ENOMEM);
}

TEST_F(Bucket, ReallocKeepsContentsAndStaysInside)
{
	harness::Random random(3);
	size_t size = 10;
	void *block = slub_bucket_realloc(bucket, nullptr, size);

	harness::fill(block, size, 1);
	for (int i = 0; i < 400; i++) {
		size_t to = 1 + random.below(i % 3 ? 3000 : 3000000);
		void *moved = slub_bucket_realloc(bucket, block, to);

		ASSERT_NE(moved, nullptr);
		ASSERT_TRUE(harness::intact(moved, std::min(size, to), 1)) << size << "->" << to;
		block = moved;
		size = to;
		harness::fill(block, size, 1);
		if (i % 40 == 0) {
			EXPECT_EQ(stats().live_blocks, 1u);
		}
	}
	EXPECT_EQ(slub_bucket_realloc(bucket, block, 0), nullptr);
	EXPECT_EQ(stats().live_blocks, 0u);
}

/* Large blocks grow in place or by moving pages; wherever they are, they are the bucket's. */
TEST_F(Bucket, LargeBlocksStayTheBucketsWhenTheyMove)
{
	void *blocks[8] = {};
	size_t sizes[8] = {};
	int moves = 0;

	for (int round = 0; round < 40; round++) {
		for (int i = 0; i < 8; i++) {
			size_t to = 40000 + (size_t)(round % 20) * 300000 + (size_t)i * 5000;
			void *moved = slub_bucket_realloc(bucket, blocks[i], to);

			ASSERT_NE(moved, nullptr);
			ASSERT_TRUE(harness::intact(moved, std::min(sizes[i], to), i));
			moves += blocks[i] && moved != blocks[i];
			harness::fill(moved, to, i);
			blocks[i] = moved;
			sizes[i] = to;
		}
		ASSERT_EQ(stats().large_blocks, 8u) << round;
	}
	EXPECT_GT(moves, 0);
	for (void *block : blocks)
		slub_bucket_free(bucket, block);
	EXPECT_EQ(stats().refused, 0u);
	EXPECT_EQ(stats().live_blocks, 0u);
}

TEST_F(Bucket, ReallocThatFailsLeavesTheBlock)
{
	auto *block = (char *)slub_bucket_alloc(bucket, 50);

	harness::fill(block, 50, 9);
	errno = 0;
	EXPECT_EQ(slub_bucket_realloc(bucket, block, SIZE_MAX), nullptr);
	EXPECT_EQ(errno, ENOMEM);
	errno = 0;
	EXPECT_EQ(slub_bucket_realloc(bucket, block, PTRDIFF_MAX), nullptr);
	EXPECT_EQ(errno, ENOMEM);
	EXPECT_TRUE(harness::intact(block, 50, 9));
	slub_bucket_free(bucket, block);
}

TEST_F(Bucket, ForeignFrees)
{
	struct slub_bucket *other = slub_bucket_create("tenant2", 0);
	int here;

	slub_bucket_free(bucket, nullptr);
	EXPECT_EQ(stats().refused, 0u);
	slub_bucket_free(bucket, slub_bucket_alloc(other, 64));
	slub_bucket_free(bucket, slub_bucket_alloc(other, 64000));
	slub_bucket_free(bucket, malloc(64));
	slub_bucket_free(bucket, malloc(64000));
	slub_bucket_free(bucket, &here);
	EXPECT_EQ(stats().refused, 5u);
	void *theirs = slub_bucket_alloc(other, 64);
	errno = 0;
	EXPECT_EQ(slub_bucket_realloc(bucket, theirs, 100), nullptr);
	EXPECT_EQ(errno, EINVAL);
	free(theirs);
	EXPECT_EQ(slub_bucket_destroy(other), 0) << "what was not its own went where it belongs";
}

TEST_F(Bucket, DestroyWithBlocksLeftKeepsIt)
{
	for (size_t size : { 64ul, 8192ul, 64000ul, 4000000ul }) {
		void *block = slub_bucket_alloc(bucket, size);

		EXPECT_EQ(slub_bucket_destroy(bucket), -EBUSY) << size;
		harness::fill(block, size, 4);
		void *more = slub_bucket_alloc(bucket, size);
		ASSERT_NE(more, nullptr);
		EXPECT_TRUE(harness::intact(block, size, 4));
		slub_bucket_free(bucket, more);
		slub_bucket_free(bucket, block);
	}
}

TEST_F(Bucket, ThreadsMakeTheSameClassAtOnce)
{
	constexpr int nr = 4;
	std::vector<std::thread> threads;
	std::atomic<int> failed{0}, arrived{0};

	for (int t = 0; t < nr; t++) {
		threads.emplace_back([&] {
			int before = 0;

			for (size_t size = 16; size <= 32768; size += size / 8 + 16) {
				/* All together, for each class. */
				arrived++;
				before += nr;
				for (int spins = 0; arrived < before; spins++) {
					if (spins > 1000)
						sched_yield();
				}
				void *block = slub_bucket_alloc(bucket, size);

				failed += !block;
				free(block);
			}
		});
	}
	for (auto &thread : threads)
		thread.join();
	EXPECT_EQ(failed, 0);
}

TEST_F(Bucket, WorksInAForkedChild)
{
	void *block = slub_bucket_alloc(bucket, 64);
	int status = harness::in_child([&] {
		struct slub_bucket_stats now = {};
		void *more = slub_bucket_alloc(bucket, 200);

		slub_bucket_stats(bucket, &now);
		free(more);
		free(block);
		_exit(now.live_blocks == 2 && slub_bucket_destroy(bucket) == 0 ? 0 : 1);
	});

	EXPECT_EQ(harness::describe_status(status), "exit 0");
	free(block);
}

TEST(BucketMisuse, Create)
{
	struct slub_bucket *bucket;
	std::string longest(SLUB_BUCKET_NAME_MAX, 'x');
	const std::string longer = longest + "x";

	for (const char *name : { (const char *)nullptr, "", "two words", "tab\t",
				  longer.c_str() }) {
		errno = 0;
		EXPECT_EQ(slub_bucket_create(name, 0), nullptr);
		EXPECT_EQ(errno, EINVAL);
	}
	for (unsigned long flags : { (unsigned long)SLUB_CACHE_TYPESAFE_BY_RCU, 1ul << 40 }) {
		errno = 0;
		EXPECT_EQ(slub_bucket_create("flags", flags), nullptr);
		EXPECT_EQ(errno, EINVAL);
	}
	bucket = slub_bucket_create(longest.c_str(), 0);
	ASSERT_NE(bucket, nullptr);
	void *block = slub_bucket_alloc(bucket, 32768);
	EXPECT_EQ(slub_cache_name(slub_cache_of(block)), longest + "-32768");
	free(block);
	errno = 0;
	EXPECT_EQ(slub_bucket_create(longest.c_str(), 0), nullptr);
	EXPECT_EQ(errno, EEXIST);
	EXPECT_EQ(slub_bucket_destroy(bucket), 0);
}

TEST(BucketMisuse, ACacheHasTheName)
{
	struct slub_bucket *bucket = slub_bucket_create("taken", 0);
	struct slub_cache *cache = slub_cache_create("taken-64", 64, 0, 0, nullptr);

	errno = 0;
	EXPECT_EQ(slub_bucket_alloc(bucket, 64), nullptr);
	EXPECT_EQ(errno, EEXIST);
	EXPECT_EQ(slub_cache_destroy(cache), 0);
	void *block = slub_bucket_alloc(bucket, 64);
	EXPECT_NE(block, nullptr);
	free(block);
	EXPECT_EQ(slub_bucket_destroy(bucket), 0);
}

TEST(BucketMisuse, NotABucket)
{
	struct slub_bucket *bucket = slub_bucket_create("gone", 0);
	struct slub_bucket_stats stats;

	EXPECT_EQ(slub_bucket_destroy(bucket), 0);
	EXPECT_EQ(slub_bucket_destroy(bucket), -EINVAL);
	EXPECT_EQ(slub_bucket_destroy(nullptr), 0);
	EXPECT_EQ(slub_bucket_stats(bucket, &stats), -EINVAL);
	errno = 0;
	EXPECT_EQ(slub_bucket_alloc(bucket, 10), nullptr);
	EXPECT_EQ(errno, EINVAL);
	void *block = malloc(10);
	slub_bucket_free(bucket, block);	/* freed where it belongs */
}

TEST(BucketMisuse, PanicAborts)
{
	std::string errors;
	int status = harness::in_child([] { slub_bucket_create("", SLUB_CACHE_PANIC); },
				       &errors);

	EXPECT_EQ(WTERMSIG(status), SIGABRT);
	EXPECT_NE(errors.find("SLUB_CACHE_PANIC"), std::string::npos) << errors;
}

} /* namespace */
