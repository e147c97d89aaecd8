/* SPDX-License-Identifier: MIT */
/* malloc/emergency_map.c: mappings for a handler that wants more than the pool has. */
#include <gtest/gtest.h>
#include <thread>

#include "harness.h"
#include "slub.h"

namespace {

TEST(emergency_map, sizes_and_alignments)
{
	for (size_t align : { 16ul, 4096ul, 65536ul, 2ul << 20 })
		for (size_t bytes : { 0ul, 1ul, 4096ul, 300000ul, 5ul << 20 }) {
			auto *ptr = (char *)emergency_map(bytes, align);

			ASSERT_NE(ptr, nullptr);
			EXPECT_EQ((uintptr_t)ptr % std::max<size_t>(align, 4096), 0u);
			EXPECT_GE(emergency_map_bytes(ptr), bytes);
			EXPECT_EQ(harness::first_nonzero(ptr, bytes), bytes);
			memset(ptr, 0xff, emergency_map_bytes(ptr));
			EXPECT_FALSE(pagemap_covers(ptr));
			EXPECT_TRUE(emergency_unmap(ptr));
			EXPECT_EQ(emergency_map_bytes(ptr), 0u);
			EXPECT_FALSE(emergency_unmap(ptr)) << "a second time";
		}
}

TEST(emergency_map, what_cannot_be)
{
	EXPECT_EQ(emergency_map(SIZE_MAX, 16), nullptr);
	EXPECT_EQ(emergency_map(SIZE_MAX - 4096, 4096), nullptr);
	EXPECT_EQ(emergency_map((size_t)1 << 50, 16), nullptr);
	for (int i = 0; i < 200; i++)	/* and leaves its entry free */
		EXPECT_EQ(emergency_map((size_t)1 << 50, 16), nullptr);
	void *ptr = emergency_map(4096, 16);
	EXPECT_NE(ptr, nullptr);
	EXPECT_TRUE(emergency_unmap(ptr));
}

TEST(emergency_map, strangers_are_not_unmapped)
{
	auto *ptr = (char *)emergency_map(3 * 4096, 16);
	int on_stack = 5;

	for (void *other : { (void *)nullptr, (void *)1, (void *)&on_stack, (void *)(ptr + 4096),
			     (void *)(ptr + 16) }) {
		EXPECT_FALSE(emergency_unmap(other)) << other;
		EXPECT_EQ(emergency_map_bytes(other), 0u) << other;
	}
	ptr[2 * 4096] = 1;
	EXPECT_TRUE(emergency_unmap(ptr));
}

TEST(emergency_map, entries_run_out_and_come_back)
{
	for (int round = 0; round < 3; round++) {
		void *all[100];
		size_t n = 0;

		while (n < std::size(all) && (all[n] = emergency_map(4096, 16)))
			n++;
		EXPECT_EQ(n, 64u);
		for (size_t i = 0; i < n; i++)
			EXPECT_TRUE(emergency_unmap(all[i]));
	}
}

TEST(emergency_map, threads)
{
	std::vector<std::thread> threads;

	for (int t = 0; t < 4; t++)
		threads.emplace_back([t] {
			for (int i = 0; i < 500; i++) {
				auto *ptr = (char *)emergency_map(8192, 16);

				ASSERT_NE(ptr, nullptr);
				harness::fill(ptr, 8192, (uint64_t)t);
				ASSERT_TRUE(harness::intact(ptr, 8192, (uint64_t)t));
				ASSERT_TRUE(emergency_unmap(ptr));
			}
		});
	for (auto &thread : threads)
		thread.join();
}

} /* namespace */
