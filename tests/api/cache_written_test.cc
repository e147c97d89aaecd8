/* SPDX-License-Identifier: MIT */
/*
 * Promise: a free object of a cache that was written to is not handed out, nor what its link names
 * then, and a second free of an object is noticed; by all ways to allocate and to free.  What an
 * object keeps while it is free is kept.
 */
#include <algorithm>
#include <tuple>

#include <slub/control.h>

#include "api.h"

namespace {

const bool is_hardened = harness::knows_sizes();

void *alloc_inline(struct slub_cache *cache) { return slub_cache_alloc(cache); }
void *alloc_by_call(struct slub_cache *cache) { return (slub_cache_alloc)(cache); }
void *alloc_by_flags(struct slub_cache *cache) { return slub_cache_alloc_flags(cache, 0); }
void *alloc_by_node(struct slub_cache *cache) { return slub_cache_alloc_node(cache, 0, 0); }
void *alloc_in_bulk(struct slub_cache *cache)
{
	void *object = nullptr;

	return slub_cache_alloc_bulk(cache, 0, 1, &object) ? object : nullptr;
}
void *alloc_aside(struct slub_cache *cache)
{
	struct slub_prefill prefill = {};

	EXPECT_EQ(slub_cache_prefill(cache, &prefill, 1), 0);
	return slub_prefill_alloc(&prefill);
}

void free_inline(struct slub_cache *cache, void *object) { slub_cache_free(cache, object); }
void free_by_call(struct slub_cache *cache, void *object) { (slub_cache_free)(cache, object); }
void free_as_any(struct slub_cache *, void *object) { slub_free(object); }
void free_in_bulk(struct slub_cache *cache, void *object)
{
	slub_cache_free_bulk(cache, 1, &object);
}

struct way {
	const char *name;
	void *(*alloc)(struct slub_cache *cache);
	void (*free)(struct slub_cache *cache, void *object);
};

const way ways[] = {
	{ "inline_free_inline", alloc_inline, free_inline },
	{ "call_free_call", alloc_by_call, free_by_call },
	{ "flags_free_as_any", alloc_by_flags, free_as_any },
	{ "node_free_in_bulk", alloc_by_node, free_in_bulk },
	{ "bulk_free_inline", alloc_in_bulk, free_inline },
	{ "aside_free_in_bulk", alloc_aside, free_in_bulk },
};

/* What is found is reported, and the program goes on. */
class written : public testing::TestWithParam<std::tuple<way, unsigned long>> {
protected:
	void SetUp() override
	{
		ASSERT_EQ(slub_option_set("on_error", "ignore"), 0);
		cache = slub_cache_create(api::cache::name().c_str(), 64, 0,
					  std::get<1>(GetParam()) | SLUB_CACHE_NO_MERGE, nullptr);
		ASSERT_NE(cache, nullptr);
	}
	/* What was damaged stays lost. */
	void TearDown() override { slub_cache_destroy(cache); }

	void *alloc()
	{
		void *object = std::get<0>(GetParam()).alloc(cache);

		return object;
	}
	void release(void *object) { std::get<0>(GetParam()).free(cache, object); }
	/* Link and check word: behind what is kept, else the first two words. */
	static uintptr_t *words(void *object)
	{
		bool is_kept = std::get<1>(GetParam()) & SLUB_CACHE_TYPESAFE_BY_RCU;

		return static_cast<uintptr_t *>(harness::opaque(object)) + (is_kept ? 8 : 0);
	}

	struct slub_cache *cache;
	harness::one_cpu stays;
};

TEST_P(written, objects_are_not_handed_out)
{
	static uintptr_t fake[8];
	void *first = alloc(), *second = alloc();

	ASSERT_NE(first, nullptr);
	ASSERT_NE(second, nullptr);
	release(first);
	release(second);
	words(second)[0] = reinterpret_cast<uintptr_t>(fake);
	for (int i = 0; i < 300; i++) {
		void *object = alloc();

		ASSERT_NE(object, static_cast<void *>(fake)) << i;
		if (object)
			memset(object, 7, 64);
	}
}

TEST_P(written, second_words_are_looked_at)
{
	void *first = alloc(), *second = alloc();

	release(first);
	release(second);
	words(second)[1] ^= 1;
	for (int i = 0; i < 300; i++)
		ASSERT_TRUE(is_hardened || alloc() != second) << i;
}

TEST_P(written, second_frees_are_noticed)
{
	void *objects[3];

	for (void *&object : objects)
		object = alloc();
	for (void *object : objects)
		release(object);
	uint64_t before = api::stats_of(cache).double_free;
	release(objects[0]);
	release(objects[1]);
	EXPECT_EQ(api::stats_of(cache).double_free, before + 2);
	std::vector<void *> got;
	for (int i = 0; i < 300; i++)
		got.push_back(alloc());
	std::sort(got.begin(), got.end());
	EXPECT_EQ(std::adjacent_find(got.begin(), got.end()), got.end()) << "one object twice";
}

/* What it had in it when it was freed looks free; it is not. */
TEST_P(written, a_copy_of_a_free_object_is_innocent)
{
	void *first = alloc(), *second = alloc();

	release(first);
	memcpy(second, harness::opaque(first), 64);
	release(second);
	EXPECT_EQ(api::stats_of(cache).double_free, 0u);
	EXPECT_EQ(api::count_objects(cache), 0u);
}

INSTANTIATE_TEST_SUITE_P(ways, written,
			 testing::Combine(testing::ValuesIn(ways),
					  testing::Values(0ul, (unsigned long)SLUB_CACHE_ACCOUNT,
							  (unsigned long)SLUB_CACHE_TYPESAFE_BY_RCU,
							  (unsigned long)(SLUB_CACHE_ACCOUNT |
								SLUB_CACHE_TYPESAFE_BY_RCU))),
			 [](auto &info) {
				 unsigned long flags = std::get<1>(info.param);

				 return std::string(std::get<0>(info.param).name) +
					(flags & SLUB_CACHE_ACCOUNT ? "_accounted" : "") +
					(flags & SLUB_CACHE_TYPESAFE_BY_RCU ? "_typesafe" : "");
			 });

/* The bytes of a free object, but for those that say it is free. */
struct kept {
	const char *name;
	size_t size, from;
	unsigned long flags;
	void (*ctor)(void *);
};

class keeps : public testing::TestWithParam<kept> {};

TEST_P(keeps, its_bytes)
{
	const kept &kind = GetParam();
	api::cache cache(kind.size, 0, kind.flags, kind.ctor);
	harness::one_cpu stays;

	for (int i = 0; i < 100; i++) {
		auto *object = static_cast<unsigned char *>(slub_cache_alloc(cache));

		memset(object, 0xa5, kind.size);
		slub_cache_free(cache, object);
		for (size_t at = kind.from; at < kind.size; at++)
			ASSERT_EQ(static_cast<unsigned char *>(harness::opaque(object))[at], 0xa5)
				<< at;
	}
}

void ctor(void *) {}

/* The hardened build clears free objects that keep nothing. */
INSTANTIATE_TEST_SUITE_P(kinds, keeps, testing::ValuesIn(std::vector<kept>{
	{ "constructed", 64, 0, 0, ctor },
	{ "typesafe", 64, 0, SLUB_CACHE_TYPESAFE_BY_RCU, nullptr },
	{ "of_a_page", 4096, is_hardened ? 4096u : 0, 0, nullptr },
	{ "others", 64, is_hardened ? 64u : 16, 0, nullptr },
	{ "others_of_a_word", 8, 8, 0, nullptr },
}), [](auto &info) { return info.param.name; });

} /* namespace */
