/* SPDX-License-Identifier: MIT */
/*
 * features/buckets: each answer and each number of a bucket, also where memory, caches or names are
 * refused.
 */
#include <gtest/gtest.h>
#include <malloc.h>
#include <map>
#include <string>
#include <vector>

#include "harness.h"
#include "slub.h"

#define _Static_assert static_assert
extern "C" {
#include "features/buckets/bucket_internal.h"
#include "features/guard/guard.h"
#include <slub/bucket.h>
#include <slub/group.h>
#include <slub/rcu.h>
}
#undef _Static_assert

/* No container: these run before a constructor does. */
static struct {
	unsigned large_alloc, large_zero, shrink, purge, purge_bytes, owns, frees;
} calls;
static unsigned refused_large;
static int refused_create, refused_walk, refused_look, refused_destroy;
static bool *zero_said;

/* The linker sends the library's calls to these (--wrap). */
extern "C" void *__real_large_alloc(size_t bytes, size_t align, bool *is_zero);
extern "C" void __real_large_zero(void *ptr, size_t bytes);
extern "C" void __real_slab_shrink_all(void);
extern "C" size_t __real_page_purge(size_t bytes);
extern "C" bool __real_bucket_large_owns(const struct slub_bucket *bucket, const void *ptr);
extern "C" void *__real_slub_cache_zalloc(struct slub_cache *cache);
extern "C" void __real_slub_cache_free(struct slub_cache *cache, void *object);
extern "C" int __real_slub_cache_for_each_object(struct slub_cache *cache,
						 int (*call)(void *, void *), void *arg);
extern "C" int __real_cache_look_unused(struct slub_cache *cache);
extern "C" int __real_slub_cache_destroy(struct slub_cache *cache);

extern "C" void *__wrap_large_alloc(size_t bytes, size_t align, bool *is_zero)
{
	void *ptr;

	calls.large_alloc++;
	if (refused_large) {
		refused_large--;
		return nullptr;
	}
	ptr = __real_large_alloc(bytes, align, is_zero);
	if (zero_said)
		*is_zero = *zero_said;
	return ptr;
}

extern "C" void __wrap_large_zero(void *ptr, size_t bytes)
{
	calls.large_zero++;
	__real_large_zero(ptr, bytes);
}

extern "C" void __wrap_slab_shrink_all(void)
{
	calls.shrink++;
	__real_slab_shrink_all();
}

extern "C" size_t __wrap_page_purge(size_t bytes)
{
	calls.purge++;
	calls.purge_bytes += (unsigned)bytes;
	return __real_page_purge(bytes);
}

extern "C" bool __wrap_bucket_large_owns(const struct slub_bucket *bucket, const void *ptr)
{
	calls.owns++;
	return __real_bucket_large_owns(bucket, ptr);
}

extern "C" void *__wrap_slub_cache_zalloc(struct slub_cache *cache)
{
	if (!refused_create)
		return __real_slub_cache_zalloc(cache);
	errno = refused_create;
	return nullptr;
}

extern "C" void __wrap_slub_cache_free(struct slub_cache *cache, void *object)
{
	calls.frees++;
	__real_slub_cache_free(cache, object);
}

extern "C" int __wrap_slub_cache_for_each_object(struct slub_cache *cache,
						 int (*call)(void *, void *), void *arg)
{
	return refused_walk ? refused_walk : __real_slub_cache_for_each_object(cache, call, arg);
}

extern "C" int __wrap_cache_look_unused(struct slub_cache *cache)
{
	return refused_look ? refused_look : __real_cache_look_unused(cache);
}

extern "C" int __wrap_slub_cache_destroy(struct slub_cache *cache)
{
	return refused_destroy ? refused_destroy : __real_slub_cache_destroy(cache);
}

namespace {

/* As in a signal handler that interrupted the holder of a lock. */
struct under_a_lock {
	under_a_lock() { slub_thread.locks_held++; }
	~under_a_lock() { slub_thread.locks_held--; }
};

class InBucket : public testing::Test {
protected:
	void SetUp() override
	{
		bucket = slub_bucket_create("in", 0);
		ASSERT_NE(bucket, nullptr);
		calls = {};
	}
	void TearDown() override { EXPECT_EQ(slub_bucket_destroy_all(bucket), 0); }
	struct slub_bucket_stats stats()
	{
		struct slub_bucket_stats now;

		memset(&now, 0xff, sizeof(now));
		EXPECT_EQ(slub_bucket_stats(bucket, &now), 0);
		for (uint64_t each : now.reserved)
			EXPECT_EQ(each, 0u);
		return now;
	}

	struct slub_bucket *bucket;
};

int error_of(const char *name, unsigned long flags = 0)
{
	struct slub_bucket *bucket;

	errno = 0;
	bucket = slub_bucket_create(name, flags);
	EXPECT_EQ(bucket, nullptr) << name;
	return errno;
}

TEST_F(InBucket, IsNotCreatedTwiceNorWithoutMemory)
{
	calls = {};
	EXPECT_EQ(error_of("in"), EEXIST);
	EXPECT_EQ(calls.frees, 1u) << "the second one's own memory";
	struct slub_bucket *other = slub_bucket_create("other", 0);
	EXPECT_EQ(slub_bucket_destroy(other), 0);
	EXPECT_EQ(calls.frees, 2u) << "and what it leaves";
	EXPECT_EQ(slub_bucket_destroy(other), -EINVAL);
	EXPECT_EQ(slub_bucket_destroy(nullptr), 0);
	for (auto [is, said] : std::map<int, int>{ { ENOSPC, ENOSPC }, { ENOMEM, ENOMEM },
						   { EAGAIN, ENOMEM } }) {
		refused_create = is;
		EXPECT_EQ(error_of("none"), said);
		refused_create = 0;
	}
	under_a_lock handler;
	EXPECT_NE(error_of("none"), 0);
}

TEST_F(InBucket, NothingIsDoneUnderALock)
{
	void *block = slub_bucket_alloc(bucket, 100), *large = slub_bucket_alloc(bucket, 100000);
	struct slub_bucket_stats now;

	harness::fill(large, 100000, 1);
	calls = {};
	{
		under_a_lock handler;

		EXPECT_EQ(slub_bucket_stats(bucket, &now), -EDEADLK);
		EXPECT_EQ(slub_bucket_clear(bucket), -EDEADLK);
		EXPECT_EQ(slub_bucket_destroy(bucket), -EDEADLK);
		EXPECT_EQ(slub_bucket_destroy_all(bucket), -EDEADLK);
		EXPECT_EQ(slub_bucket_group_set(bucket, nullptr), -EDEADLK);
		errno = 0;
		EXPECT_EQ(slub_bucket_alloc(bucket, 5000), nullptr) << "its class is not made";
		EXPECT_EQ(errno, ENOMEM);
		errno = 0;
		EXPECT_EQ(slub_bucket_alloc(bucket, 50000), nullptr);
		EXPECT_EQ(errno, ENOMEM);
		EXPECT_EQ(slub_bucket_realloc(bucket, large, 200000), nullptr);
	}
	EXPECT_EQ(calls.large_alloc, 0u);
	EXPECT_TRUE(harness::intact(large, 100000, 1));
	EXPECT_EQ(stats().classes, 1u);
	EXPECT_EQ(stats().live_blocks, 2u);
	EXPECT_NE(slub_bucket_realloc(bucket, large, 200000), nullptr);
	free(block);
}

TEST_F(InBucket, NothingIsDoneInAReadersSection)
{
	slub_bucket_alloc(bucket, 100);
	int section = slub_read_lock();

	EXPECT_EQ(slub_bucket_clear(bucket), -EDEADLK);
	EXPECT_EQ(slub_bucket_destroy(bucket), -EDEADLK);
	EXPECT_EQ(slub_bucket_destroy_all(bucket), -EDEADLK);
	slub_read_unlock(section);
	EXPECT_EQ(stats().live_blocks, 1u);
}

TEST_F(InBucket, EachNumberIsExact)
{
	if (SLUB_CONFIG_HARDENED)
		GTEST_SKIP() << "blocks have other sizes";
	struct slub_bucket_stats now = stats();
	struct slub_cache *caches[2];
	void *blocks[3];

	for (size_t each : { now.live_bytes, now.live_blocks, now.large_bytes, now.large_blocks,
			     now.slab_bytes, now.classes, (size_t)now.refused })
		EXPECT_EQ(each, 0u);
	blocks[0] = slub_bucket_alloc(bucket, 100);
	blocks[1] = slub_bucket_alloc(bucket, 9000);
	blocks[2] = slub_bucket_alloc(bucket, 100000);
	for (int i = 0; i < 2; i++)
		caches[i] = cache_of(blocks[i]);
	now = stats();
	EXPECT_EQ(now.live_blocks, 3u);
	EXPECT_EQ(now.live_bytes, caches[0]->object_size + caches[1]->object_size +
					  malloc_usable_size(blocks[2]));
	EXPECT_EQ(now.large_blocks, 1u);
	EXPECT_EQ(now.large_bytes, large_bytes(blocks[2]));
	EXPECT_EQ(now.slab_bytes,
		  (PAGE_BYTES << caches[0]->order) + (PAGE_BYTES << caches[1]->order));
	EXPECT_EQ(now.classes, 2u);
	slub_bucket_free(bucket, blocks[2]);
	now = stats();
	EXPECT_EQ(now.live_blocks, 2u);
	EXPECT_EQ(now.large_blocks, 0u);
	EXPECT_EQ(now.large_bytes, 0u);
	/* Where the objects cannot be looked at. */
	refused_walk = -EAGAIN;
	EXPECT_EQ(slub_bucket_stats(bucket, &now), -EAGAIN);
	EXPECT_EQ(slub_bucket_clear(bucket), -EAGAIN);
	EXPECT_EQ(slub_bucket_destroy_all(bucket), -EAGAIN);
	refused_walk = 0;
	size_t counted = 0;
	for (auto cache : caches) {
		struct slub_cache_stats numbers = {};

		slub_cache_stats(cache, &numbers);
		counted += numbers.objects;
	}
	EXPECT_EQ(now.live_blocks, counted) << "as many as the caches count, with their lists'";
	EXPECT_EQ(now.classes, 2u);
	EXPECT_EQ(slub_bucket_clear(bucket), 0);
	EXPECT_EQ(stats().live_blocks, 0u);
	EXPECT_EQ(stats().live_bytes, 0u);
}

/* Who has no large blocks does not look for them; who had some looks at each page once. */
TEST_F(InBucket, LargeBlocksAreLookedForOncePerPage)
{
	slub_bucket_free(bucket, slub_bucket_alloc(bucket, 100));
	calls = {};
	stats();
	EXPECT_EQ(calls.owns, 0u);
	void *large[3];
	for (void *&each : large)
		each = slub_bucket_alloc(bucket, 100000);
	calls = {};
	EXPECT_EQ(stats().large_blocks, 3u);
	EXPECT_EQ(calls.owns, pagemap_committed() / PAGE_BYTES);
	calls = {};
	EXPECT_EQ(slub_bucket_destroy(bucket), -EBUSY);
	EXPECT_LT(calls.owns, pagemap_committed() / PAGE_BYTES) << "up to the first of them";
	calls = {};
	EXPECT_EQ(slub_bucket_clear(bucket), 0);
	EXPECT_EQ(calls.owns, pagemap_committed() / PAGE_BYTES);
	EXPECT_EQ(stats().large_blocks, 0u);
}

/* Between guard pages they are the bucket's all the same. */
TEST_F(InBucket, GuardedBlocksAreCounted)
{
	struct slub_bucket_stats before, now;
	size_t pages = 0;

	ASSERT_EQ(guard_open(1), 0);
	struct slub_cache *cache = cache_of(slub_bucket_alloc(bucket, 100));
	before = stats();
	char *block = (char *)guard_alloc(cache, 100, 16);
	ASSERT_TRUE(guard_owns(block));
	EXPECT_EQ(guard_nr_objects(cache, &pages), 1u);
	EXPECT_GT(pages, 0u);
	now = stats();
	EXPECT_EQ(now.live_blocks, before.live_blocks + 1);
	EXPECT_EQ(now.live_bytes, before.live_bytes + cache->object_size);
	EXPECT_EQ(now.slab_bytes, before.slab_bytes + pages);
	refused_walk = -EAGAIN;
	EXPECT_EQ(slub_bucket_stats(bucket, &before), -EAGAIN);
	slub_bucket_free(bucket, block);
	EXPECT_EQ(slub_bucket_stats(bucket, &now), -EAGAIN);
	refused_walk = 0;
	EXPECT_EQ(before.live_blocks, now.live_blocks + 1);
	EXPECT_EQ(now.refused, 0u);
	block = (char *)guard_alloc(cache, 100, 16);
	void *to = slub_bucket_realloc(bucket, block, 101);
	EXPECT_NE(to, block) << "it always moves";
	EXPECT_FALSE(guard_owns(to));
	EXPECT_EQ(stats().live_blocks, 2u);
}

TEST_F(InBucket, StaysWhereACacheStays)
{
	void *block = slub_bucket_alloc(bucket, 100);

	slub_bucket_free(bucket, block);
	refused_look = -EAGAIN;
	EXPECT_EQ(slub_bucket_destroy(bucket), -EAGAIN);
	refused_look = 0;
	refused_destroy = -EBUSY;
	EXPECT_EQ(slub_bucket_destroy(bucket), -EBUSY);
	refused_destroy = 0;
	block = slub_bucket_alloc(bucket, 100);
	EXPECT_EQ(stats().live_blocks, 1u) << "it is live";
	EXPECT_EQ(error_of("in"), EEXIST);
	EXPECT_STREQ(slub_cache_name(slub_cache_of(block)), "in-112");
}

TEST_F(InBucket, ARefusedLargeBlockIsTriedOnceMore)
{
	void *block;

	refused_large = 1;
	block = slub_bucket_alloc(bucket, 50000);
	EXPECT_NE(block, nullptr);
	EXPECT_EQ(calls.large_alloc, 2u);
	EXPECT_EQ(calls.shrink, 1u);
	EXPECT_EQ(calls.purge, 1u);
	EXPECT_EQ(calls.purge_bytes, 0u);
	slub_bucket_free(bucket, block);
	calls = {};
	refused_large = 2;
	errno = 0;
	EXPECT_EQ(slub_bucket_alloc(bucket, 50000), nullptr);
	EXPECT_EQ(errno, ENOMEM);
	EXPECT_EQ(calls.large_alloc, 2u);
	calls = {};
	block = slub_bucket_alloc(bucket, 50000);
	EXPECT_EQ(calls.large_alloc, 1u);
	EXPECT_EQ(calls.shrink + calls.purge, 0u);
	EXPECT_EQ(slub_bucket_alloc(bucket, (size_t)PTRDIFF_MAX + 1), nullptr);
	EXPECT_EQ(slub_bucket_alloc(bucket, PTRDIFF_MAX), nullptr);
	EXPECT_EQ(calls.large_alloc, 1u) << "nobody is asked for what cannot be";
}

TEST_F(InBucket, CallocClearsWhatIsNotKnownToBeZero)
{
	if (SLUB_CONFIG_HARDENED)
		GTEST_SKIP() << "blocks have other sizes";
	bool is_zero;

	zero_said = &is_zero;
	for (bool said : { false, true }) {
		is_zero = said;
		calls = {};
		void *block = slub_bucket_calloc(bucket, 100, 1000);
		ASSERT_NE(block, nullptr);
		EXPECT_EQ(calls.large_zero, !said) << said;
		slub_bucket_free(bucket, block);
	}
	zero_said = nullptr;
	calls = {};
	for (size_t size : { 48, 32768 }) {
		void *block = memset(slub_bucket_alloc(bucket, size), 0x77, size);

		slub_bucket_free(bucket, block);
		block = slub_bucket_calloc(bucket, 1, size);
		EXPECT_EQ(harness::first_nonzero(block, size), size);
	}
	EXPECT_EQ(calls.large_zero, 2u);
	errno = 0;
	EXPECT_EQ(slub_bucket_calloc(bucket, (size_t)1 << 32, (size_t)1 << 32), nullptr);
	EXPECT_EQ(errno, ENOMEM);
	EXPECT_EQ(slub_bucket_calloc(bucket, 1, PTRDIFF_MAX), nullptr);
}

TEST_F(InBucket, SizesAtTheLimits)
{
	if (SLUB_CONFIG_HARDENED)
		GTEST_SKIP() << "the last class has fewer bytes";
	struct {
		size_t size, align;
		const char *name;	/* NULL: a large block */
	} const rows[] = {
		{ 0, 16, "in-16" }, { 16, 16, "in-16" }, { 17, 16, "in-32" }, { 100, 64, "in-128" },
		{ 32768, 16, "in-32768" }, { 32769, 16, nullptr }, { 100, 4096, "in-4096" },
		{ 0, 4096, "in-4096" }, { 100, 8192, nullptr }, { 0, 8192, nullptr },
		{ 32768, 4096, "in-32768" }, { 1, 1, "in-16" },
	};

	for (auto &row : rows) {
		void *block = slub_bucket_aligned_alloc(bucket, row.align, row.size);
		struct slub_cache *cache = cache_of(block);

		ASSERT_NE(block, nullptr);
		EXPECT_EQ((uintptr_t)block % row.align, 0u);
		EXPECT_EQ(cache ? cache->name : std::string("large"), row.name ? row.name : "large")
			<< row.size << " by " << row.align;
		EXPECT_EQ(__real_bucket_large_owns(bucket, block), !row.name);
		if (cache) {
			uint32_t power = cache->object_size & -cache->object_size;

			EXPECT_EQ(cache->align, std::min<uint32_t>(power, PAGE_BYTES));
			EXPECT_TRUE(cache->flags & SLUB_CACHE_NO_MERGE);
		}
	}
}

TEST_F(InBucket, ReallocMovesOnlyWhatItMust)
{
	if (SLUB_CONFIG_HARDENED)
		GTEST_SKIP() << "a block has the bytes that were asked for";
	struct {
		size_t from, to;
		bool stays;
	} const rows[] = {
		{ 1000, 1024, true }, { 1000, 1025, false }, { 1000, 512, true },
		{ 1000, 511, false }, { 100, 1, true }, { 20000, 12801, true },
		{ 20000, 12800, false }, { 100000, 106496, true }, { 100000, 32769, true },
		{ 100000, 32768, false }, { 32768, 32769, false },
	};

	for (auto &row : rows) {
		void *block = slub_bucket_alloc(bucket, row.from), *to;

		harness::fill(block, row.from, row.to);
		calls = {};
		to = slub_bucket_realloc(bucket, block, row.to);
		ASSERT_NE(to, nullptr);
		EXPECT_EQ(to == block, row.stays) << row.from << " to " << row.to;
		EXPECT_TRUE(harness::intact(to, std::min(row.from, row.to), row.to));
		EXPECT_EQ(stats().live_blocks, 1u) << "the old one is free";
		EXPECT_EQ(stats().large_blocks, row.to > 32768) << "and the new one marked";
		slub_bucket_free(bucket, to);
	}
	EXPECT_EQ(stats().refused, 0u);
}

/* Neither an object of another cache, nor a pointer into a block. */
TEST_F(InBucket, OwnsItsBlocksAlone)
{
	struct slub_bucket *other = slub_bucket_create("other", 0);
	struct slub_cache *giant = slub_cache_create("giant", 40000, 0, SLUB_CACHE_NO_MERGE,
						     nullptr);
	char *mine = (char *)slub_bucket_alloc(bucket, 100000);
	unsigned nr = 0;

	ASSERT_TRUE(other && giant && mine);
	slub_bucket_alloc(bucket, 64);
	for (void *block : { malloc(64), malloc(500), malloc(50000), slub_bucket_alloc(other, 64),
			     slub_bucket_alloc(other, 50000), slub_cache_alloc(giant) }) {
		errno = 0;
		EXPECT_EQ(slub_bucket_realloc(bucket, block, 10), nullptr);
		EXPECT_EQ(errno, EINVAL);
		EXPECT_EQ(stats().refused, nr) << "that is no free";
		slub_bucket_free(bucket, block);
		EXPECT_EQ(stats().refused, ++nr);
	}
	errno = 0;
	EXPECT_EQ(slub_bucket_realloc(bucket, mine + PAGE_BYTES, 10), nullptr);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(slub_bucket_realloc(nullptr, mine, 10), nullptr);
	slub_bucket_free(bucket, nullptr);
	EXPECT_EQ(stats().refused, nr);
	EXPECT_EQ(slub_cache_destroy(giant), 0);
	EXPECT_EQ(slub_bucket_destroy(other), 0);
}

size_t usage(struct slub_group *group)
{
	struct slub_group_stats stats = {};

	EXPECT_EQ(slub_group_stats(group, &stats), 0);
	return stats.usage;
}

TEST(BucketGroup, IsChargedForEachBlock)
{
	struct slub_group *group = slub_group_create("bucket", nullptr);
	struct slub_bucket *bucket = slub_bucket_create("charged", SLUB_CACHE_ACCOUNT);
	struct slub_bucket *plain = slub_bucket_create("plain", 0);
	void *early = slub_bucket_alloc(bucket, 1000), *blocks[2];

	ASSERT_TRUE(group && bucket && plain && early);
	EXPECT_EQ(slub_bucket_group_set(plain, group), -EINVAL);
	EXPECT_EQ(slub_bucket_group_set(nullptr, group), -EINVAL);
	EXPECT_EQ(slub_bucket_group_set(bucket, group), 0);
	EXPECT_EQ(usage(group), 0u);
	blocks[0] = slub_bucket_alloc(bucket, 1000);
	EXPECT_EQ(usage(group), block_bytes(blocks[0])) << "of a class from before";
	blocks[1] = slub_bucket_alloc(bucket, 3000);
	EXPECT_EQ(usage(group), block_bytes(blocks[0]) + block_bytes(blocks[1]));
	for (void *block : blocks)
		slub_bucket_free(bucket, block);
	slub_bucket_free(bucket, early);
	EXPECT_EQ(usage(group), 0u);
	blocks[0] = slub_bucket_alloc(bucket, 100000);
	EXPECT_EQ(usage(group), large_bytes(blocks[0]));
	slub_bucket_free(bucket, blocks[0]);
	EXPECT_EQ(usage(group), 0u);
	refused_large = 2;
	EXPECT_EQ(slub_bucket_alloc(bucket, 100000), nullptr);
	EXPECT_EQ(usage(group), 0u) << "nor for what there is no memory for";
	ASSERT_EQ(slub_group_limit_set(group, SLUB_GROUP_MAX, 200000), 0);
	calls = {};
	errno = 0;
	EXPECT_EQ(slub_bucket_alloc(bucket, 300000), nullptr);
	EXPECT_EQ(errno, ENOMEM);
	EXPECT_EQ(calls.large_alloc, 0u);
	EXPECT_EQ(slub_bucket_group_set(bucket, nullptr), 0);
	blocks[0] = slub_bucket_alloc(bucket, 300000);
	EXPECT_NE(blocks[0], nullptr) << "nobody's any more";
	EXPECT_EQ(usage(group), 0u);
	slub_bucket_free(bucket, blocks[0]);
	EXPECT_EQ(slub_bucket_destroy(plain), 0);
	EXPECT_EQ(slub_bucket_group_set(bucket, group), 0);
	EXPECT_EQ(slub_bucket_destroy(bucket), 0);
	EXPECT_EQ(slub_group_destroy(group), 0) << "a bucket that went holds it no more";
}

} /* namespace */
