/* SPDX-License-Identifier: MIT */
/* Promise: slub_cache_find() and slub_cache_for_each(). */
#include <cerrno>
#include <cstdlib>
#include <gtest/gtest.h>
#include <map>
#include <string>

#include <slub/slub.h>

struct node {
	long words[9];
};
SLUB_CACHE_DEFINE_STATIC(variable, struct node, 0, NULL);

using Caches = std::map<std::string, slub_cache *>;

static int note(struct slub_cache *cache, void *arg)
{
	auto &caches = *(Caches *)arg;
	const char *name = slub_cache_name(cache);

	EXPECT_EQ(caches.count(name), 0u) << "twice: " << name;
	caches[name] = cache;
	return 0;
}

static Caches all()
{
	Caches caches;

	EXPECT_EQ(slub_cache_for_each(note, &caches), 0);
	return caches;
}

TEST(Find, AllAndEach)
{
	struct slub_cache *cache = slub_cache_create("find-me", 40, 0, 0, nullptr);
	void *object = slub_cache_alloc(&variable);
	Caches caches;

	ASSERT_NE(cache, nullptr);
	ASSERT_NE(object, nullptr);
	EXPECT_EQ(slub_cache_find("find-me"), cache);
	EXPECT_EQ(slub_cache_find("variable"), slub_cache_of(object));
	free(malloc(60));
	EXPECT_EQ(slub_cache_size(slub_cache_find("malloc-64")), 64u);
	caches = all();
	EXPECT_EQ(caches["find-me"], cache);
	EXPECT_EQ(caches["variable"], slub_cache_of(object));
	for (auto &[name, found] : caches)
		EXPECT_EQ(slub_cache_find(name.c_str()), found) << name;
	slub_cache_free(&variable, object);
	EXPECT_EQ(slub_cache_destroy(cache), 0);
	EXPECT_EQ(slub_cache_find("find-me"), nullptr);
	EXPECT_EQ(all().count("find-me"), 0u);
}

TEST(Find, NotWhatStandsForAnother)
{
	struct slub_cache *cache = slub_cache_create("watch-me", 40, 0, 0, nullptr);

	ASSERT_NE(cache, nullptr);
	ASSERT_EQ(slub_cache_debug(cache, SLUB_CACHE_RED_ZONE | SLUB_CACHE_POISON), 0);
	void *object = slub_cache_alloc(cache);
	for (auto &[name, found] : all())
		EXPECT_EQ(name.find(':'), name.npos) << name;
	EXPECT_EQ(slub_cache_find("watch-me"), cache);
	EXPECT_EQ(slub_cache_find("watch-me:ZP"), nullptr);
	slub_cache_free(cache, object);
	EXPECT_EQ(slub_cache_destroy(cache), 0);
}

static int destroy_it(struct slub_cache *cache, void *arg)
{
	if (cache != *(slub_cache **)arg)
		return 0;
	return slub_cache_destroy(cache) == -EDEADLK && malloc(1000) ? 77 : 1;
}

TEST(Find, HoldsWhatItVisits)
{
	struct slub_cache *cache = slub_cache_create("hold-me", 40, 0, 0, nullptr);

	ASSERT_NE(cache, nullptr);
	EXPECT_EQ(slub_cache_for_each(destroy_it, &cache), 77);
	EXPECT_EQ(slub_cache_destroy(cache), 0) << "not held any more";
}

TEST(Find, RefusesWhatCannotBe)
{
	errno = 0;
	EXPECT_EQ(slub_cache_find(nullptr), nullptr);
	EXPECT_EQ(errno, EINVAL);
	for (const char *name : { "", "none", "malloc-", "malloc-65" }) {
		errno = 0;
		EXPECT_EQ(slub_cache_find(name), nullptr) << name;
		EXPECT_EQ(errno, ENOENT) << name;
	}
	EXPECT_EQ(slub_cache_for_each(nullptr, nullptr), -EINVAL);
}
