/* SPDX-License-Identifier: MIT */
/* calloc(): what it hands out reads as zero, and costs no memory where it was never used. */
#include <gtest/gtest.h>
#include <malloc.h>
#include <random>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "harness.h"
#include "slub.h"
#include "start.h"

namespace {

size_t resident_pages(const void *start, size_t bytes)
{
	unsigned char in[CLASS_SIZE_MAX / 4096 + 1];
	auto first = (uintptr_t)start / 4096 * 4096;
	size_t pages = ((uintptr_t)start + bytes - first + 4095) / 4096, nr = 0;

	EXPECT_EQ(mincore((void *)first, pages * 4096, in), 0);
	for (size_t i = 0; i < pages; i++)
		nr += in[i] & 1;
	return nr;
}

/* Of a class of a page or more: the links of its objects lie elsewhere. */
class zeroed : public testing::TestWithParam<size_t> {};

TEST_P(zeroed, fresh_objects_are_not_written)
{
	if (SLUB_CONFIG_HARDENED)
		GTEST_SKIP() << "each object has a tail, which is written";
	if (sysconf(_SC_PAGESIZE) != 4096)
		GTEST_SKIP() << "larger pages";
	const size_t bytes = GetParam(), nr = 200;
	std::vector<char *> mine;
	size_t resident = 0;

	malloc_trim(0);
	for (size_t i = 0; i < nr; i++) {
		mine.push_back((char *)calloc(1, bytes));
		ASSERT_NE(mine.back(), nullptr);
		resident += resident_pages(mine.back(), bytes);
	}
	if (start::has_wanted_backend()) {
		EXPECT_LE(resident, nr / 4) << "of " << nr * bytes / 4096;
	}
	for (char *one : mine) {
		EXPECT_EQ(harness::first_nonzero(one, bytes), bytes);
		harness::fill(one, bytes, bytes);
	}
	for (char *one : mine) {
		EXPECT_TRUE(harness::intact(one, bytes, bytes));
		free(one);
	}
}

/* Memory that is there goes before memory that is not, and is zeroed. */
TEST_P(zeroed, what_was_freed_goes_first)
{
	const size_t bytes = GetParam();
	void *object = malloc(bytes);

	memset(object, 0xee, bytes);
	free(object);
	char *again = (char *)calloc(bytes, 1);
	ASSERT_NE(again, nullptr);
	EXPECT_EQ(harness::first_nonzero(again, bytes), bytes);
	if (!SLUB_CONFIG_HARDENED) {
		EXPECT_EQ(again, object);
	}
	free(again);
}

INSTANTIATE_TEST_SUITE_P(classes, zeroed, testing::Values(4096, 5000, 8192, 30000, 32 << 10));

/* malloc() and calloc() from the same slabs, on two threads, all of it written. */
void churn(unsigned seed)
{
	std::mt19937 rng(seed);
	std::vector<std::pair<char *, size_t>> mine(300);

	for (int i = 0; i < 20000; i++) {
		auto &[ptr, bytes] = mine[rng() % mine.size()];

		if (ptr) {
			ASSERT_EQ((uint8_t)ptr[bytes - 1], 0xee) << "another has it too";
			free(ptr);
			ptr = nullptr;
			continue;
		}
		bytes = 4000 + rng() % 28000;
		if (rng() % 2) {
			ptr = (char *)calloc(1, bytes);
			ASSERT_NE(ptr, nullptr);
			ASSERT_EQ(harness::first_nonzero(ptr, bytes), bytes);
		} else {
			ptr = (char *)malloc(bytes);
			ASSERT_NE(ptr, nullptr);
		}
		memset(ptr, 0xee, bytes);
	}
	for (auto &[ptr, bytes] : mine)
		free(ptr);
}

TEST(zeroed_by_two, all_of_it_whatever_came_before)
{
	std::thread other(churn, 2);

	churn(1);
	other.join();
}

} // namespace
