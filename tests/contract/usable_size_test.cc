/* SPDX-License-Identifier: MIT */
/* Promise: malloc_usable_size never changes while the block lives, and all of it is writable. */
#include <gtest/gtest.h>
#include <malloc.h>
#include <thread>
#include <vector>

#include "harness.h"

struct Live {
	void *block;
	size_t usable;
};

static std::vector<Live> blocks_of_many_sizes()
{
	std::vector<Live> live;

	for (size_t n : harness::sizes())
		if (n <= 2048 ? n % 3 == 0 : n % 5 == 0) {
			void *block = malloc(n);
			live.push_back({block, malloc_usable_size(block)});
			EXPECT_GE(live.back().usable, n);
		}
	for (size_t alignment : {32, 256, 4096, 1 << 20})
		for (size_t n : {1, 100, 5000, 100000}) {
			void *block = aligned_alloc(alignment, n);
			live.push_back({block, malloc_usable_size(block)});
			EXPECT_GE(live.back().usable, n);
		}
	return live;
}

static void churn()
{
	std::vector<void *> blocks;
	harness::Random random(3);

	for (int i = 0; i < 20000; i++) {
		blocks.push_back(malloc(random.below(20000)));
		if (blocks.size() > 500) {
			size_t victim = random.below(blocks.size());
			free(blocks[victim]);
			blocks[victim] = blocks.back();
			blocks.pop_back();
		}
	}
	for (void *block : blocks)
		free(block);
}

TEST(UsableSize, ConstantForLifeAndWritable)
{
	auto live = blocks_of_many_sizes();

	for (size_t i = 0; i < live.size(); i++)
		harness::fill(live[i].block, live[i].usable, i);
	churn();
	malloc_trim(0);
	std::thread(churn).join();
	for (size_t i = 0; i < live.size(); i++) {
		EXPECT_EQ(malloc_usable_size(live[i].block), live[i].usable);
		EXPECT_EQ(harness::first_damage(live[i].block, live[i].usable, i), live[i].usable);
		free(live[i].block);
	}
}

/*
 * Programs size a buffer once and expect the same answer for the same request.  One that is guarded
 * (SLUB_GUARD) has exactly what was asked for: what lies behind it is not to be touched.
 */
TEST(UsableSize, DependsOnTheRequestAlone)
{
	for (size_t n : {1, 24, 100, 1000, 5000}) {
		bool has_guard = getenv("SLUB_GUARD");
		void *first = malloc(n);
		size_t usable = malloc_usable_size(first);
		std::vector<void *> more;
		for (int i = 0; i < 500; i++) {
			more.push_back(malloc(n));
			if (has_guard && (usable == n || malloc_usable_size(more.back()) == n))
				continue;
			EXPECT_EQ(malloc_usable_size(more.back()), usable);
		}
		for (void *block : more)
			free(block);
		free(first);
	}
}

TEST(UsableSize, ReallocWithinItKeepsTheContents)
{
	for (size_t n : {1, 25, 130, 1500, 9000, 70000}) {
		void *block = malloc(n);
		size_t usable = malloc_usable_size(block);
		harness::fill(block, usable, n);
		block = realloc(block, usable);
		EXPECT_EQ(harness::first_damage(block, usable, n), usable);
		EXPECT_GE(malloc_usable_size(block), usable);
		free(block);
	}
}

TEST(UsableSize, OfNullIsZero) { EXPECT_EQ(malloc_usable_size(harness::opaque(nullptr)), 0u); }
