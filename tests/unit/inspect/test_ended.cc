/* SPDX-License-Identifier: MIT */
/*
 * Tables and sums on which a cache ends: who walks without a lock may stand on one whose structure
 * is being cleared for the next, with objects in its slabs, to all appearances, but no name and no
 * size.
 */
#include <gtest/gtest.h>
#include <malloc.h>
#include <vector>

#include "harness.h"
#include "start.h"

#include <slub/debug.h>
#include <slub/group.h>

namespace {

class ended : public testing::Test {
protected:
	void SetUp() override
	{
		cache = slub_cache_create("ending", 120, 0, SLUB_CACHE_ACCOUNT |
				SLUB_CACHE_NO_MERGE, nullptr);
		ASSERT_NE(cache, nullptr);
		for (int i = 0; i < 100; i++)
			objects.push_back(slub_cache_alloc(cache));
		/* Some are free, and in their slab. */
		slub_cache_free(cache, objects.back());
		objects.pop_back();
		slub_cache_shrink(cache);
	}
	void TearDown() override
	{
		slub_cache_free_bulk(cache, objects.size(), objects.data());
		EXPECT_EQ(slub_cache_destroy(cache), 0);
	}
	/* Calls @what while the cache is as cache_struct_alloc() leaves it. */
	template <class What> void meanwhile(What what)
	{
		uint32_t state = cache->state, size = cache->size;
		const char *name = cache->name;

		cache->state = CACHE_NOT_MADE;
		cache->size = 0;
		cache->name = nullptr;
		what();
		cache->name = name;
		cache->size = size;
		cache->state = state;
	}

	struct slub_cache *cache = nullptr;
	std::vector<void *> objects;
};

TEST_F(ended, malloc_info_has_no_line_for_it)
{
	char *text = nullptr;
	size_t bytes = 0;
	FILE *file = open_memstream(&text, &bytes);

	meanwhile([&] { EXPECT_EQ(malloc_info(0, file), 0); });
	fclose(file);
	EXPECT_EQ(std::string(text).find("ending"), std::string::npos);
	free(text);
}

TEST_F(ended, a_group_has_none_of_its_objects)
{
	struct slub_group *group = slub_group_create("group", nullptr);
	struct slub_group_memory memory;
	void *object;

	ASSERT_NE(group, nullptr);
	ASSERT_EQ(slub_group_enter(group), 0);
	object = slub_cache_alloc(cache);
	ASSERT_EQ(slub_group_leave(group), 0);
	EXPECT_EQ(slub_group_memory(group, &memory), 0);
	EXPECT_EQ(memory.objects, 1u);
	meanwhile([&] { EXPECT_EQ(slub_group_memory(group, &memory), 0); });
	EXPECT_EQ(memory.objects, 0u);
	slub_cache_free(cache, object);
	EXPECT_EQ(slub_group_destroy(group), 0);
}

} /* namespace */
