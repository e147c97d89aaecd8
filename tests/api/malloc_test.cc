/* SPDX-License-Identifier: MIT */
/* Promise: slub/malloc.h, in a program that has this malloc and in one that has another. */
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <malloc.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <slub/slub.h>

static const size_t absurd = SIZE_MAX / 2 + 1;

TEST(Malloc, IsTheSameAsTheOther)
{
	void *block = slub_malloc(100);

	ASSERT_NE(block, nullptr);
	EXPECT_EQ(slub_usable_size(block), malloc_usable_size(block));
	memset(block, 7, 100);
	block = realloc(block, 5000);
	ASSERT_NE(block, nullptr);
	EXPECT_EQ(((char *)block)[99], 7);
	block = slub_realloc(block, 100000);
	ASSERT_NE(block, nullptr);
	EXPECT_EQ(((char *)block)[99], 7);
	slub_free(block);
	block = malloc(50);
	slub_free(block);
	block = slub_realloc(nullptr, 60);
	ASSERT_NE(block, nullptr);
	EXPECT_EQ(slub_realloc(block, 0), nullptr) << "freed";
}

TEST(Malloc, ZeroesAndAligns)
{
	for (size_t bytes : { 1, 48, 5000, 100000 }) {
		auto *block = (unsigned char *)slub_malloc(bytes);

		ASSERT_NE(block, nullptr);
		memset(block, 0xff, bytes);
		slub_free(block);
		block = (unsigned char *)slub_calloc(1, bytes);
		ASSERT_NE(block, nullptr);
		for (size_t i = 0; i < bytes; i++)
			ASSERT_EQ(block[i], 0u) << bytes << " at " << i;
		slub_free(block);
	}
	for (size_t align = 1; align <= 8 << 20; align *= 2) {
		void *block = slub_aligned_alloc(align, 100);

		ASSERT_NE(block, nullptr);
		EXPECT_EQ((uintptr_t)block % align, 0u);
		slub_free(block);
	}
}

TEST(Malloc, RefusesWhatCannotBe)
{
	errno = 0;
	EXPECT_EQ(slub_malloc(absurd), nullptr);
	EXPECT_EQ(errno, ENOMEM);
	errno = 0;
	EXPECT_EQ(slub_calloc(absurd, 4), nullptr);
	EXPECT_EQ(errno, ENOMEM);
	errno = 0;
	EXPECT_EQ(slub_aligned_alloc(24, 100), nullptr);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(slub_usable_size(nullptr), 0u);
	slub_free(nullptr);
}

TEST(GoodSize, IsWhatABlockHas)
{
	std::vector<size_t> sizes;

	for (size_t bytes = 0; bytes < 5000; bytes += bytes < 300 ? 1 : 13)
		sizes.push_back(bytes);
	for (size_t bytes = 5000; bytes < 9 << 20; bytes += bytes / 7)
		sizes.push_back(bytes);
	for (size_t bytes : sizes) {
		void *block = slub_malloc(bytes);

		ASSERT_NE(block, nullptr);
		EXPECT_EQ(slub_good_size(bytes), slub_usable_size(block)) << bytes;
		EXPECT_GE(slub_good_size(bytes), bytes);
		EXPECT_EQ(slub_good_size(slub_good_size(bytes)), slub_good_size(bytes));
		slub_free(block);
	}
	EXPECT_EQ(slub_good_size(absurd), 0u);
	EXPECT_EQ(slub_good_size(SIZE_MAX), 0u);
}

TEST(Malloc, ServesAProgramThatHasAnother)
{
	char program[400];
	ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);

	ASSERT_GT(n, 0);
	program[n] = '\0';
	*strrchr(program, '/') = '\0';
	EXPECT_EQ(system((std::string(program) + "/other_malloc " + SLUB_SO).c_str()), 0);
}
