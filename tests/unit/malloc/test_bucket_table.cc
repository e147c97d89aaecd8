/* SPDX-License-Identifier: MIT */
/* features/buckets: the table of buckets, and that of a bucket's classes, to their ends. */
#include <cerrno>
#include <cstring>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "slub.h"

#define _Static_assert static_assert
extern "C" {
#include "core/base/hash.h"
#include "features/buckets/bucket_internal.h"
#include <slub/bucket.h>
#include <slub/group.h>
}
#undef _Static_assert

namespace {

int error_of(const char *name, unsigned long flags = 0)
{
	struct slub_bucket *bucket;

	errno = 0;
	bucket = slub_bucket_create(name, flags);
	EXPECT_EQ(bucket, nullptr) << name;
	return errno;
}

/* Of one hash, so that each stands behind the other in the table. */
TEST(BucketTable, NamesOfOneHash)
{
	auto place = [](const std::string &name) {
		return hash_gnu(name.c_str()) * HASH_MULTIPLIER >> 55;
	};
	std::vector<std::string> names = { "n0" };
	std::vector<struct slub_bucket *> buckets;

	for (int i = 1; names.size() < 4; i++) {
		std::string name = "n" + std::to_string(i);

		if (place(name) == place(names[0]))
			names.push_back(name);
	}
	for (auto &name : names)
		buckets.push_back(slub_bucket_create(name.c_str(), 0));
	for (size_t gone : { 1, 3, 0 }) {
		EXPECT_EQ(slub_bucket_destroy(buckets[gone]), 0);
		for (size_t i = 0; i < names.size(); i++) {
			if (i != gone) {
				EXPECT_EQ(error_of(names[i].c_str()), EEXIST) << gone << " " << i;
			}
		}
		buckets[gone] = slub_bucket_create(names[gone].c_str(), 0);
		ASSERT_NE(buckets[gone], nullptr);
	}
	for (auto bucket : buckets)
		EXPECT_EQ(slub_bucket_destroy(bucket), 0);
	for (auto &name : names) {
		struct slub_bucket *anew = slub_bucket_create(name.c_str(), 0);

		ASSERT_NE(anew, nullptr);
		EXPECT_EQ(slub_bucket_destroy(anew), 0);
	}
}

/*
 * Each class from the first to the last, and none beyond: behind the last one lies the next
 * bucket's first word, which is nobody's while it is live.
 */
TEST(BucketTable, EachClassAndNoOther)
{
	struct slub_group *group = slub_group_create("bucket", nullptr);
	struct slub_cache *beyond = slub_cache_create("beyond", 64, 0, SLUB_CACHE_ACCOUNT |
						      SLUB_CACHE_NO_MERGE, nullptr);
	std::vector<struct slub_bucket *> buckets;
	struct slub_bucket *bucket = nullptr, *next = nullptr;
	struct slub_bucket_stats stats;

	for (int i = 0; i < 8; i++)
		buckets.push_back(slub_bucket_create(("row" + std::to_string(i)).c_str(),
						     SLUB_CACHE_ACCOUNT));
	for (auto a : buckets)
		for (auto b : buckets)
			if ((void *)&a->classes[CLASS_NR] == &b->free_link) {
				bucket = a;
				next = b;
			}
	ASSERT_NE(bucket, nullptr);
	void *first = slub_bucket_alloc(bucket, 1);
	void *last = slub_bucket_alloc(bucket, CLASS_BYTES_MAX);
	void *object = slub_cache_alloc(beyond);
	next->free_link = beyond;
	EXPECT_EQ(slub_bucket_group_set(bucket, group), 0);
	EXPECT_NE(bucket->classes[0]->place, 0u);
	EXPECT_NE(bucket->classes[CLASS_NR - 1]->place, 0u);
	EXPECT_EQ(beyond->place, 0u);
	EXPECT_EQ(slub_bucket_stats(bucket, &stats), 0);
	EXPECT_EQ(stats.live_blocks, 2u);
	EXPECT_EQ(stats.classes, 2u);
	slub_bucket_free(bucket, first);
	EXPECT_EQ(slub_bucket_destroy(bucket), -EBUSY) << "for the last class";
	EXPECT_EQ(slub_bucket_clear(bucket), 0);
	EXPECT_EQ(slub_bucket_stats(bucket, &stats), 0);
	EXPECT_EQ(stats.live_blocks, 0u) << last;
	first = slub_bucket_alloc(bucket, 1);
	EXPECT_EQ(slub_bucket_destroy(bucket), -EBUSY) << "for the first class";
	EXPECT_EQ(slub_bucket_clear(bucket), 0);
	EXPECT_EQ(slub_bucket_stats(bucket, &stats), 0);
	EXPECT_EQ(stats.live_blocks, 0u) << first;
	EXPECT_EQ(slub_bucket_destroy(bucket), 0);
	EXPECT_EQ(next->free_link, beyond);
	memset(object, 5, 64);
	slub_cache_free(beyond, object);
	EXPECT_EQ(slub_cache_destroy(beyond), 0);
	next->free_link = nullptr;
	for (auto each : buckets)
		if (each != bucket) {
			EXPECT_EQ(slub_bucket_destroy(each), 0);
		}
	EXPECT_EQ(slub_group_destroy(group), 0);
}

/* What is told of it: the class's flags are the bucket's, but for the end of the program. */
TEST(BucketFlags, AClassThatCannotBeMadeIsNoPanic)
{
	if (SLUB_CONFIG_HARDENED)
		GTEST_SKIP() << "blocks have other sizes";
	struct slub_bucket *bucket = slub_bucket_create("panic", SLUB_CACHE_PANIC |
							SLUB_CACHE_ACCOUNT |
							SLUB_CACHE_RECLAIM_ACCOUNT);
	struct slub_cache *taken = slub_cache_create("panic-64", 64, 0, 0, nullptr);

	errno = 0;
	EXPECT_EQ(slub_bucket_alloc(bucket, 64), nullptr);
	EXPECT_EQ(errno, EEXIST);
	void *block = slub_bucket_alloc(bucket, 65);
	EXPECT_TRUE(cache_of(block)->flags & SLUB_CACHE_RECLAIM_ACCOUNT);
	EXPECT_FALSE(cache_of(block)->flags & SLUB_CACHE_PANIC);
	EXPECT_EQ(slub_cache_destroy(taken), 0);
	EXPECT_EQ(slub_bucket_destroy_all(bucket), 0);
}

} /* namespace */
