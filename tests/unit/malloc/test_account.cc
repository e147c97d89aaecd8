/* SPDX-License-Identifier: MIT */
/*
 * malloc/group: what a thread in a group is charged with, at each limit, and that its requests do
 * not take the longer ways for no reason.
 */
#include <cerrno>
#include <gtest/gtest.h>
#include <malloc.h>

#include "harness.h"
#include "slub.h"
#include "start.h"

#define _Static_assert static_assert
extern "C" {
#include "features/groups/owned.h"
#include "features/profile/sample.h"
#include <slub/group.h>
}
#undef _Static_assert

/* No container: these run before a constructor does. */
static struct {
	unsigned slow_alloc, slow_free, free_rest, sized, claim, uncharged, large;
} calls;
static bool no_large;

/* The linker sends the library's calls to these (--wrap). */
extern "C" void *__real_slow_alloc(size_t bytes);
extern "C" void __real_slow_free(void *ptr);
extern "C" bool __real_account_free_rest(struct slub_cache *cache, void *object);
extern "C" void *__real_cache_alloc_sized(struct slub_cache *cache, size_t bytes);
extern "C" void *__real_account_claim(struct slub_cache *cache, void *object, uint32_t owner);
extern "C" void *__real_slow_alloc_uncharged(size_t bytes, size_t align, bool *is_zero);
extern "C" void *__real_large_alloc(size_t bytes, size_t align, bool *is_zero);
extern "C" void *__real_large_alloc_kept(size_t bytes);

extern "C" void *__wrap_slow_alloc(size_t bytes)
{
	calls.slow_alloc++;
	return __real_slow_alloc(bytes);
}

extern "C" void __wrap_slow_free(void *ptr)
{
	calls.slow_free++;
	__real_slow_free(ptr);
}

extern "C" bool __wrap_account_free_rest(struct slub_cache *cache, void *object)
{
	calls.free_rest++;
	return __real_account_free_rest(cache, object);
}

extern "C" void *__wrap_cache_alloc_sized(struct slub_cache *cache, size_t bytes)
{
	calls.sized++;
	return __real_cache_alloc_sized(cache, bytes);
}

extern "C" void *__wrap_account_claim(struct slub_cache *cache, void *object, uint32_t owner)
{
	calls.claim++;
	return __real_account_claim(cache, object, owner);
}

extern "C" void *__wrap_slow_alloc_uncharged(size_t bytes, size_t align, bool *is_zero)
{
	calls.uncharged++;
	return __real_slow_alloc_uncharged(bytes, align, is_zero);
}

extern "C" void *__wrap_large_alloc(size_t bytes, size_t align, bool *is_zero)
{
	calls.large++;
	return no_large ? nullptr : __real_large_alloc(bytes, align, is_zero);
}

extern "C" void *__wrap_large_alloc_kept(size_t bytes)
{
	return no_large ? nullptr : __real_large_alloc_kept(bytes);
}

namespace {

size_t usage(struct slub_group *group)
{
	struct slub_group_stats stats = {};

	EXPECT_EQ(slub_group_stats(group, &stats), 0);
	return stats.usage;
}

class InGroup : public testing::Test {
protected:
	void SetUp() override
	{
		group = slub_group_create("in", nullptr);
		other = slub_group_create("other", nullptr);
		ASSERT_TRUE(group && other);
	}
	void TearDown() override
	{
		EXPECT_EQ(usage(group), 0u);
		EXPECT_EQ(usage(other), 0u);
		EXPECT_EQ(slub_group_destroy(group), 0);
		EXPECT_EQ(slub_group_destroy(other), 0);
	}
	/* In the group alone: what the test itself needs is nobody's. */
	void *in_group(size_t bytes, size_t align = 16)
	{
		return in(group, bytes, align);
	}
	void *in(struct slub_group *which, size_t bytes, size_t align = 16)
	{
		slub_group_enter(which);
		void *block = align > 16 ? aligned_alloc(align, bytes) : malloc(bytes);
		slub_group_leave(which);
		return block;
	}
	void pairs(size_t bytes, int nr)
	{
		slub_group_enter(group);
		for (int i = 0; i < nr; i++)
			free(harness::opaque(malloc(bytes)));
		slub_group_leave(group);
	}

	struct slub_group *group, *other;
};

const size_t SIZES[] = { 0, 1, 16, 17, 112, 113, 1000, CLASS_WORD_MAX, CLASS_WORD_MAX + 1, 4096,
			 5000, CLASS_BYTES_MAX };

/* But for what a signal or another thread aborts. */
constexpr unsigned FEW = 20, MANY = 400;

TEST_F(InGroup, TheFastPathsAreOpenForEachClass)
{
	if (percpu_backend != BACKEND_RSEQ || SLUB_CONFIG_HARDENED)
		GTEST_SKIP() << "each request looks further";
	if (option_text(OPTION_debug) || option_text(OPTION_profile))
		GTEST_SKIP() << "blocks are watched";
	harness::one_cpu stays;

	for (size_t bytes : SIZES) {
		pairs(bytes, 50);
		calls = {};
		pairs(bytes, MANY);
		EXPECT_LT(calls.slow_alloc, FEW) << bytes;
		EXPECT_LT(calls.sized, FEW) << bytes;
		EXPECT_LT(calls.claim, FEW) << bytes;
		EXPECT_LT(calls.uncharged, FEW) << bytes;
		EXPECT_LT(calls.slow_free, FEW) << bytes;
		EXPECT_LT(calls.free_rest, FEW) << bytes;
	}
}

/* A profile that keeps nothing. */
const struct sample_keeper forgetting = {
	[](void *, size_t, double) {}, [](void *) {}, [] {},
};

/* While blocks are sampled each of them is looked at; afterwards none. */
TEST_F(InGroup, TheFastPathsCloseForSamples)
{
	if (percpu_backend != BACKEND_RSEQ || SLUB_CONFIG_HARDENED || option_text(OPTION_debug) ||
	    option_text(OPTION_profile))
		GTEST_SKIP() << "blocks are watched";
	harness::one_cpu stays;

	/* It stays: from now on the end of each block is told. */
	::sample_keeper = &forgetting;
	for (size_t bytes : { (size_t)100, CLASS_BYTES_MAX }) {
		pairs(bytes, 50);
		ASSERT_EQ(sizeclass_sample(true, true), 0);
		calls = {};
		pairs(bytes, MANY);
		EXPECT_GE(calls.slow_alloc, MANY) << bytes;
		ASSERT_EQ(sizeclass_sample(false, true), 0);
		pairs(bytes, 50);
		calls = {};
		pairs(bytes, MANY);
		EXPECT_LT(calls.slow_alloc + calls.sized, FEW) << bytes;
	}
}

TEST_F(InGroup, EachBlockIsChargedExactly)
{
	for (size_t bytes : { (size_t)0, (size_t)16, (size_t)17, CLASS_WORD_MAX, CLASS_WORD_MAX + 1,
			      CLASS_BYTES_MAX, CLASS_BYTES_MAX + 1, (size_t)300000 }) {
		for (size_t align : { (size_t)16, (size_t)64, PAGE_BYTES, 2 * PAGE_BYTES }) {
			void *block = in_group(bytes, align);
			struct slub_cache *cache = cache_of(block);
			const size_t charge = cache ? cache->object_size : large_bytes(block);

			EXPECT_EQ(cache != nullptr,
				  bytes <= CLASS_BYTES_MAX && align <= PAGE_BYTES);
			EXPECT_EQ(usage(group), charge) << bytes << " by " << align;
			if (cache) {
				EXPECT_EQ(cache->name, "malloc-cg-" + std::to_string(charge));
				EXPECT_TRUE(cache->flags & SLUB_CACHE_ACCOUNT);
				EXPECT_TRUE(cache->is_accounted);
			}
			free(block);
			EXPECT_EQ(usage(group), 0u);
		}
	}
}

/* At the maximum, one byte below it, and for what is beyond it from the start. */
TEST_F(InGroup, TheMaximumIsExact)
{
	for (size_t bytes : { (size_t)1000, (size_t)20000, (size_t)100000 }) {
		void *kept = in_group(bytes);
		const size_t charge = usage(group);

		for (size_t least : { (size_t)0, (size_t)1 }) {
			ASSERT_EQ(slub_group_limit_set(group, SLUB_GROUP_MAX,
						       2 * charge - least), 0);
			for (int i = 0; i < 3; i++) {
				calls = {};
				errno = 0;
				void *block = in_group(bytes);
				int err = errno;

				EXPECT_EQ(block != nullptr, !least) << bytes << " " << least;
				if (!block) {
					EXPECT_EQ(err, ENOMEM);
				}
				free(block);
				EXPECT_EQ(usage(group), charge);
			}
		}
		ASSERT_EQ(slub_group_limit_set(group, SLUB_GROUP_MAX, SLUB_GROUP_NO_LIMIT), 0);
		free(kept);
	}
	EXPECT_EQ(in_group(PTRDIFF_MAX), nullptr);
	EXPECT_EQ(in_group((size_t)1 << 50), nullptr);
}

/* A block that was kept whole is refused as well, and stays free. */
TEST_F(InGroup, AKeptBlockBeyondTheMaximumIsFreedAgain)
{
	size_t pages;

	free(in_group(100000));
	pages = large_nr_pages();
	ASSERT_EQ(slub_group_limit_set(group, SLUB_GROUP_MAX, 50000), 0);
	errno = 0;
	EXPECT_EQ(in_group(100000), nullptr);
	EXPECT_EQ(errno, ENOMEM);
	EXPECT_EQ(large_nr_pages(), pages);
	EXPECT_EQ(usage(group), 0u);
}

TEST_F(InGroup, NothingIsChargedForWhatThereIsNoMemoryFor)
{
	no_large = true;
	EXPECT_EQ(in_group(100000), nullptr);
	EXPECT_EQ(in_group(3 << 20), nullptr);
	no_large = false;
	EXPECT_EQ(usage(group), 0u);
}

/* Another group's objects in the lists: each is handed over with its charge. */
TEST_F(InGroup, ObjectsChangeHandsWithTheirCharge)
{
	void *blocks[40];

	for (size_t bytes : { (size_t)100, CLASS_WORD_MAX, (size_t)5000, CLASS_BYTES_MAX }) {
		for (int round = 0; round < 6; round++) {
			struct slub_group *now = round % 2 ? other : group;
			size_t sum = 0;

			for (void *&block : blocks) {
				block = in(now, bytes);
				ASSERT_NE(block, nullptr);
				sum += cache_of(block)->object_size;
				ASSERT_EQ(usage(now), sum) << bytes;
				ASSERT_EQ(usage(round % 2 ? group : other), 0u);
			}
			for (void *block : blocks)
				free(block);
			EXPECT_EQ(usage(now), 0u);
		}
	}
}

/* A handler that interrupted the holder of a lock: no second cache is made. */
TEST_F(InGroup, NoCacheIsMadeUnderALock)
{
	struct slub_cache *unused = sizeclass_get(23000, 16);

	if (!cache_shadow(unused, SHADOW_ACCOUNTED)) {
		slub_thread.locks_held++;
		EXPECT_EQ(sizeclass_accounted(unused), nullptr);
		slub_thread.locks_held--;
	}
	struct slub_cache *made = sizeclass_accounted(unused);
	EXPECT_NE(made, nullptr);
	slub_thread.locks_held++;
	EXPECT_EQ(sizeclass_accounted(unused), made) << "it is there now";
	slub_thread.locks_held--;
}

TEST_F(InGroup, FreesLeaveErrnoAlone)
{
	void *blocks[2000];

	for (size_t bytes : { 100, 5000 }) {
		for (void *&block : blocks)
			block = in_group(bytes);
		errno = 77;
		for (void *block : blocks)
			free(block);
		EXPECT_EQ(errno, 77);
	}
}

} /* namespace */
