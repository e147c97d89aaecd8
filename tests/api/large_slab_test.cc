/* SPDX-License-Identifier: MIT */
/*
 * Promise: a slab's counts are wider than 16 bits. With SLUB_TEST_MIN_ORDER=8 one slab of a MiB
 * holds 131,072 objects of 8 bytes, 65,536 of 16; all of them are different, found, counted and
 * given back.
 */
#include <algorithm>

#include "api.h"

namespace {

const size_t SLAB_BYTES = 1 << 20;

/* Without a check word, which takes 8 bytes more. */
struct slub_cache_args dense(size_t size)
{
	struct slub_cache_args args = {};

	args.size = size;
	args.flags = SLUB_CACHE_NO_MERGE;
	args.has_free_pointer_offset = true;
	return args;
}

/* Objects of one slab more than one slab has, each with its own address in it. */
std::vector<uintptr_t *> stamped(struct slub_cache *cache, size_t size)
{
	std::vector<uintptr_t *> objects(SLAB_BYTES / size + 1);
	harness::one_cpu stays;	/* none is left in another's list */

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
	api::cache cache(dense(size));
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

struct visit {
	struct slub_cache *cache;
	size_t nr = 0, wrong = 0;
	int err = 0;
};

/* A visited object says so; what was freed names none. */
int note_visit(void *object, void *arg)
{
	auto *visit = (struct visit *)arg;

	visit->nr++;
	visit->wrong += *(uintptr_t *)object != (uintptr_t)object;
	*(uintptr_t *)object = 0;
	return 0;
}

void *visit_all(void *arg)
{
	auto *visit = (struct visit *)arg;

	visit->err = slub_cache_for_each_object(visit->cache, note_visit, visit);
	return nullptr;
}

/* As goroutines and fibers have it: 20 KiB, the thread's own data among them. */
TEST_P(large_slab, is_visited_on_a_small_stack)
{
	size_t size = GetParam(), freed = 0;
	api::cache cache(dense(size));
	std::vector<uintptr_t *> objects = stamped(cache, size);
	struct visit visit;
	pthread_attr_t attributes;
	pthread_t thread;

	for (size_t i = 0; i < objects.size(); i += 3, freed++) {
		*objects[i] = 0;
		slub_cache_free(cache, objects[i]);
		objects[i] = nullptr;
	}
	visit.cache = cache;
	pthread_attr_init(&attributes);
	ASSERT_EQ(pthread_attr_setstacksize(&attributes, 20480), 0);
	ASSERT_EQ(pthread_create(&thread, &attributes, visit_all, &visit), 0);
	pthread_join(thread, nullptr);
	pthread_attr_destroy(&attributes);
	EXPECT_EQ(visit.err, 0);
	EXPECT_EQ(visit.wrong, 0u) << "twice, or free";
	EXPECT_EQ(visit.nr, objects.size() - freed);
	for (uintptr_t *object : objects)
		if (object)
			slub_cache_free(cache, object);
}

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
