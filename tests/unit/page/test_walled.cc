/* SPDX-License-Identifier: MIT */
/* core/page/superblock.c: a large mapping of the program's where the heap is to grow. */
#include <gtest/gtest.h>
#include <set>
#include <sys/mman.h>
#include <thread>
#include <vector>

#include "harness.h"
#include "start.h"

namespace {

const size_t MiB = 1ul << 20, GiB = 1ul << 30;
unsigned long nr_mapped;

} /* namespace */

extern "C" int __real_os_map_at(void *start, size_t bytes);
extern "C" int __real_os_map_closed_at(void *start, size_t bytes);

/* os_map_at() and os_map_closed_at() of this program, by the linker's --wrap. */
extern "C" int __wrap_os_map_at(void *start, size_t bytes)
{
	nr_mapped++;
	return __real_os_map_at(start, bytes);
}

extern "C" int __wrap_os_map_closed_at(void *start, size_t bytes)
{
	nr_mapped++;
	return __real_os_map_closed_at(start, bytes);
}

namespace {

std::vector<char *> take_all()
{
	std::vector<char *> all;
	bool is_zero;

	while (char *block = superblock_alloc(1, 1, 0, false, &is_zero)) {
		EXPECT_TRUE(is_zero);
		block[0] = block[SUPERBLOCK_BYTES - 1] = 1;
		all.push_back(block);
	}
	return all;
}

/* Each second superblock is theirs: a request of many gives up, and the next one goes on. */
TEST(walled, one_request_makes_few_calls)
{
	auto body = [] {
		size_t most = 0, before;
		bool is_zero;

		start::page(GiB, 1ul << 40);
		for (size_t at = 0; at < GiB; at += 4 * MiB)
			mmap((char *)heap_start + at, 4096, PROT_NONE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
		for (int i = 0; i < 20; i++) {
			before = nr_mapped;
			EXPECT_EQ(superblock_alloc(100, 1, 0, false, &is_zero), nullptr);
			most = std::max(most, nr_mapped - before);
		}
		EXPECT_LE(most, 13u);
		/* The half that is free is had all the same. */
		EXPECT_EQ(take_all().size(), 256u);
		if (HasFailure())
			_exit(1);
	};

	EXPECT_EQ(harness::in_child(body), 0);
}

/*
 * Four threads meet the walls, and take what becomes free of them, to the end: each superblock
 * has one owner, and none is lost.
 */
TEST(walled, threads)
{
	auto body = [] {
		std::vector<std::vector<char *>> mine(4);
		std::vector<std::thread> threads;
		std::set<char *> distinct;
		size_t nr = 0;

		start::page(GiB, 1ul << 40);
		for (size_t at = 8 * MiB; at < GiB; at += 24 * MiB)
			mmap((char *)heap_start + at, 12 * MiB, PROT_NONE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
		for (auto &list : mine)
			threads.emplace_back([&list] {
				percpu_enter();
				list = take_all();
			});
		for (size_t at = 8 * MiB; at < GiB; at += 24 * MiB)
			munmap((char *)heap_start + at, 12 * MiB);
		for (auto &thread : threads)
			thread.join();
		mine.push_back(take_all());
		for (auto &list : mine) {
			distinct.insert(list.begin(), list.end());
			nr += list.size();
		}
		EXPECT_EQ(distinct.size(), nr);
		EXPECT_EQ(nr, 512u);
		EXPECT_EQ(superblock_nr_used(), 512u);
		if (HasFailure())
			_exit(1);
	};

	EXPECT_EQ(harness::in_child(body), 0);
}

/* Of 2,048 superblocks 1,024 are theirs; the heap has the others, and theirs once they are free. */
TEST(walled, a_large_mapping_is_passed_in_few_calls)
{
	start::page(4 * GiB, 1ul << 40);
	char *theirs = (char *)heap_start + 64 * MiB;
	ASSERT_EQ(mmap(theirs, 2 * GiB, PROT_NONE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0),
		  (void *)theirs);
	bool is_zero;
	size_t before = nr_mapped;
	std::vector<char *> front;
	char *block;

	/* Until one lies behind it. */
	while ((block = superblock_alloc(1, 1, 0, false, &is_zero)) < theirs) {
		ASSERT_NE(block, nullptr);
		front.push_back(block);
	}
	/* One by one it would be 1,024 superblocks, of several calls each; 44 lie before it. */
	EXPECT_LE(nr_mapped - before, 44u + 16);
	EXPECT_GE(block, theirs + 2 * GiB);
	EXPECT_FALSE(superblock_is_walled_in());
	auto rest = take_all();
	size_t had = front.size() + 1 + rest.size();
	/* What the last step took too much was used again. */
	EXPECT_EQ(had, 1024u);
	before = nr_mapped;
	EXPECT_EQ(superblock_alloc(1, 1, 0, false, &is_zero), nullptr);
	EXPECT_TRUE(superblock_is_walled_in());
	/* Each refusal looks at some of them, and not at all. */
	EXPECT_LE(nr_mapped - before, 5u);

	munmap(theirs, 2 * GiB);
	auto found = take_all();
	EXPECT_EQ(had + found.size(), 2048u);
	EXPECT_EQ(superblock_nr_used(), 2048u);
	EXPECT_EQ(superblock_alloc(1, 1, 0, false, &is_zero), nullptr);
	EXPECT_FALSE(superblock_is_walled_in());
	for (char *one : found)
		superblock_free(one, 1, true);
	EXPECT_EQ(superblock_alloc(8, 1, 0, false, &is_zero) != nullptr, true);
}

} /* namespace */
