/* SPDX-License-Identifier: MIT */
/*
 * What a program leaves in slabs goes back: in the frees of what it allocates next, and in a
 * few calls a second, which find all that they need in lists.
 */
#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "harness.h"
#include "slub.h"
#include "start.h"

namespace {

constexpr size_t MiB = 1ul << 20;

class left_in_slabs : public testing::Test {
protected:
	void SetUp() override
	{
		free(malloc(1));
		if (!start::has_wanted_backend())
			GTEST_SKIP() << "this process cannot have that backend";
		if (SLUB_CONFIG_HARDENED)
			GTEST_SKIP() << "the hardened build keeps what is freed for a while";
		if (os_page_size() != PAGE_BYTES)
			GTEST_SKIP() << "the system's pages are larger";
	}
	/* Of 16, each with a class of its own: 1,024 bytes to 3,840. */
	static size_t size_of(size_t i)
	{
		return i < 9 ? 1024 + 128 * i : 2048 + 256 * (i - 8);
	}
	/* @bytes in blocks of @size; one of @of stays. */
	void fill(size_t bytes, size_t size, unsigned of)
	{
		std::vector<void *> blocks;

		for (size_t i = 0; i < bytes / size; i++)
			blocks.push_back(memset(malloc(size), 1, size));
		for (void *block : blocks) {
			if (random.below(of))
				free(block);
			else
				kept.push_back(block);
		}
	}
	harness::Random random{ 7 };
	std::vector<void *> kept;
};

/* In a child of its own: memory that one of them gave back and another takes is regretted. */
template <typename Body> void in_child(Body body)
{
	int status;
	pid_t child = fork();

	ASSERT_GE(child, 0);
	if (!child) {
		body();
		_exit(testing::Test::HasFailure());
	}
	ASSERT_EQ(waitpid(child, &status, 0), child);
	EXPECT_EQ(status, 0);
}

/* Sizes that a program had before: 16 of them at 16 MiB, one block in 20 stays. */
TEST_F(left_in_slabs, goes_back_while_other_sizes_come)
{
	in_child([this] {
		size_t before = harness::resident_bytes();

		for (size_t i = 0; i < 16; i++)
			fill(16 * MiB, size_of(i), 20);
		EXPECT_LE(harness::resident_bytes(), before + 180 * MiB) << "of 240 MiB";
	});
}

/* In no order, so that the last blocks of each size lie in as many slabs. */
TEST_F(left_in_slabs, all_that_is_freed_goes_back)
{
	void *block = malloc(128);
	struct slub_cache *cache = cache_of(block);

	free(block);
	if (!cache || !cache->has_local)
		GTEST_SKIP() << "slabs have no local lists here";
	in_child([this] {
		size_t before = harness::resident_bytes();
		std::vector<void *> blocks;

		for (size_t n = 0; n < 128 * MiB / 1024; n++) {
			size_t size = 128 * (1 + random.below(15));

			blocks.push_back(memset(malloc(size), 1, size));
		}
		EXPECT_GE(harness::resident_bytes(), before + 100 * MiB);
		while (!blocks.empty()) {
			std::swap(blocks[random.below((unsigned)blocks.size())], blocks.back());
			free(blocks.back());
			blocks.pop_back();
		}
		EXPECT_LE(harness::resident_bytes(), before + 6 * MiB);
	});
}

TEST_F(left_in_slabs, goes_back_by_a_few_calls)
{
	in_child([this] {
		size_t before = harness::resident_bytes(), now = 0;

		for (size_t i = 0; i < 16; i++)
			fill(4 * MiB, size_of(i), 20);
		for (int i = 0; i < 500; i++) {
			void *volatile block = malloc(100);

			free(block);
			usleep(10000);
			now = harness::resident_bytes();
			if (now <= before + 30 * MiB)
				break;
		}
		EXPECT_LE(now, before + 30 * MiB) << "of 60 MiB";
	});
}

/* In no order, and of sizes whose slabs have local lists. */
TEST_F(left_in_slabs, what_lies_in_local_lists_goes_back_by_a_few_calls)
{
	in_child([this] {
		size_t before = harness::resident_bytes(), then, now = 0;
		std::vector<void *> blocks;

		for (size_t n = 0; n < 64 * MiB / 896; n++)
			blocks.push_back(memset(malloc(896), 1, 896));
		for (size_t n = blocks.size(); n > 1; n--)
			std::swap(blocks[n - 1], blocks[random.below((unsigned)n)]);
		for (size_t n = 0; n < blocks.size() - blocks.size() / 20; n++)
			free(blocks[n]);
		then = harness::resident_bytes();
		for (int i = 0; i < 2000; i++) {
			void *volatile block = malloc(100);

			free(block);
			usleep(5000);
			now = harness::resident_bytes();
			if (now <= before + (then - before) / 2)
				break;
		}
		EXPECT_LE(now, before + (then - before) / 2);
	});
}

} /* namespace */
