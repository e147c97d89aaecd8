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
			if (now <= before + 48 * MiB)
				break;
		}
		EXPECT_LE(now, before + 48 * MiB) << "of 60 MiB";
	});
}

} /* namespace */
