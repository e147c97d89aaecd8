/* SPDX-License-Identifier: MIT */
/* Promise: slub::arrow_pool does what Arrow asks of a MemoryPool, and a group limits it. */
#include <gtest/gtest.h>
#include <cstring>
#include <limits>
#include <thread>
#include <vector>

#include <slub/cpp/arrow.hpp>

namespace {

constexpr std::size_t limit = 1 << 20;

/* A pool with a limit, as the head of the header has it. */
struct ArrowPool : testing::Test {
	ArrowPool()
	{
		group.set_limit(SLUB_GROUP_MAX, limit);
		bucket.set_group(group);
	}

	slub::group group{ "arrow" };
	slub::bucket bucket{ "arrow", SLUB_CACHE_ACCOUNT };
	slub::arrow_pool pool{ bucket };
};

bool is_aligned(const void *p, std::int64_t align)
{
	return reinterpret_cast<std::uintptr_t>(p) % std::uintptr_t(align) == 0;
}

TEST_F(ArrowPool, AlignsAndCounts)
{
	std::vector<std::uint8_t *> blocks;
	std::int64_t sum = 0;

	for (std::int64_t size : { 0, 1, 63, 64, 100, 4096, 33000, 100000 }) {
		for (std::int64_t align : { 64, 128, 4096 }) {
			std::uint8_t *block = nullptr;

			ASSERT_TRUE(pool.Allocate(size, align, &block).ok());
			ASSERT_TRUE(block && is_aligned(block, align)) << size << " " << align;
			std::memset(block, 0xee, std::size_t(size));
			sum += size;
			pool.Free(block, size, align);
			ASSERT_TRUE(pool.Allocate(size, &block).ok());
			blocks.push_back(block);
		}
		EXPECT_EQ(pool.bytes_allocated(), sum);
	}
	EXPECT_EQ(pool.total_bytes_allocated(), 2 * sum);
	EXPECT_EQ(pool.num_allocations(), 48);
	EXPECT_GE(pool.max_memory(), sum);
	EXPECT_GE(group.stats().usage, std::size_t(sum));
	std::size_t i = 0;
	for (std::int64_t size : { 0, 1, 63, 64, 100, 4096, 33000, 100000 }) {
		for (int n = 0; n < 3; n++)
			pool.Free(blocks[i++], size);
	}
	EXPECT_EQ(pool.bytes_allocated(), 0);
	EXPECT_EQ(group.stats().usage, 0u);
	EXPECT_EQ(bucket.stats().live_blocks, 0u);
	EXPECT_EQ(pool.backend_name(), "slub");
}

TEST_F(ArrowPool, ReallocatesWithContentsAndAlignment)
{
	static const std::int64_t sizes[] = { 10, 64, 100, 110, 5000, 40000, 70000, 500000, 300000,
					      66000, 33000, 4000, 64, 0, 200000, 0, 5, 0 };

	for (std::int64_t align : { 64, 4096 }) {
		std::uint8_t *block = nullptr;
		std::int64_t before = 0;

		ASSERT_TRUE(pool.Allocate(0, align, &block).ok());
		for (std::int64_t size : sizes) {
			ASSERT_TRUE(pool.Reallocate(before, size, align, &block).ok());
			ASSERT_TRUE(is_aligned(block, align)) << before << " to " << size;
			for (std::int64_t n = 0; n < std::min(before, size); n++)
				ASSERT_EQ(block[n], std::uint8_t(n * 7)) << before << " " << size;
			for (std::int64_t n = 0; n < size; n++)
				block[n] = std::uint8_t(n * 7);
			ASSERT_EQ(pool.bytes_allocated(), size);
			before = size;
		}
		pool.Free(block, 0, align);
	}
	EXPECT_EQ(group.stats().usage, 0u);
	EXPECT_EQ(bucket.stats().refused, 0u);
}

TEST_F(ArrowPool, SaysSoAtItsLimitAndGoesOn)
{
	std::uint8_t *first = nullptr, *second = nullptr, *same;

	ASSERT_TRUE(pool.Allocate(limit / 2, &first).ok());
	std::memset(first, 0xee, limit / 2);
	arrow::Status status = pool.Allocate(limit, &second);
	EXPECT_TRUE(status.IsOutOfMemory());
	EXPECT_NE(status.message().find(std::to_string(limit)), std::string::npos);
	same = first;
	EXPECT_TRUE(pool.Reallocate(limit / 2, 2 * limit, &first).IsOutOfMemory());
	EXPECT_EQ(first, same);
	EXPECT_EQ(first[limit / 2 - 1], 0xee);
	EXPECT_EQ(pool.bytes_allocated(), std::int64_t(limit / 2));
	constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
	EXPECT_TRUE(pool.Allocate(most, &second).IsOutOfMemory());
	EXPECT_TRUE(pool.Allocate(-1, &second).IsInvalid());
	EXPECT_TRUE(pool.Reallocate(limit / 2, -1, &first).IsInvalid());
	pool.Free(first, limit / 2);
	ASSERT_TRUE(pool.Allocate(limit, &second).ok());
	EXPECT_EQ(group.stats().usage, limit);
	pool.Free(second, limit);
	pool.ReleaseUnused();
	EXPECT_EQ(group.stats().usage, 0u);
}

TEST_F(ArrowPool, ChargesWhicheverThread)
{
	std::vector<std::thread> threads;

	for (int t = 0; t < 4; t++) {
		threads.emplace_back([this] {
			for (int i = 0; i < 5000; i++) {
				std::uint8_t *block = nullptr;
				std::int64_t size = i % 3 ? 192 : 48000;

				if (!pool.Allocate(size, &block).ok())
					continue;
				block[size - 1] = 1;
				if (pool.Reallocate(size, 2 * size, &block).ok())
					size *= 2;
				pool.Free(block, size);
			}
		});
	}
	for (std::thread &thread : threads)
		thread.join();
	EXPECT_EQ(pool.bytes_allocated(), 0);
	EXPECT_EQ(group.stats().usage, 0u);
	EXPECT_GE(group.stats().peak, 96000u);
}

TEST_F(ArrowPool, LosesNothingForGood)
{
	std::uint8_t *lost = nullptr;

	ASSERT_TRUE(pool.Allocate(1000, &lost).ok());
	ASSERT_TRUE(pool.Allocate(100000, &lost).ok());
	pool.PrintStats();
	ASSERT_TRUE(bucket.clear());
	EXPECT_EQ(group.stats().usage, 0u);
}

} // namespace
