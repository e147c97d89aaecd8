/* SPDX-License-Identifier: MIT */
/* Fork while memory goes back to the system: what a purge has in hand is little. */
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <thread>
#include <unistd.h>
#include <vector>

#include "start.h"
#include "walk.h"

namespace {

const size_t heap_bytes = 80ul << 20;
const size_t in_hand_max = 32;	/* superblocks */
thread_local std::function<void()> at_purge, at_release;

} /* namespace */

/* os_purge() and zone_free() of this program, by the linker's --wrap. */
extern "C" {

void __real_zone_free(void *block, uint32_t order, uint32_t node, bool is_dirty);

void __wrap_zone_free(void *block, uint32_t order, uint32_t node, bool is_dirty)
{
	if (at_release)
		at_release();
	__real_zone_free(block, order, node, is_dirty);
}

int __real_os_purge(void *start, size_t bytes);

int __wrap_os_purge(void *start, size_t bytes)
{
	if (at_purge)
		at_purge();
	return __real_os_purge(start, bytes);
}

}

namespace {

/* Calls @check in a child that is made here. */
void in_child(const std::function<void()> &check)
{
	pid_t pid;

	lock_fork_begin();
	page_fork_prepare();
	pid = fork();
	page_fork_finish(!pid);
	if (!pid) {
		at_purge = nullptr;
		check();
		_exit(testing::Test::HasFailure());
	}
	EXPECT_EQ(harness::wait_for(pid), 0);
}

/* As if no purge had ever begun: all is free, nothing is in use, and all of it can be had. */
void expect_all_free()
{
	std::vector<char *> all;
	bool is_zero;

	page_purge_all();
	EXPECT_EQ(superblock_nr_used(), 0u);
	EXPECT_EQ(page_nr_dirty(), 0u);
	EXPECT_TRUE(free_blocks().empty());
	while (char *start = superblock_alloc(1, 1, 0, false, &is_zero)) {
		memset(start, 1, SUPERBLOCK_BYTES);
		all.push_back(start);
	}
	EXPECT_EQ(all.size(), heap_bytes / SUPERBLOCK_BYTES);
	for (char *start : all)
		superblock_free(start, 1, true);
}

class page_fork : public testing::Test {
protected:
	static void SetUpTestSuite()
	{
		start::once([] { start::page(heap_bytes, 1ul << 40, 2); });
	}
	void TearDown() override { expect_all_free(); }

	/* @nr dirty superblocks, and one of each node with pages that cannot be merged. */
	void idle(size_t nr)
	{
		std::vector<char *> all;
		bool is_zero;

		for (size_t i = 0; i < nr; i++) {
			all.push_back(superblock_alloc(1, 1, 0, false, &is_zero));
			memset(all.back(), 1, SUPERBLOCK_BYTES);
		}
		for (char *start : all)
			superblock_free(start, 1, true);
		for (uint32_t node = 0; node < 2; node++) {
			for (int i = 0; i < 9; i++) {
				char *block = (char *)zone_alloc(0, node, &is_zero);

				*block = 1;
				blocks.push_back({ block, node });
			}
		}
		for (size_t i = 0; i < blocks.size(); i += 2)
			zone_free(blocks[i].start, 0, blocks[i].node, true);
	}
	void free_rest()
	{
		for (size_t i = 1; i < blocks.size(); i += 2)
			zone_free(blocks[i].start, 0, blocks[i].node, true);
		blocks.clear();
	}
	struct block {
		char *start;
		uint32_t node;
	};
	std::vector<block> blocks;
	std::vector<char *> handed_out;
	bool is_child = false;
	unsigned nr_purges = 0;
};

/* Whoever forks is another thread than the one that purges, at each of its system calls. */
TEST_F(page_fork, what_another_thread_purges_is_little)
{
	size_t most = 0, used;

	idle(35);
	used = superblock_nr_used();
	std::thread([&] {
		at_purge = [&] {
			nr_purges++;
			std::thread([&] {
				most = std::max(most, superblock_nr_used() - used);
				in_child([&] {
					free_rest();
					page_purge_all();
					/* Blocks of up to two superblocks besides. */
					EXPECT_LE(superblock_nr_used(), in_hand_max + 2);
					EXPECT_EQ(page_nr_dirty(), 0u);
				});
			}).join();
		};
		page_purge_all();
	}).join();
	/* Superblocks, single pages of both nodes, descriptors. */
	EXPECT_GT(nr_purges, 10u);
	EXPECT_EQ(most, in_hand_max);
	free_rest();
}

/* What one thread has in hand is lost to the child, and that is to be little. */
TEST_F(page_fork, what_another_thread_merges_is_one_block)
{
	if (SLUB_CONFIG_HARDENED)
		GTEST_SKIP() << "blocks wait before they go";
	const size_t bytes = 104 << 10;
	std::vector<void *> all;
	bool is_zero;

	std::thread([&] {
		start::one_cpu stays;

		/* Not so many that they are purged as they are freed; into its own lists. */
		for (int i = 0; i < 30; i++)
			all.push_back(large_alloc(bytes, PAGE_BYTES, &is_zero));
		for (void *block : all)
			large_free(block);
		at_release = [&] {
			in_child([&] {
				at_release = nullptr;
				page_purge_all();
				EXPECT_LE(page_used_bytes(), bytes);
			});
			nr_purges++;
		};
		page_purge(0);
	}).join();
	EXPECT_GE(nr_purges, 30u);
}

/* A handler forks, and in the child, too, the purge that it interrupted goes on. */
TEST_F(page_fork, what_the_thread_itself_purges_is_out_of_reach_until_then)
{
	idle(8);
	at_purge = [&] {
		lock_fork_begin();
		page_fork_prepare();
		pid_t pid = fork();

		page_fork_finish(!pid);
		if (pid) {
			EXPECT_EQ(harness::wait_for(pid), 0);
			nr_purges++;
			return;
		}
		/* What is handed out here is not purged below. */
		at_purge = nullptr;
		bool is_zero;

		/* Dirty ones come first. */
		while (handed_out.size() < 20 * SUPERBLOCK_PAGES) {
			char *start = (char *)zone_alloc(0, 1, &is_zero);

			if (!start)
				break;
			memset(start, 1, PAGE_BYTES);
			handed_out.push_back(start);
		}
		is_child = true;
	};
	page_purge_all();
	at_purge = nullptr;
	if (is_child) {
		for (char *start : handed_out)
			EXPECT_EQ(*start, 1);
		for (char *start : handed_out)
			zone_free(start, 0, 1, true);
		free_rest();
		expect_all_free();
		_exit(testing::Test::HasFailure());
	}
	EXPECT_GT(nr_purges, 10u);
	free_rest();
}

} /* namespace */
