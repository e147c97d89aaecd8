/* SPDX-License-Identifier: MIT */
/*
 * Promise: on a machine of several NUMA nodes memory is where it was asked for, or where the thread
 * runs that asked, also what was used on another node before; unless the process has a policy.
 */
#include <cerrno>
#include <cstring>
#include <sys/wait.h>
#include <thread>

#include <slub/cache.h>

#include "harness.h"
#include "nodes.h"

namespace {

const size_t MIB = 1ul << 20;

template <typename Body> void on_node(int node, Body body)
{
	nodes::on_cpu(nodes::cpus_of(node)[0], body);
}

std::vector<char *> blocks(size_t nr, size_t bytes)
{
	std::vector<char *> all;

	for (size_t i = 0; i < nr; i++) {
		all.push_back((char *)malloc(bytes));
		EXPECT_NE(all.back(), nullptr);
		memset(all.back(), (int)i, bytes);
	}
	return all;
}

size_t pages_on(const std::vector<char *> &all, size_t bytes, int node)
{
	size_t n = 0;

	for (char *block : all)
		n += nodes::pages_on(block, bytes, node);
	return n;
}

void free_all(const std::vector<char *> &all)
{
	for (char *block : all)
		free(block);
}

TEST(nodes, objects_lie_on_the_node_that_is_asked_for)
{
	SKIP_WITHOUT_NODES();
	for (size_t size : { 64, 1000, 8192 }) {
		struct slub_cache *cache = slub_cache_create("asked", size, 0, 0, nullptr);
		std::vector<void *> objects;

		for (int node : nodes::with_memory()) {
			size_t there = 0;

			for (int i = 0; i < 3000; i++) {
				void *object = slub_cache_alloc_node(cache, SLUB_ALLOC_ZERO, node);

				ASSERT_NE(object, nullptr);
				there += nodes::node_of(object) == node;
				objects.push_back(object);
			}
			EXPECT_EQ(there, 3000u) << "of " << size << " on node " << node;
		}
		slub_cache_free_bulk(cache, objects.size(), objects.data());
		EXPECT_EQ(slub_cache_shrink(cache), 0);
		EXPECT_EQ(slub_cache_destroy(cache), 0);
	}
}

TEST(nodes, blocks_lie_where_the_thread_runs)
{
	SKIP_WITHOUT_NODES();
	for (size_t bytes : { 64ul << 10, 700ul << 10, 2 * MIB, 9 * MIB }) {
		for (int node : nodes::complete()) {
			on_node(node, [=] {
				std::vector<char *> all = blocks(4, bytes);

				EXPECT_EQ(pages_on(all, bytes, node), 4 * bytes / 4096)
					<< bytes << " bytes on node " << node;
				free_all(all);
			});
		}
	}
}

/* What lies idle has memory behind it, on the node that used it. */
TEST(nodes, idle_memory_of_another_node_is_not_taken_for_near)
{
	SKIP_WITHOUT_NODES();
	int first = nodes::complete().front(), last = nodes::complete().back();

	for (size_t bytes : { 2048ul, 64ul << 10, 2 * MIB, 8 * MIB }) {
		size_t nr = 32 * MIB / bytes;

		on_node(first, [=] { free_all(blocks(nr, bytes)); });
		on_node(last, [=] {
			std::vector<char *> all = blocks(nr, bytes);
			size_t there = pages_on(all, bytes, last), pages = 0;

			for (char *block : all)
				pages += nodes::pages_on(block, bytes, first);
			/* Objects that lay in lists are of any node. */
			EXPECT_GE(there, (there + pages) * 15 / 16) << bytes << " bytes";
			free_all(all);
		});
	}
}

/* Policies divide mappings, and mremap() moves one mapping. */
TEST(nodes, a_block_that_grows_stays_on_its_node_and_in_one_mapping)
{
	SKIP_WITHOUT_NODES();
	int first = nodes::complete().front(), last = nodes::complete().back();
	size_t bytes = 8 * MIB;
	char *block = nullptr;

	/* What it grows into was the other node's. */
	on_node(first, [&] { free_all(blocks(8, 6 * MIB)); });
	on_node(last, [&] {
		block = (char *)malloc(bytes);
		memset(block, 1, bytes);
		for (; bytes < 48 * MIB; bytes += 4 * MIB) {
			block = (char *)realloc(block, bytes + 4 * MIB);
			ASSERT_NE(block, nullptr);
			memset(block + bytes, 1, 4 * MIB);
			EXPECT_EQ(nodes::pages_on(block, bytes + 4 * MIB, last),
				  (bytes + 4 * MIB) / 4096);
		}
	});
	/* In its way, so that it has to move: the pages go along, and are not copied. */
	char *wall = (char *)malloc(4 * MIB);

	on_node(first, [&] {
		memset(wall, 2, 4 * MIB);
		block = (char *)realloc(block, 2 * bytes);
	});
	EXPECT_EQ(nodes::pages_on(block, bytes, last), bytes / 4096);
	free(wall);
	free(block);
}

TEST(nodes, objects_that_are_freed_elsewhere_go_home)
{
	SKIP_WITHOUT_NODES();
	int first = nodes::complete().front(), last = nodes::complete().back();
	struct slub_cache *cache = slub_cache_create("home", 512, 0, SLUB_CACHE_NO_MERGE, nullptr);
	struct slub_cache_stats stats;
	std::vector<void *> objects;

	for (int round = 0; round < 4; round++) {
		on_node(round % 2 ? last : first, [&] {
			for (int i = 0; i < 5000; i++)
				objects.push_back(slub_cache_alloc(cache));
		});
		on_node(round % 2 ? first : last, [&] {
			for (void *object : objects)
				slub_cache_free(cache, object);
		});
		objects.clear();
		EXPECT_EQ(slub_cache_shrink(cache), 0);
		EXPECT_EQ(slub_cache_stats(cache, &stats), 0);
		EXPECT_EQ(stats.slabs, 0u) << "round " << round;
	}
	EXPECT_EQ(slub_cache_destroy(cache), 0);
}

TEST(nodes, a_full_node_is_not_insisted_on)
{
	SKIP_WITHOUT_NODES();
	int last = nodes::with_memory().back();
	const size_t bytes = 64 << 10, most = 350 * MIB / bytes;
	struct slub_cache *cache = slub_cache_create("full", bytes, 0, 0, nullptr);
	std::vector<void *> objects;
	size_t elsewhere = 0;

	while (elsewhere < 64 && objects.size() < most) {
		void *object = slub_cache_alloc_node(cache, SLUB_ALLOC_ZERO, last);

		ASSERT_NE(object, nullptr) << "after " << objects.size();
		elsewhere += nodes::node_of(object) != last;
		objects.push_back(object);
	}
	slub_cache_free_bulk(cache, objects.size(), objects.data());
	EXPECT_EQ(slub_cache_shrink(cache), 0);
	EXPECT_EQ(slub_cache_destroy(cache), 0);
	if (objects.size() == most)
		GTEST_SKIP() << "the last node has more memory than this test fills";
}

TEST(nodes, numbers_of_no_node)
{
	struct slub_cache *cache = slub_cache_create("none", 64, 0, 0, nullptr);

	for (int node : { 8, 64, 1 << 20, -2 }) {
		errno = 0;
		EXPECT_EQ(slub_cache_alloc_node(cache, 0, node), nullptr) << node;
		EXPECT_EQ(errno, EINVAL) << node;
	}
	EXPECT_EQ(slub_cache_destroy(cache), 0);
}

/* This program again under a policy: exit status 0 if all memory is as it says. */
void expect_policy_kept(int mode, int node, const char *check)
{
	pid_t pid = fork();
	int status;

	ASSERT_GE(pid, 0);
	if (!pid) {
		char number[16];

		snprintf(number, sizeof(number), "%d", node);
		if (nodes::set_policy(mode, node))
			_exit(9);
		execl("/proc/self/exe", "nodes", "--check", check, number, nullptr);
		_exit(8);
	}
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	EXPECT_EQ(harness::describe_status(status), "exit 0") << check;
}

TEST(nodes, a_policy_of_the_process_is_kept)
{
	SKIP_WITHOUT_NODES();
	int last = nodes::complete().back();

	expect_policy_kept(MPOL_BIND, last, "all");
	expect_policy_kept(MPOL_PREFERRED, last, "all");
}

} /* namespace */

/* "--check all NODE": small and large blocks of a thread on the first node lie on NODE. */
extern "C" int act_instead(int argc, char **argv)
{
	if (argc < 4 || strcmp(argv[1], "--check"))
		return -1;
	int node = atoi(argv[3]);

	nodes::go_to_cpu(nodes::cpus_of(nodes::complete().front())[0]);
	for (size_t bytes : { 4096ul, 64ul << 10, 4 * MIB }) {
		size_t nr = 16 * MIB / bytes;

		if (pages_on(blocks(nr, bytes), bytes, node) < nr * bytes / 4096 * 15 / 16)
			return 1;
	}
	return 0;
}
