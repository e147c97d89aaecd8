/* SPDX-License-Identifier: MIT */
/* Moves of large blocks that fail: what is at the target stays the heap's. */
#include <gtest/gtest.h>

#include <cerrno>
#include <sys/mman.h>
#include <vector>

#include "start.h"

namespace {

const size_t MiB = 1ul << 20, heap_bytes = 64 * MiB;

/* What the kernel does to the target of a move, before it fails. */
enum { NOTHING, UNMAPS } then;
unsigned nr_moves;

} /* namespace */

/* os_move() of this program, by the linker's --wrap. */
extern "C" int __wrap_os_move(void *, void *to, size_t bytes)
{
	nr_moves++;
	if (then == UNMAPS)
		munmap(to, bytes);
	return -EFAULT;
}

namespace {

class move : public testing::Test {
protected:
	static void SetUpTestSuite()
	{
		start::once([] { start::page(heap_bytes, 1ul << 40); });
	}
	void SetUp() override
	{
		if (SLUB_CONFIG_HARDENED)
			GTEST_SKIP() << "a block between fences is copied";
	}
	char *alloc(size_t bytes)
	{
		bool is_zero;

		return (char *)large_alloc(bytes, PAGE_BYTES, &is_zero);
	}
	/* How many superblocks can be had. */
	size_t count_all()
	{
		std::vector<char *> all;

		while (char *block = alloc(SUPERBLOCK_BYTES)) {
			block[0] = block[SUPERBLOCK_BYTES - 1] = 1;
			all.push_back(block);
		}
		for (char *block : all)
			large_free(block);
		return all.size();
	}
	/* Fails for want of a move. */
	void grow_in_vain()
	{
		char *ptr = alloc(4 * MiB), *wall = alloc(2 * MiB);
		unsigned before = nr_moves;

		ASSERT_EQ(wall, ptr + 4 * MiB);
		memset(ptr, 1, 4 * MiB);
		EXPECT_EQ(large_resize(ptr, 9 * MiB), nullptr);
		EXPECT_EQ(nr_moves, before + 1);
		EXPECT_EQ(ptr[4 * MiB - 1], 1);
		large_free(ptr);
		large_free(wall);
	}
};

TEST_F(move, a_target_that_was_left_alone_is_the_heap_s)
{
	then = NOTHING;
	for (int i = 0; i < 5; i++)
		grow_in_vain();
	EXPECT_EQ(count_all(), heap_bytes / SUPERBLOCK_BYTES);
}

TEST_F(move, a_target_that_was_unmapped_is_mapped_again)
{
	then = UNMAPS;
	for (int i = 0; i < 5; i++)
		grow_in_vain();
	EXPECT_EQ(count_all(), heap_bytes / SUPERBLOCK_BYTES);
}

} /* namespace */
