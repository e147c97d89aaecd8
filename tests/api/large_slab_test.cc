/* SPDX-License-Identifier: MIT */
/*
 * Promise: a slab's counts are wider than 16 bits. With SLUB_MIN_ORDER=8 one slab of a MiB holds
 * 131,072 objects of 8 bytes, 65,536 of 16; all of them are different, found, counted and given
 * back.
 */
#include <algorithm>

#include "api.h"

namespace {

const size_t SLAB_BYTES = 1 << 20;

/* Objects of one slab more than one slab has, each with its own address in it. */
std::vector<uintptr_t *> stamped(struct slub_cache *cache, size_t size)
{
	std::vector<uintptr_t *> objects(SLAB_BYTES / size + 1);

	for (uintptr_t *&object : objects) {
		object = (uintptr_t *)slub_cache_alloc(cache);
		EXPECT_NE(object, nullptr);
		*object = (uintptr_t)object;
	}
	return objects;
}

/* In the order of their addresses: the most that lie in one slab. */
size_t most_in_one_slab(const std::vector<uintptr_t *> &objects)
{
	size_t most = 0, n = 0;
	uintptr_t slab = 0;

	for (uintptr_t *object : objects) {
		n = (uintptr_t)object / SLAB_BYTES == slab ? n + 1 : 1;
		slab = (uintptr_t)object / SLAB_BYTES;
		most = std::max(most, n);
	}
	return most;
}

class large_slab : public testing::TestWithParam<size_t> {};

TEST_P(large_slab, holds_more_objects_than_16_bits_count)
{
	size_t size = GetParam(), most = SLAB_BYTES / size;
	api::cache cache(size, 0, SLUB_NO_MERGE);
	std::vector<uintptr_t *> objects = stamped(cache, size);
	struct slub_cache_stats stats = api::stats_of(cache);

	ASSERT_EQ(stats.slabs, 2u);
	EXPECT_EQ(stats.objects, 2 * most);
	printf("objects of %zu bytes: %lu in %lu slabs, %lu a slab\n", size, stats.objects,
	       stats.slabs, stats.objects / stats.slabs);
	EXPECT_EQ(api::count_objects(cache), objects.size());
	std::sort(objects.begin(), objects.end());
	EXPECT_EQ(std::adjacent_find(objects.begin(), objects.end()), objects.end());
	EXPECT_EQ(most_in_one_slab(objects), most);
	for (uintptr_t *object : objects)
		ASSERT_EQ(*object, (uintptr_t)object);
	/* Every other one: both slabs stay, and count what is in use. */
	for (size_t i = 0; i < objects.size(); i += 2)
		slub_cache_free(cache, objects[i]);
	EXPECT_EQ(slub_cache_shrink(cache), 1);
	EXPECT_EQ(api::count_objects(cache), objects.size() / 2);
	for (size_t i = 1; i < objects.size(); i += 2) {
		ASSERT_EQ(*objects[i], (uintptr_t)objects[i]);
		slub_cache_free(cache, objects[i]);
	}
	EXPECT_EQ(slub_cache_shrink(cache), 0);
	EXPECT_EQ(api::stats_of(cache).slabs, 0u);
}

INSTANTIATE_TEST_SUITE_P(of, large_slab, testing::Values(8, 16),
			 [](const auto &info) { return std::to_string(info.param); });

/* Objects of malloc's too: the option is for all caches. */
TEST(large_slab, serves_malloc)
{
	std::vector<uintptr_t *> blocks(3 * SLAB_BYTES / 16);

	for (uintptr_t *&block : blocks) {
		block = (uintptr_t *)malloc(16);
		ASSERT_NE(block, nullptr);
		*block = (uintptr_t)block;
	}
	struct slub_cache *cache = slub_cache_of(blocks[0]);
	struct slub_cache_stats stats = api::stats_of(cache);

	EXPECT_EQ(stats.objects, stats.slabs * (SLAB_BYTES / 16));
	for (uintptr_t *block : blocks) {
		ASSERT_EQ(*block, (uintptr_t)block);
		free(block);
	}
}

} /* namespace */
