/* SPDX-License-Identifier: MIT */
/* features/inspect/census.c: counts of a population that is known. */
#include <cerrno>
#include <cstring>
#include <gtest/gtest.h>
#include <malloc.h>
#include <string>
#include <vector>

#include "harness.h"
#include "lists.h"
#include "slub.h"

namespace {

struct slub_cache *own_cache(uint32_t size)
{
	static struct slub_cache caches[8];
	static int nr;

	if (cache_create(&caches[nr], "own", size))
		abort();
	return &caches[nr++];
}

struct cache_census census_of(struct slub_cache *cache)
{
	struct cache_census census;

	census_cache(cache, &census);
	return census;
}

class census : public testing::TestWithParam<uint32_t> {
};

TEST_P(census, counts_what_is_there)
{
	if (!start::can_empty_lists())
		GTEST_SKIP() << "without membarrier(2) no CPU can be stopped";
	struct slub_cache *cache = own_cache(GetParam());
	const size_t nr = 3 * cache->objects + 5;
	std::vector<void *> mine(nr);

	EXPECT_EQ(census_of(cache).slabs, 0u);
	EXPECT_EQ(census_of(cache).active, 0u);
	for (void *&object : mine)
		object = cache_alloc(cache);
	struct cache_census now = census_of(cache);
	EXPECT_GE(now.slabs, 4u);
	EXPECT_EQ(now.objects, now.slabs * cache->objects);
	EXPECT_EQ(now.slabs, cache->nodes[0]->nr_slabs);
	EXPECT_EQ(now.carved, cache->nodes[0]->nr_carved);
	/* Objects in lists count as active. */
	EXPECT_GE(now.active, nr);
	EXPECT_LE(now.active, now.carved);
	slab_shrink_all();
	EXPECT_EQ(census_of(cache).active, nr) << "nothing but what is held";
	for (size_t i = 0; i < nr; i += 2)
		cache_free(cache, mine[i]);
	slab_shrink_all();
	EXPECT_EQ(census_of(cache).active, nr / 2);
	for (size_t i = 1; i < nr; i += 2)
		cache_free(cache, mine[i]);
	slab_shrink_all();
	EXPECT_EQ(census_of(cache).slabs, 0u);
}

INSTANTIATE_TEST_SUITE_P(size, census, testing::Values(32, 768, 4096, 20480),
			 testing::PrintToStringParamName());

TEST(census_heap, sums_of_the_caches)
{
	struct heap_census heap;
	size_t slab_bytes = 0, objects = 0, object_bytes = 0;

	slab_shrink_all();
	for (struct slub_cache *c = cache_first(); c; c = c->next) {
		struct cache_census one;

		census_cache(c, &one);
		slab_bytes += one.slabs * (PAGE_BYTES << c->order);
		objects += one.active;
		object_bytes += one.active * c->size;
	}
	census_heap(&heap);
	EXPECT_EQ(heap.slab_bytes, slab_bytes);
	EXPECT_EQ(heap.objects, objects);
	EXPECT_EQ(heap.object_bytes, object_bytes);
	EXPECT_EQ(heap.large_bytes, large_nr_pages() * PAGE_BYTES);
	EXPECT_EQ(heap.dirty_bytes, page_nr_dirty() * PAGE_BYTES);
	EXPECT_EQ(heap.committed_bytes, pagemap_committed());
}

TEST(census_heap, large_blocks)
{
	struct heap_census before, after;

	census_heap(&before);
	void *one = malloc(1 << 20), *two = malloc(5 << 20);
	census_heap(&after);
	/* A page on each side. */
	size_t fences = SLUB_CONFIG_HARDENED ? 2 * 2 * PAGE_BYTES : 0;
	EXPECT_EQ(after.large_bytes - before.large_bytes, (6ul << 20) + fences);
	free(one);
	free(two);
	census_heap(&after);
	EXPECT_EQ(after.large_bytes, before.large_bytes);
}

TEST(census_heap, objects_of_malloc)
{
	if (!start::can_empty_lists())
		GTEST_SKIP() << "without membarrier(2) no CPU can be stopped";
	struct heap_census before, after;
	static void *mine[5000];

	slab_shrink_all();
	census_heap(&before);
	for (void *&ptr : mine)
		ptr = malloc(500);
	slab_shrink_all();
	census_heap(&after);
	EXPECT_EQ(after.objects - before.objects, std::size(mine));
	EXPECT_EQ(after.object_bytes - before.object_bytes, std::size(mine) * 512);
	struct mallinfo2 info = mallinfo2();
	EXPECT_EQ(info.uordblks, after.object_bytes - after.cached_bytes);
	EXPECT_EQ(info.hblkhd, after.large_bytes);
	EXPECT_EQ(info.hblks, after.large_blocks);
	for (void *ptr : mine)
		free(ptr);
}

TEST(census_all, one_walk_says_what_many_say)
{
	void *small = malloc(40), *middle = malloc(3000), *paged = malloc(9000);
	struct cache_census *all;
	size_t nr = 0;

	/* All classes are made. */
	for (size_t bytes = 16; bytes <= 32768; bytes += 16)
		free(malloc(bytes));
	all = census_all();

	ASSERT_NE(all, nullptr);
	for (size_t i = 0; i < CENSUS_SLOTS; i++) {
		const struct slub_cache *cache = census_cache_at(i);
		struct cache_census one;

		if (!cache)
			continue;
		census_cache(cache, &one);
		EXPECT_EQ(memcmp(&one, &all[i], sizeof(one)), 0) << cache->name;
		nr++;
	}
	EXPECT_GE(nr, 60u);
	census_all_free(all);
	free(small);
	free(middle);
	free(paged);
}

/* As glibc's users read them: free chunks, of which there is one at least. */
TEST(mallinfo, counts_free_objects)
{
	if (!start::can_empty_lists())
		GTEST_SKIP() << "without membarrier(2) no CPU can be stopped";
	static void *mine[4000];
	struct mallinfo2 full, half, listed;

	slab_shrink_all();
	EXPECT_GE(mallinfo2().ordblks, 1u);
	for (void *&ptr : mine)
		ptr = malloc(700);
	slab_shrink_all();
	full = mallinfo2();
	EXPECT_EQ(full.smblks, 0u);
	for (size_t i = 0; i < std::size(mine); i += 2)
		free(mine[i]);
	listed = mallinfo2();
	EXPECT_GT(listed.smblks, 0u);
	EXPECT_GE(listed.fsmblks, listed.smblks * 16);
	/* Each is on a freelist, in a list or a barn. */
	EXPECT_NEAR(listed.ordblks + listed.smblks - full.ordblks, std::size(mine) / 2, 128);
	slab_shrink_all();
	half = mallinfo2();
	EXPECT_EQ(half.smblks, 0u);
	EXPECT_EQ(half.ordblks - full.ordblks, std::size(mine) / 2);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
	struct mallinfo narrow = mallinfo();
#pragma GCC diagnostic pop
	EXPECT_EQ((size_t)narrow.ordblks, half.ordblks);
	for (size_t i = 1; i < std::size(mine); i += 2)
		free(mine[i]);
}

/* Slabs are counted at another moment than objects: no sum goes below 0. */
TEST(mallinfo, parts_do_not_exceed_the_whole)
{
	struct heap_census census = { };
	struct mallinfo2 info;

	census.slab_bytes = 4096;
	census.object_bytes = 5000;
	census.cached_bytes = 100;
	mallinfo_fill(&info, &census);
	EXPECT_EQ(info.fordblks, 0u);
	EXPECT_EQ(info.uordblks, info.arena);
}

/* What the program holds, to within the lists, however much of it was freed. */
TEST(mallinfo, knows_what_is_in_use)
{
	if (!start::can_empty_lists())
		GTEST_SKIP() << "without membarrier(2) no CPU can be stopped";
	static void *mine[4000];
	struct slub_cache *cache = sizeclass_get(700, 16);
	ASSERT_NE(cache, nullptr);
	size_t before, slack = 4 * (size_t)cache->capacity * cache->size;

	EXPECT_TRUE(SLUB_CONFIG_HARDENED || cache->size == 704);

	slab_shrink_all();
	before = mallinfo2().uordblks;
	for (void *&ptr : mine)
		ptr = malloc(700);
	EXPECT_NEAR(mallinfo2().uordblks - before, std::size(mine) * cache->size, slack);
	for (size_t i = 0; i < std::size(mine); i += 2)
		free(mine[i]);
	struct mallinfo2 half = mallinfo2();
	EXPECT_NEAR(half.uordblks - before, std::size(mine) / 2 * cache->size, slack);
	EXPECT_EQ(half.fordblks, half.arena - half.uordblks);
	EXPECT_GE(half.arena, half.uordblks + half.fsmblks);
	slab_shrink_all();
	EXPECT_EQ(mallinfo2().uordblks - before, std::size(mine) / 2 * cache->size);
	for (size_t i = 1; i < std::size(mine); i += 2)
		free(mine[i]);
	slab_shrink_all();
	EXPECT_EQ(mallinfo2().uordblks, before);
}

/* What is freed is in this CPU's list, and the sums know it. */
TEST(cache_nr_cached, counts_the_lists)
{
	if (!start::can_empty_lists())
		GTEST_SKIP() << "without membarrier(2) no CPU can be stopped";
	struct slub_cache *cache = own_cache(208);
	static void *mine[100];

	for (void *&object : mine)
		object = cache_alloc(cache);
	slab_shrink_all();
	EXPECT_EQ(cache_nr_cached(cache), 0u);
	for (int i = 0; i < 20; i++)
		cache_free(cache, mine[i]);
	/* Twenty, if the list did not run over and the thread stayed on its CPU. */
	EXPECT_GE(cache_nr_cached(cache), 1u);
	EXPECT_LE(cache_nr_cached(cache), 2u * (size_t)cache->capacity);
	struct cache_census census = census_of(cache);
	EXPECT_LE(census.active, std::size(mine));
	for (size_t i = 20; i < std::size(mine); i++)
		cache_free(cache, mine[i]);
	slab_shrink_all();
}

/* Each cache that has objects, by a name that XML can have; and the sums. */
TEST(malloc_info, names_all_that_has_objects)
{
	std::vector<std::pair<struct slub_cache *, void *>> mine;
	char *text = nullptr;
	size_t bytes = 0;

	for (const char *name : { "one<&", "none", "two\">x" }) {
		struct slub_cache *cache = slub_cache_create(name, 80, 0, SLUB_CACHE_NO_MERGE,
							     nullptr);
		ASSERT_NE(cache, nullptr);
		mine.push_back({ cache, strcmp(name, "none") ? slub_cache_alloc(cache) : nullptr });
	}
	FILE *out = open_memstream(&text, &bytes);
	EXPECT_EQ(malloc_info(0, out), 0);
	fclose(out);
	std::string told(text);
	EXPECT_NE(told.find("<cache name=\"one&lt;&amp;\" size=\""), told.npos) << told;
	EXPECT_NE(told.find("<cache name=\"two&quot;>x\" size=\""), told.npos) << told;
	EXPECT_NE(told.find("<cache name=\"malloc-"), told.npos) << told;
	EXPECT_EQ(told.find("name=\"none\""), told.npos) << told;
	EXPECT_EQ(told.find("<malloc version=\"slub-1\">\n"), 0u);
	EXPECT_EQ(told.substr(told.size() - 10), "</malloc>\n");
	EXPECT_EQ(malloc_info(1, stdout), -1);
	EXPECT_EQ(errno, EINVAL);
	free(text);
	for (auto &[cache, object] : mine) {
		slub_cache_free(cache, object);
		EXPECT_EQ(slub_cache_destroy(cache), 0);
	}
}

TEST(malloc_info, large_blocks_are_counted)
{
	size_t before = mallinfo2().hblks;
	void *blocks[3];

	for (void *&block : blocks)
		block = malloc(3 << 20);
	EXPECT_EQ(mallinfo2().hblks, before + 3);
	for (void *block : blocks)
		free(block);
	EXPECT_EQ(mallinfo2().hblks, before);
}

} /* namespace */
