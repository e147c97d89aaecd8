/* SPDX-License-Identifier: MIT */
/* core/page/large_run.c: runs that grow, and the mappings that they leave. */
#include <gtest/gtest.h>

#include <cstdio>
#include <vector>

#include "harness.h"
#include "start.h"
#include "walk.h"

namespace {

const size_t MiB = 1ul << 20;

/* Mappings of the heap, as the kernel has them. */
size_t mappings()
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];
	size_t n = 0;

	while (maps && fgets(line, sizeof(line), maps)) {
		unsigned long start = strtoul(line, nullptr, 16);

		n += start >= heap_start && start < heap_start + pagemap_committed();
	}
	if (maps)
		fclose(maps);
	return n;
}

class growing : public testing::Test {
protected:
	static void SetUpTestSuite()
	{
		start::once([] { start::page(4096 * MiB, 16 * MiB); });
	}
	void SetUp() override
	{
		if (SLUB_CONFIG_HARDENED)
			GTEST_SKIP() << "a block between fences is copied";
	}
	static char *alloc(size_t bytes)
	{
		bool is_zero;

		return (char *)large_alloc(bytes, PAGE_BYTES, &is_zero);
	}
	/* Side by side, so that none can grow where it is. */
	static std::vector<char *> grown(size_t nr, size_t from, size_t to)
	{
		std::vector<char *> all;

		for (size_t i = 0; i < nr; i++) {
			all.push_back(alloc(from));
			harness::fill(all[i], from, (unsigned)i);
		}
		for (size_t i = 0; i < nr; i++) {
			all[i] = (char *)large_resize(all[i], to);
			EXPECT_NE(all[i], nullptr);
			EXPECT_TRUE(harness::intact(all[i], from, (unsigned)i)) << i;
		}
		return all;
	}
};

TEST_F(growing, few_of_many_runs_are_moved_and_the_rest_is_copied)
{
	auto all = grown(200, 2 * MiB, 4 * MiB);

	EXPECT_GT(run_nr_moved(), 0u);
	EXPECT_LE(run_nr_moved(), 8u);
	EXPECT_LE(mappings(), 2 * 16 + 8u);
	for (char *ptr : all)
		large_free(ptr);
	EXPECT_EQ(run_nr_moved(), 0u);
}

/* What is a good part of the heap is moved whatever else is; it grows without a copy. */
TEST_F(growing, a_long_run_is_always_moved)
{
	auto small = grown(100, 2 * MiB, 4 * MiB);
	size_t before = run_nr_moved();
	char *ptr = alloc(64 * MiB);

	do
		small.push_back(alloc(2 * MiB));
	while (small.back() != ptr + 64 * MiB);
	ptr[64 * MiB - 1] = 7;
	ptr = (char *)large_resize(ptr, 128 * MiB);
	ASSERT_NE(ptr, nullptr);
	EXPECT_EQ(ptr[64 * MiB - 1], 7);
	EXPECT_EQ(run_nr_moved(), before + 1);
	EXPECT_LE(resident_pages(ptr, 128 * MiB), 64u) << "a copy would touch it all";
	large_free(ptr);
	for (char *one : small)
		large_free(one);
	EXPECT_EQ(run_nr_moved(), 0u);
}

TEST_F(growing, what_was_moved_is_mapped_anew_when_it_is_free)
{
	size_t before = mappings();

	for (int round = 0; round < 20; round++) {
		for (char *ptr : grown(20, 2 * MiB, 4 * MiB))
			large_free(ptr);
	}
	EXPECT_LE(mappings(), before + 2);
	page_purge_all();
	EXPECT_EQ(resident_pages((void *)heap_start, pagemap_committed()), 0u);
}

/* A program of sparse tables that grow does not pay for pages that it never touched. */
TEST_F(growing, a_copy_leaves_untouched_what_nobody_touched)
{
	std::vector<char *> all;
	size_t before = (page_purge_all(), harness::resident_bytes());

	for (int i = 0; i < 100; i++) {
		all.push_back(alloc(2 * MiB));
		all[i][MiB] = (char)(i + 1);
	}
	for (int i = 0; i < 100; i++) {
		all[i] = (char *)large_resize(all[i], 4 * MiB);
		ASSERT_NE(all[i], nullptr);
		EXPECT_EQ(all[i][MiB], (char)(i + 1));
		EXPECT_EQ(all[i][MiB + 1], 0);
	}
	EXPECT_LE(harness::resident_bytes(), before + 16 * MiB) << "of 200 MiB";
	for (char *ptr : all)
		large_free(ptr);
}

} /* namespace */
