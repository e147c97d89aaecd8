/* SPDX-License-Identifier: MIT */
/* Superblocks of a machine with three nodes: what is bound to which, and what idled on another. */
#include <gtest/gtest.h>

#include <vector>

#include "giving.h"
#include "start.h"


namespace {

const uint32_t nr_nodes = 3;
std::vector<int> bound(64, -1);		/* by superblock: the node that it was last bound to */
uint32_t current;
bool refuses;

size_t index_of(const void *start)
{
	return ((uintptr_t)start - heap_start) / SUPERBLOCK_BYTES;
}

} /* namespace */

/* core/os/numa.c of this program. */
extern "C" {

uint32_t os_nodes_read(void)
{
	return nr_nodes;
}

uint32_t os_nr_nodes = 2;	/* any but one: it is asked */

uint32_t os_node_ask(void)
{
	return current;
}

bool os_node_bind(void *start, size_t bytes, uint32_t node)
{
	for (size_t i = 0; !refuses && i < bytes / SUPERBLOCK_BYTES; i++)
		bound[index_of(start) + i] = (int)node;
	return !refuses;
}

}

namespace {

/* That of the lists of blocks of @order. */
uint32_t slot_of(uint32_t order)
{
	uint32_t slot = 0;

	while (!block_owns_slot(slot))
		slot += SLOT_BYTES;
	return slot + order * SLOT_BYTES;
}

class nodes : public testing::Test {
protected:
	static void SetUpTestSuite()
	{
		start::once([] { start::page(64 * SUPERBLOCK_BYTES, 1ul << 40, nr_nodes); });
	}
	void SetUp() override
	{
		purge_superblocks(0);
		ASSERT_EQ(superblock_nr_used(), 0u);
	}
	void TearDown() override
	{
		refuses = false;
		current = 0;
	}
	char *take(size_t n, uint32_t node, bool *is_zero)
	{
		return superblock_alloc(n, 1, node, false, is_zero);
	}
	/* @n superblocks, one by one, written and freed: they idle on @node. */
	std::vector<char *> idle(size_t n, uint32_t node)
	{
		std::vector<char *> all;
		bool is_zero;

		for (size_t i = 0; i < n; i++) {
			all.push_back(take(1, node, &is_zero));
			memset(all.back(), 1, SUPERBLOCK_BYTES);
		}
		for (char *start : all)
			superblock_free(start, 1, true);
		return all;
	}
};

TEST_F(nodes, idle_memory_of_the_node_goes_first)
{
	bool is_zero;
	std::vector<char *> other = idle(2, 0), own;
	char *a = take(1, 0, &is_zero), *b = take(1, 0, &is_zero);

	own = idle(1, 2);
	superblock_free(a, 1, true);
	superblock_free(b, 1, true);
	char *got = take(1, 2, &is_zero);

	EXPECT_EQ(got, own[0]);
	EXPECT_FALSE(is_zero);
	EXPECT_EQ(got[100], 1);
	superblock_free(got, 1, true);
}

TEST_F(nodes, what_idled_on_another_goes_back_first)
{
	std::vector<char *> other = idle(4, 1);
	bool is_zero = false;
	char *got = take(4, 2, &is_zero);

	EXPECT_EQ(got, other[0]);
	EXPECT_TRUE(is_zero);
	for (size_t i = 0; i < 4; i++) {
		EXPECT_EQ(bound[index_of(got) + i], 2);
		EXPECT_EQ(got[i * SUPERBLOCK_BYTES], 0);
	}
	superblock_free(got, 4, true);
}

/* A node without memory, or a policy of the process: nothing would be gained. */
TEST_F(nodes, where_nothing_is_bound_idle_memory_is_as_good_as_any)
{
	std::vector<char *> other = idle(1, 1);
	bool is_zero = true;

	refuses = true;
	char *got = take(1, 2, &is_zero);

	EXPECT_EQ(got, other[0]);
	EXPECT_FALSE(is_zero);
	EXPECT_EQ(got[100], 1);
	superblock_free(got, 1, true);
}

/* A list has blocks of the node that its CPU is on, also after the CPU's number has moved. */
TEST_F(nodes, lists_have_blocks_of_their_node)
{
	start::one_cpu stays;
	void *near = block_alloc(3, 0, nullptr), *got, *far;

	current = 2;
	far = block_alloc(3, 2, nullptr);
	current = 0;
	ASSERT_EQ(bound[index_of(near)], 0);
	ASSERT_EQ(bound[index_of(far)], 2);
	block_free(near, 3, 0);
	EXPECT_EQ(percpu_head(slot_of(3)), near) << "kept, on several nodes too";
	block_free(far, 3, 2);
	EXPECT_EQ(percpu_head(slot_of(3)), near) << "another node's";
	got = block_alloc(3, 0, nullptr);
	EXPECT_EQ(got, near);
	block_free(near, 3, 0);
	current = 2;
	got = block_alloc(3, 2, nullptr);
	EXPECT_EQ(bound[index_of(got)], 2) << "the list is of node 0 still";
	EXPECT_EQ(percpu_head(slot_of(3)), nullptr) << "and went to its zone";
	block_free(got, 3, 2);
	block_flush(COLLECT_LISTS);
	EXPECT_EQ(page_used_bytes(), 0u);
	EXPECT_EQ(superblock_nr_used(), 0u);
}

TEST_F(nodes, lists_have_large_blocks_of_their_node)
{
	if (SLUB_CONFIG_HARDENED)
		GTEST_SKIP() << "a block between fences waits before it goes";
	start::one_cpu stays;
	bool is_zero;
	void *near = large_alloc(100000, 16, &is_zero), *far;

	current = 1;
	far = large_alloc(100000, 16, &is_zero);
	EXPECT_EQ(page_node(page_of(far)), 1u);
	large_free(near);
	EXPECT_EQ(quick_nr_pages(), 0u) << "not of the node that this thread is on";
	large_free(far);
	EXPECT_EQ(quick_nr_pages(), 26u);
	current = 2;
	EXPECT_EQ(large_alloc_kept(100000), nullptr);
	EXPECT_EQ(quick_nr_pages(), 0u) << "it went to its zone";
	EXPECT_EQ(page_used_bytes(), 0u);
	EXPECT_EQ(large_nr_pages(), 0u);
}

/* mremap() moves one mapping, which all of one policy is. */
TEST_F(nodes, a_run_grows_on_its_own)
{
	if (SLUB_CONFIG_HARDENED)
		GTEST_SKIP() << "a block between fences is copied, and waits before it goes";
	const size_t bytes = 2 * SUPERBLOCK_BYTES;
	bool is_zero;

	idle(8, 0);
	purge_superblocks(0);
	current = 1;
	char *run = (char *)large_alloc(bytes, PAGE_BYTES, &is_zero);

	ASSERT_NE(run, nullptr);
	current = 2;
	ASSERT_EQ(large_resize(run, 2 * bytes), run);
	for (size_t i = 0; i < 4; i++)
		EXPECT_EQ(bound[index_of(run) + i], 1) << i;
	EXPECT_EQ(page_node(page_of(run)), 1u);
	large_free(run);
}

TEST_F(nodes, a_run_that_moves_keeps_its_node)
{
	if (SLUB_CONFIG_HARDENED)
		GTEST_SKIP() << "a block between fences is copied, and waits before it goes";
	const size_t bytes = 2 * SUPERBLOCK_BYTES;
	bool is_zero;

	current = 1;
	char *run = (char *)large_alloc(bytes, PAGE_BYTES, &is_zero);
	char *wall = (char *)large_alloc(bytes, PAGE_BYTES, &is_zero);

	memset(run, 3, bytes);
	current = 2;
	char *moved = (char *)large_resize(run, 2 * bytes);

	if (!moved)
		GTEST_SKIP() << "this kernel does not move pages";
	EXPECT_NE(moved, run);
	EXPECT_EQ(moved[bytes - 1], 3);
	EXPECT_EQ(page_node(page_of(moved)), 1u);
	for (size_t i = 0; i < 4; i++)
		EXPECT_EQ(bound[index_of(moved) + i], 1) << i;
	large_free(moved);
	large_free(wall);
}

/* Half superblocks of the first node, all there are; every other one is free again. */
std::vector<char *> fill_and_free_half()
{
	std::vector<char *> all, kept;
	bool is_zero;

	while (char *block = (char *)large_alloc(SUPERBLOCK_BYTES / 2, PAGE_BYTES, &is_zero))
		all.push_back(block);
	for (char *block : all) {
		if ((uintptr_t)block % SUPERBLOCK_BYTES)
			large_free(block);
		else
			kept.push_back(block);
	}
	return kept;
}

TEST_F(nodes, another_node_s_memory_is_better_than_none)
{
	if (SLUB_CONFIG_HARDENED)
		GTEST_SKIP() << "with fences a block is more than half a superblock, and waits";
	std::vector<char *> blocks = fill_and_free_half();
	bool is_zero;

	ASSERT_EQ(superblock_nr_used(), 64u);
	for (size_t bytes : { 40ul << 10, 100ul << 10, SUPERBLOCK_BYTES / 2 }) {
		current = 2;
		char *block = (char *)large_alloc(bytes, PAGE_BYTES, &is_zero);

		ASSERT_NE(block, nullptr) << bytes;
		EXPECT_EQ(page_node(page_of(block)), 0u);
		memset(block, 1, bytes);
		blocks.push_back(block);
	}
	for (char *block : blocks)
		large_free(block);
	page_purge(0);
	EXPECT_EQ(superblock_nr_used(), 0u);
}

unsigned nr_asked;

/* Whoever is asked to free something loses what he would rather have kept. */
TEST_F(nodes, the_other_nodes_come_before_a_reclaim)
{
	if (SLUB_CONFIG_HARDENED)
		GTEST_SKIP() << "with fences a block is more than half a superblock, and waits";
	std::vector<char *> blocks = fill_and_free_half();
	bool is_zero;

	current = 1;
	nr_asked = 0;
	page_set_growth_hook([](size_t, enum growth_cause) { return ++nr_asked > 0; });
	blocks.push_back((char *)large_alloc(64 << 10, PAGE_BYTES, &is_zero));
	page_set_growth_hook(nullptr);
	ASSERT_NE(blocks.back(), nullptr);
	EXPECT_EQ(nr_asked, 1u) << "more than before a heap grows";
	for (char *block : blocks)
		large_free(block);
	page_purge(0);
	EXPECT_EQ(superblock_nr_used(), 0u);
}

} /* namespace */
