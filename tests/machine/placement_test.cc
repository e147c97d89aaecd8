/* SPDX-License-Identifier: MIT */
/*
 * Promise: what belongs to a processor lies on its node: its copies of per-CPU memory, its lists,
 * and the objects that it allocates. Where the kernel says mm_cid, areas belong to a number that
 * wanders with the threads; objects are near all the same.
 */
#include <cstdio>
#include <dlfcn.h>

#include <slub/cache.h>

#include "harness.h"
#include "features/inspect/abi.h"
#include "nodes.h"

namespace {

bool areas_are_of_processors()
{
	auto *abi = (const struct slub_abi *)dlsym(RTLD_DEFAULT, SLUB_ABI_SYMBOL);

	return abi && abi->cpu_number != SLUB_ABI_CPU_MM_CID;
}

struct place {
	int copies, lists;
	size_t near, all;
};

/* What a thread on @cpu makes, and where it is. */
struct place place_of(int cpu, int node, struct slub_cache *cache, uintptr_t words)
{
	struct place place = { -1, -1, 0, 4000 };

	nodes::on_cpu(cpu, [&] {
		std::vector<void *> objects;

		slub_percpu_add(words, 1);
		for (size_t i = 0; i < place.all; i++) {
			objects.push_back(slub_cache_alloc_flags(cache, SLUB_ALLOC_ZERO));
			place.near += nodes::node_of(objects.back()) == node;
		}
		slub_cache_free_bulk(cache, objects.size(), objects.data());
		slub_cache_shrink(cache);
		if (!areas_are_of_processors())
			return;
		auto *copy = (const char *)slub_percpu_ptr(words, (unsigned)cpu);

		place.copies = nodes::node_of(copy);
		place.lists = nodes::node_of(copy - words);
	});
	return place;
}

TEST(placement, what_is_a_processors_lies_on_its_node)
{
	SKIP_WITHOUT_NODES();
	struct slub_cache *cache = slub_cache_create("placed", 256, 0, 0, nullptr);
	/* Pages of their own. */
	uintptr_t words = slub_percpu_alloc(4096, 4096);
	int64_t nr = 0;

	ASSERT_NE(words, 0u);
	for (int node : nodes::complete()) {
		for (int cpu : nodes::cpus_of(node)) {
			struct place place = place_of(cpu, node, cache, words);

			printf("CPU %d, node %d: copies on node %d, lists on node %d, %zu of %zu "
			       "objects on node %d\n", cpu, node, place.copies, place.lists,
			       place.near, place.all, node);
			nr++;
			EXPECT_EQ(place.near, place.all) << "CPU " << cpu;
			if (!areas_are_of_processors())
				continue;
			EXPECT_EQ(place.copies, node) << "CPU " << cpu;
			EXPECT_EQ(place.lists, node) << "CPU " << cpu;
		}
	}
	EXPECT_EQ(slub_percpu_sum(words), nr);
	EXPECT_EQ(slub_percpu_free(words), 0);
	EXPECT_EQ(slub_cache_destroy(cache), 0);
}

/* Offsets that are used again are zeroed from one CPU; the copies are their CPUs' all the same. */
TEST(placement, an_offset_that_is_used_again_stays_near)
{
	SKIP_WITHOUT_NODES();
	if (!areas_are_of_processors())
		GTEST_SKIP() << "areas are of mm_cid's numbers";
	/* The last of four pages, in which no CPU has written. */
	uintptr_t first = slub_percpu_alloc(16384, 4096), again, words;

	EXPECT_EQ(slub_percpu_free(first), 0);
	again = slub_percpu_alloc(16384, 4096);
	EXPECT_EQ(again, first);
	words = again + 12288;
	for (int node : nodes::complete()) {
		int cpu = nodes::cpus_of(node).back();

		nodes::on_cpu(cpu, [=] {
			slub_percpu_add(words, 1);
			EXPECT_EQ(nodes::node_of(slub_percpu_ptr(words, (unsigned)cpu)), node)
				<< "CPU " << cpu;
		});
	}
	EXPECT_EQ(slub_percpu_free(again), 0);
}

} /* namespace */
