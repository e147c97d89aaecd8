/* SPDX-License-Identifier: MIT */
/* Promise: with SLUB_MERGE=1 caches of one shape are one cache, and only those. */
#include <slub/debug.h>

#include "api.h"

namespace {

struct merged : testing::Test {
	std::vector<struct slub_cache *> made;

	struct slub_cache *make(size_t size, size_t align = 0, unsigned long flags = 0,
				void (*ctor)(void *) = nullptr)
	{
		made.push_back(slub_cache_create(api::cache::name().c_str(), size, align, flags,
						 ctor));
		EXPECT_NE(made.back(), nullptr);
		return made.back();
	}
	void TearDown() override
	{
		for (auto *cache : made)
			EXPECT_EQ(slub_cache_destroy(cache), 0);
	}
};

TEST_F(merged, same_shape_is_one_cache)
{
	struct slub_cache *a = make(64);

	EXPECT_EQ(make(64), a);
	EXPECT_EQ(make(60), a) << "it has room for it";
	EXPECT_EQ(make(57, 4), a);
	EXPECT_EQ(make(64, 8), a);
}

TEST_F(merged, another_shape_is_not)
{
	struct slub_cache *a = make(96);

	EXPECT_NE(make(104), a);
	EXPECT_NE(make(88), a) << "it would lose eight bytes";
	EXPECT_NE(make(96, 64), a);
	EXPECT_NE(make(96, 0, SLUB_CACHE_HWCACHE_ALIGN), a) << "its objects would not be aligned";
	EXPECT_NE(make(96, 0, SLUB_CACHE_NO_MERGE), a);
	EXPECT_NE(make(96, 0, SLUB_CACHE_ACCOUNT), a);
	EXPECT_NE(make(96, 0, SLUB_CACHE_RECLAIM_ACCOUNT), a);
	EXPECT_NE(make(96, 0, SLUB_CACHE_TYPESAFE_BY_RCU), a);
	EXPECT_NE(make(96, 0, 0, [](void *) {}), a);
}

TEST_F(merged, what_must_be_aligned_is)
{
	make(96);
	struct slub_cache *aligned = make(96, 0, SLUB_CACHE_HWCACHE_ALIGN);

	void *objects[50];

	for (void *&object : objects) {
		object = slub_cache_alloc(aligned);
		EXPECT_EQ((uintptr_t)object % 64, 0u);
	}
	slub_cache_free_bulk(aligned, 50, objects);
}

TEST_F(merged, none_joins_one_with_a_constructor_or_a_promise_of_its_own)
{
	struct slub_cache *ctor = make(200, 0, 0, [](void *) {});
	struct slub_cache *alone = make(208, 0, SLUB_CACHE_NO_MERGE);
	struct slub_cache *typesafe = make(216, 0, SLUB_CACHE_TYPESAFE_BY_RCU);
	struct slub_cache_args args = {};

	EXPECT_NE(make(200), ctor);
	EXPECT_NE(make(208), alone);
	EXPECT_NE(make(216), typesafe);
	args.name = "with-window";
	args.size = 232;
	args.usersize = 10;
	made.push_back(slub_cache_create_args(&args));
	EXPECT_NE(make(232), made.back());
}

/* Its window would be lost: what lies outside of it could be copied. */
TEST_F(merged, a_window_is_kept)
{
	struct slub_cache *plain = make(240);
	struct slub_cache_args args = {};

	args.name = "window-second";
	args.size = 240;
	args.usersize = 10;
	made.push_back(slub_cache_create_args(&args));
	EXPECT_NE(made.back(), plain);
}

TEST_F(merged, a_shorter_object_may_be_used_up_to_its_own_size)
{
	struct slub_cache *a = make(64), *b = make(58);
	void *object = slub_cache_zalloc(b);

	EXPECT_EQ(a, b);
	EXPECT_EQ(harness::first_nonzero(object, 58), 58u);
	EXPECT_TRUE(slub_copy_allowed(object, 58));
	slub_cache_free(b, object);
}

/* What somebody has said of its lists goes for its own. */
TEST_F(merged, a_sheaf_length_is_kept)
{
	struct slub_cache *plain = make(424);
	struct slub_cache_args args = {};

	args.name = "sheaf-second";
	args.size = 424;
	args.sheaf_length = 4;
	made.push_back(slub_cache_create_args(&args));
	EXPECT_NE(made.back(), plain);
	args.name = "sheaf-first";
	args.size = 432;
	made.push_back(slub_cache_create_args(&args));
	EXPECT_NE(make(432), made.back());
}

/* Its user may destroy it and unmap it, for all it knows. */
struct large_thing {
	char bytes[440];
};
SLUB_CACHE_DEFINE_STATIC(merge_variable, struct large_thing, 0, NULL);

TEST_F(merged, a_variable_is_its_programs_own)
{
	void *object = slub_cache_alloc(&merge_variable);

	ASSERT_NE(object, nullptr);
	EXPECT_NE(make(440), &merge_variable);
	slub_cache_free(&merge_variable, object);
	EXPECT_EQ(slub_cache_destroy(&merge_variable), 0);
}

/* SLUB_DEBUG asks for those whose name begins with "watched-". */
TEST_F(merged, one_that_is_to_be_watched_is)
{
	struct slub_cache *plain = make(448);

	made.push_back(slub_cache_create("watched-one", 448, 0, 0, nullptr));
	EXPECT_NE(made.back(), plain);
	EXPECT_EQ(slub_cache_validate(made.back()), 0) << "it is watched";
	EXPECT_EQ(slub_cache_validate(plain), -EINVAL);
}

std::vector<std::string> aliases_of(const struct slub_cache *cache)
{
	std::vector<std::string> all;
	char name[SLUB_CACHE_NAME_MAX + 1];

	for (unsigned int n = 0; slub_cache_alias(cache, n, name); n++)
		all.push_back(name);
	return all;
}

TEST(merge, keeps_the_names_of_all)
{
	using names = std::vector<std::string>;
	struct slub_cache *a = slub_cache_create("name-a", 344, 0, 0, nullptr);

	ASSERT_NE(a, nullptr);
	EXPECT_EQ(aliases_of(a), names());
	EXPECT_EQ(slub_cache_create("name-b", 344, 0, 0, nullptr), a);
	EXPECT_EQ(slub_cache_create("name-c", 340, 0, 0, nullptr), a);
	EXPECT_STREQ(slub_cache_name(a), "name-a");
	EXPECT_EQ(aliases_of(a), (names{ "name-b", "name-c" }));
	/* A name is taken, as an alias or as the cache's own, whatever is asked for. */
	for (const char *name : { "name-a", "name-b", "name-c" }) {
		for (size_t size : { 344, 1000 }) {
			errno = 0;
			EXPECT_EQ(slub_cache_create(name, size, 0, 0, nullptr), nullptr);
			EXPECT_EQ(errno, EEXIST) << name << " " << size;
		}
	}
	EXPECT_EQ(aliases_of(a), (names{ "name-b", "name-c" })) << "nothing was added";
	EXPECT_EQ(slub_cache_destroy(a), 0);
	EXPECT_EQ(aliases_of(a), names{ "name-b" }) << "the last name is free";
	EXPECT_EQ(slub_cache_create("name-c", 344, 0, 0, nullptr), a);
	EXPECT_EQ(aliases_of(a), (names{ "name-b", "name-c" }));
	for (int i = 0; i < 3; i++)
		EXPECT_EQ(slub_cache_destroy(a), 0);
	EXPECT_EQ(aliases_of(a), names()) << "no cache";
	EXPECT_EQ(aliases_of(nullptr), names());
}

TEST(merge, many_names)
{
	struct slub_cache *a = slub_cache_create("many", 352, 0, 0, nullptr);
	char name[SLUB_CACHE_NAME_MAX + 1] = "untouched";

	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 1000; i++)
			ASSERT_EQ(slub_cache_create(("many-" + std::to_string(i)).c_str(), 352, 0,
						    0, nullptr), a);
		EXPECT_FALSE(slub_cache_alias(a, 1000, name));
		EXPECT_STREQ(name, "untouched");
		EXPECT_TRUE(slub_cache_alias(a, 999, name));
		EXPECT_STREQ(name, "many-999");
		for (int i = 0; i < 1000; i++)
			EXPECT_EQ(slub_cache_destroy(a), 0);
		strcpy(name, "untouched");
	}
	EXPECT_EQ(slub_cache_destroy(a), 0);
}

TEST(merge, takes_as_many_destroys_as_creates)
{
	struct slub_cache *a = slub_cache_create("alias-1", 328, 0, 0, nullptr);
	struct slub_cache *b = slub_cache_create("alias-2", 328, 0, 0, nullptr);
	void *object = slub_cache_alloc(a);

	ASSERT_EQ(a, b);
	EXPECT_EQ(slub_cache_destroy(a), 0) << "the other goes on";
	slub_cache_free(b, object);
	object = slub_cache_alloc(b);
	ASSERT_NE(object, nullptr);
	EXPECT_EQ(slub_cache_destroy(b), -EBUSY);
	slub_cache_free(b, object);
	EXPECT_EQ(slub_cache_destroy(b), 0);
	EXPECT_EQ(slub_cache_destroy(b), -EINVAL);
}

TEST(merge, is_off_unless_asked_for)
{
	EXPECT_EQ(api::run_again({ "SLUB_MERGE=0" }, "apart"), 0);
}

} /* namespace */

extern "C" int act_instead(int argc, char **argv)
{
	if (!api::act_name(argc, argv))
		return -1;
	struct slub_cache *a = slub_cache_create("a", 64, 0, 0, nullptr);

	MUST(a && a != slub_cache_create("b", 64, 0, 0, nullptr));
	return 0;
}
