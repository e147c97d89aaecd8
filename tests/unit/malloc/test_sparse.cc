/* SPDX-License-Identifier: MIT */
/*
 * What a program leaves in slabs goes back: in the frees of what it allocates next, and in a
 * few calls a second, which find all that they need in lists.
 */
#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
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
	void TearDown() override
	{
		for (void *block : kept)
			free(block);
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

/* First, for what the other one regrets lies in lists and barns for a while. */
TEST_F(left_in_slabs, goes_back_by_a_few_calls)
{
	size_t before = harness::resident_bytes(), now = 0;

	for (size_t i = 0; i < 16; i++)
		fill(4 * MiB, 1000 + 160 * i, 50);
	for (int i = 0; i < 500; i++) {
		void *volatile block = malloc(100);

		free(block);
		usleep(10000);
		now = harness::resident_bytes();
		if (now <= before + 36 * MiB)
			break;
	}
	EXPECT_LE(now, before + 36 * MiB) << "of 64 MiB";
}

/* Sizes that a program had before: 16 of them at 16 MiB, with a heap of 1 % alive. */
TEST_F(left_in_slabs, goes_back_while_other_sizes_come)
{
	size_t before = harness::resident_bytes();

	for (size_t i = 0; i < 16; i++)
		fill(16 * MiB, 1000 + 160 * i, 100);
	EXPECT_LE(harness::resident_bytes(), before + 150 * MiB) << "of 256 MiB";
}

} /* namespace */
