// SPDX-License-Identifier: MIT
// core/slab/suspect.c: what looks like misuse is made certain, or nobody is accused.
#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <vector>

#include "harness.h"
#include "slub.h"
#include "start.h"

extern "C" {
#include "features/misuse/misuse.h"
#include "core/slab/key.h"
}

namespace {

class Suspect : public testing::Test {
protected:
	void SetUp() override
	{
		if (!KEYS)
			GTEST_SKIP() << "a build without keys";
		static char ignore[] = "SLUB_ON_ERROR=ignore";
		char *environment[] = {ignore, nullptr};

		option_read(environment);
		object = malloc(96);
		cache = cache_of(object);
		ASSERT_NE(cache, nullptr);
		ASSERT_TRUE(cache->has_keys);
		before = misuse_nr_found();
	}
	uint64_t found() const { return misuse_nr_found() - before; }

	void *object;
	struct slub_cache *cache;
	uint64_t before;
};

TEST_F(Suspect, allocated_objects_have_no_key_and_free_ones_do)
{
	EXPECT_FALSE(key_is_set(cache, object));
	free(harness::opaque(object));
	EXPECT_TRUE(key_is_set(cache, object));
}

TEST_F(Suspect, a_copied_key_is_innocent)
{
	uint8_t suspects = cache->suspects;

	key_set(cache, object);
	EXPECT_TRUE(suspect_free(cache, object, "free"));
	EXPECT_EQ(cache->suspects, suspects + 1);
	EXPECT_EQ(found(), 0u);
	free(harness::opaque(object));
	EXPECT_EQ(found(), 0u);
}

/* Wherever it lies: in a list, in a barn, on its slab. */
TEST_F(Suspect, a_free_object_is_found)
{
	free(harness::opaque(object));
	EXPECT_FALSE(suspect_free(cache, object, "free"));
	EXPECT_EQ(found(), 1u);
	cache_flush(cache);
	EXPECT_FALSE(suspect_free(cache, object, "free"));
	EXPECT_EQ(found(), 2u);
}

TEST_F(Suspect, a_free_object_is_freed_once)
{
	free(harness::opaque(object));
	cache_free(cache, object);
	EXPECT_EQ(found(), 1u);
	void *one = malloc(96), *two = malloc(96);
	EXPECT_NE(one, two);
	free(harness::opaque(one));
	free(harness::opaque(two));
}

TEST_F(Suspect, nobody_is_accused_under_a_lock)
{
	slub_thread.locks_held++;
	key_set(cache, object);
	EXPECT_FALSE(suspect_free(cache, object, "free"));
	slub_thread.locks_held--;
	EXPECT_EQ(found(), 0u);
	key_clear(object);
	free(harness::opaque(object));
}

/* A postponed free has its key; whoever carries it out is not to take that for a second free. */
TEST_F(Suspect, a_postponed_free_accuses_nobody)
{
	uint8_t suspects = cache->suspects;
	std::vector<void *> objects;

	for (int i = 0; i < 4000; i++)
		objects.push_back(malloc(96));
	slub_thread.locks_held++;
	for (void *&o : objects) {
		cache_free(cache, o);
		o = nullptr;
		if (cache_postponed)
			break;
	}
	slub_thread.locks_held--;
	ASSERT_NE(cache_postponed, nullptr);
	cache_free_postponed();
	EXPECT_EQ(cache_postponed, nullptr);
	EXPECT_EQ(cache->suspects, suspects);
	EXPECT_EQ(found(), 0u);
	for (void *o : objects)
		free(harness::opaque(o));
}

// A push that is aborted has written the key, or has found it there.
TEST_F(Suspect, an_aborted_free_is_the_first_or_the_second)
{
	uint8_t suspects = cache->suspects;

	for (bool is_marked : { false, true }) {
		key_set(cache, object);
		*key_of(object) = is_marked ? *key_of(object) : 0;
		EXPECT_TRUE(suspect_aborted(cache, object));
		EXPECT_FALSE(key_is_set(cache, object));
	}
	EXPECT_EQ(cache->suspects, suspects);
	EXPECT_EQ(found(), 0u);
	free(harness::opaque(object));
	EXPECT_FALSE(suspect_aborted(cache, object));
	EXPECT_TRUE(key_is_set(cache, object));
	EXPECT_EQ(found(), 1u);
}

/* Freed twice, and cleared in between: KEY-4. */
TEST_F(Suspect, a_chain_that_goes_round_has_no_end)
{
	void *other = malloc(96);

	chain_set_next(cache, object, other);
	chain_set_next(cache, other, object);
	EXPECT_FALSE(chain_ends(cache, object, CHAIN_MOST));
	EXPECT_EQ(found(), 1u);
	chain_set_next(cache, other, nullptr);
	EXPECT_TRUE(chain_ends(cache, object, 2));
	EXPECT_FALSE(chain_ends(cache, object, 1));
	EXPECT_EQ(found(), 2u);
	for (void *o : { object, other }) {
		key_clear(o);
		free(harness::opaque(o));
	}
}

/* It may be in use: a walk ends in front of it, and writes nothing there. */
TEST_F(Suspect, a_damaged_object_is_left_out_of_a_chain)
{
	uintptr_t *other = static_cast<uintptr_t *>(malloc(96));

	for (bool near : { false, true }) {
		chain_set_next(cache, object, other);
		other[0] = 11;
		other[1] = 12;
		before = misuse_nr_found();
		EXPECT_EQ(near ? chain_next_near(cache, object) : chain_next(cache, object),
			  nullptr);
		EXPECT_EQ(found(), 1u);
		EXPECT_EQ(chain_next(cache, object), nullptr);
		EXPECT_EQ(found(), 1u) << "it ends here now";
		EXPECT_EQ(other[0], 11u);
		EXPECT_EQ(other[1], 12u);
	}
	EXPECT_EQ(chain_head(cache, other), nullptr);
	EXPECT_EQ(chain_head(cache, object), object);
	EXPECT_EQ(chain_head(cache, nullptr), nullptr);
	key_clear(object);
	free(harness::opaque(object));
	free(harness::opaque(other));
}

TEST_F(Suspect, starts_are_known)
{
	for (size_t at = 1; at < 96; at++)
		EXPECT_FALSE(cache_is_at_object(cache, static_cast<char *>(object) + at)) << at;
	EXPECT_TRUE(cache_is_at_object(cache, object));
	EXPECT_FALSE(suspect_free(cache, static_cast<char *>(object) + 16, "free"));
	EXPECT_EQ(found(), 1u);
	free(harness::opaque(object));
}

TEST_F(Suspect, a_chain_ends_where_its_link_is_none)
{
	void *other = malloc(200);
	static long elsewhere[4];

	for (void *next : {static_cast<void *>(elsewhere), other,
			   reinterpret_cast<void *>(0x4141414141414141),
			   static_cast<void *>(static_cast<char *>(object) + 16)}) {
		uint64_t now = found();

		chain_set_next(cache, object, next);
		EXPECT_EQ(chain_next(cache, object), nullptr);
		EXPECT_EQ(found(), now + 1);
		EXPECT_EQ(*link_of(cache, object), nullptr);
	}
	free(harness::opaque(object));
	free(harness::opaque(other));
}

// In the list that the thread takes from.
TEST_F(Suspect, what_is_written_to_free_memory_is_not_handed_out)
{
	start::one_cpu stays;
	char *a = static_cast<char *>(malloc(96)), *b = static_cast<char *>(malloc(96));

	free(harness::opaque(b));
	free(harness::opaque(a));
	memset(harness::opaque(a), 'A', 96);
	for (int i = 0; i < 1000; i++) {
		void *p = malloc(96);

		ASSERT_EQ(cache_of(p), cache);
		memset(p, 0, 96);
	}
	EXPECT_GE(found(), 1u);
}

} // namespace
