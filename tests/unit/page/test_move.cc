/* SPDX-License-Identifier: MIT */
/* Moves of large blocks that fail: what is at the target stays the heap's. */
#include <gtest/gtest.h>

#include <cerrno>
#include <sys/mman.h>
#include <vector>

#include "harness.h"
#include "start.h"

namespace {

const size_t MiB = 1ul << 20, heap_bytes = 64 * MiB;

/* What the kernel does before a move fails; PARTLY: as one that moves several mappings does. */
enum { NOTHING, UNMAPS, PARTLY, PARTLY_BY_PAGES } then;
unsigned nr_moves;

} /* namespace */

/* os_move() of this program, by the linker's --wrap. */
extern "C" int __wrap_os_move(void *from, void *to, size_t bytes)
{
	/* Where the second mapping begins, and how much of its target is gone. */
	size_t first = then == PARTLY ? 2 * MiB : MiB + 4 * PAGE_BYTES;
	size_t gone = then == PARTLY ? bytes - first : 8 * PAGE_BYTES;

	nr_moves++;
	if (then == UNMAPS)
		munmap(to, bytes);
	if (then < PARTLY)
		return -EFAULT;
	memcpy(to, from, first);
	madvise(from, first, MADV_DONTNEED);
	munmap((char *)to + first, gone);
	return -ENOMEM;
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
		harness::fill(ptr, 4 * MiB - PAGE_BYTES, before);
		memset(ptr + 4 * MiB - PAGE_BYTES, 0, PAGE_BYTES);
		EXPECT_EQ(large_resize(ptr, 9 * MiB), nullptr);
		EXPECT_EQ(nr_moves, before + 1);
		EXPECT_TRUE(harness::intact(ptr, 4 * MiB - PAGE_BYTES, before));
		char *last = ptr + 4 * MiB - PAGE_BYTES;
		EXPECT_EQ(harness::first_nonzero(last, PAGE_BYTES), PAGE_BYTES);
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

/* Linux 6.17 and later, at vm.max_map_count: no byte is lost, and no superblock. */
TEST_F(move, what_was_moved_before_it_failed_comes_back)
{
	for (auto how : { PARTLY, PARTLY_BY_PAGES }) {
		then = how;
		for (int i = 0; i < 5; i++)
			grow_in_vain();
		EXPECT_EQ(count_all(), heap_bytes / SUPERBLOCK_BYTES);
	}
}

} /* namespace */
