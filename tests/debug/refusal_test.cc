/* SPDX-License-Identifier: MIT */
/*
 * Promise: with letter A every SLUB_DEBUG_FAIL-th allocation fails, for its caller to see, and at
 * once: nobody is asked for memory, of which there is enough.
 */
#include <cerrno>
#include <cstdlib>
#include <functional>
#include <gtest/gtest.h>

#include <slub/debug.h>
#include <slub/reserve.h>
#include <slub/shrinker.h>

#include "harness.h"

namespace {

const int NR = 1000;
const size_t BYTES = 2900;

size_t asked;

size_t count(struct slub_shrinker *, struct slub_shrink_control *) noexcept
{
	asked++;
	return 0;
}

size_t scan(struct slub_shrinker *, struct slub_shrink_control *) noexcept
{
	return SLUB_SHRINK_STOP;
}

/* How many of NR allocations fail, by ENOMEM. */
int failures(const std::function<void *()> &alloc)
{
	void *probe = alloc();
	struct slub_cache *cache = slub_cache_of(probe);
	int nr = 0;

	slub_free(probe);
	EXPECT_EQ(slub_cache_debug(cache, SLUB_CACHE_FAILSLAB), 0);
	for (int i = 0; i < NR; i++) {
		errno = 0;
		void *object = alloc();
		nr += !object && errno == ENOMEM;
		slub_free(object);
	}
	slub_cache_debug(cache, 0);
	return nr;
}

class refusal : public testing::Test {
protected:
	struct slub_shrinker shrinker = {};
	int every = atoi(getenv("SLUB_DEBUG_FAIL"));

	void SetUp() override
	{
		shrinker.name = "asked";
		shrinker.count = count;
		shrinker.scan = scan;
		shrinker.seeks = SLUB_SHRINKER_SEEKS;
		ASSERT_EQ(slub_shrinker_create(&shrinker), 0);
		asked = 0;
	}
	void TearDown() override
	{
		EXPECT_EQ(asked, 0u) << "somebody was asked for memory";
		EXPECT_EQ(slub_shrinker_destroy(&shrinker), 0);
	}
};

TEST_F(refusal, of_malloc)
{
	EXPECT_EQ(failures([] { return malloc(harness::opaque(BYTES)); }), NR / every);
	EXPECT_EQ(failures([] { return calloc(1, harness::opaque(BYTES)); }), NR / every);
	EXPECT_EQ(failures([] { return aligned_alloc(256, harness::opaque(BYTES)); }),
		  NR / every);
}

TEST_F(refusal, of_a_typed_cache)
{
	struct slub_cache *cache = slub_cache_create("refused", 200, 0, 0, nullptr);

	ASSERT_NE(cache, nullptr);
	EXPECT_EQ(failures([&] { return slub_cache_alloc(cache); }), NR / every);
	EXPECT_EQ(failures([&] { return slub_cache_zalloc(cache); }), NR / every);
	EXPECT_EQ(slub_cache_destroy(cache), 0);
}

/* Who may take of the reserve is to see the failure, too. */
TEST_F(refusal, of_those_who_have_a_reserve)
{
	struct slub_cache *cache = slub_cache_create("refused-reserve", 200, 0, 0, nullptr);

	ASSERT_NE(cache, nullptr);
	ASSERT_EQ(slub_reserve_set(1 << 18), 0);
	EXPECT_EQ(failures([&] { return slub_cache_alloc_flags(cache, SLUB_ALLOC_RESERVE); }),
		  NR / every);
	EXPECT_EQ(slub_reserve_leave(), -EINVAL) << "not entered";
	EXPECT_EQ(slub_reserve_enter(), 0);
	EXPECT_EQ(slub_reserve_enter(), 0);
	EXPECT_EQ(slub_reserve_leave(), 0) << "they nest";
	EXPECT_EQ(failures([&] { return slub_cache_alloc(cache); }), NR / every);
	EXPECT_EQ(failures([] { return malloc(harness::opaque(BYTES)); }), NR / every);
	EXPECT_EQ(slub_reserve_leave(), 0);
	EXPECT_EQ(slub_reserve_bytes(), 1u << 18);
	EXPECT_EQ(slub_reserve_set(0), 0);
	EXPECT_EQ(slub_cache_destroy(cache), 0);
}

/* All or nothing: of @every at once one fails, and all come back. */
TEST_F(refusal, of_a_bulk)
{
	struct slub_cache *cache = slub_cache_create("refused-bulk", 200, 0, 0, nullptr);
	std::vector<void *> objects((size_t)every);

	ASSERT_NE(cache, nullptr);
	ASSERT_EQ(slub_cache_debug(cache, SLUB_CACHE_FAILSLAB), 0);
	for (int i = 0; i < 20; i++)
		EXPECT_EQ(slub_cache_alloc_bulk(cache, 0, objects.size(), objects.data()), 0u);
	EXPECT_EQ(slub_cache_destroy(cache), 0);
}

} /* namespace */
