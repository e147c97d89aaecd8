/* SPDX-License-Identifier: MIT */
/* core/base/bits.h against definitions that count. */
#include <gtest/gtest.h>

#include "slub.h"

namespace {

/* Small numbers, and every power of two with its neighbours. */
std::vector<size_t> numbers()
{
	std::vector<size_t> list;

	for (size_t n = 1; n <= 5000; n++)
		list.push_back(n);
	for (unsigned int bit = 12; bit < 63; bit++)
		for (size_t n : {((size_t)1 << bit) - 1, (size_t)1 << bit, ((size_t)1 << bit) + 1})
			list.push_back(n);
	return list;
}

unsigned int count_bits(size_t n)
{
	unsigned int bits = 0;

	for (; n; n >>= 1)
		bits += n & 1;
	return bits;
}

TEST(bits, power_of_two_has_one_bit)
{
	EXPECT_FALSE(is_power_of_two(0));
	for (size_t n : numbers())
		EXPECT_EQ(is_power_of_two(n), count_bits(n) == 1) << n;
}

TEST(bits, ilog2_is_the_highest_bit)
{
	for (size_t n : numbers()) {
		unsigned int bit = ilog2(n);

		EXPECT_EQ(n >> bit, 1u) << n;
	}
	EXPECT_EQ(ilog2(SIZE_MAX), 63u);
}

TEST(bits, order_is_the_smallest_that_fits)
{
	for (size_t n : numbers()) {
		unsigned int order = order_of(n);

		EXPECT_GE((size_t)1 << order, n);
		if (order > 0) {
			EXPECT_LT((size_t)1 << (order - 1), n);
		}
		EXPECT_EQ(round_up_power_of_two(n), (size_t)1 << order);
	}
	EXPECT_EQ(order_of(0), 0u);
}

TEST(bits, rounding)
{
	for (size_t align = 1; align <= 65536; align *= 2) {
		for (size_t n = 0; n < 1000; n++) {
			size_t at = n * (align / 16 + 1);
			size_t up = round_up(at, align);
			size_t down = round_down(at, align);

			EXPECT_EQ(up % align, 0u);
			EXPECT_EQ(down % align, 0u);
			EXPECT_TRUE(up >= at && up - at < align);
			EXPECT_TRUE(down <= at && at - down < align);
		}
	}
}

TEST(bits, min_and_max)
{
	EXPECT_EQ(min_size(3, SIZE_MAX), 3u);
	EXPECT_EQ(max_size(3, SIZE_MAX), SIZE_MAX);
	EXPECT_EQ(min_size(7, 7), 7u);
}

} /* namespace */
