/* SPDX-License-Identifier: MIT */
/* Bits, and pools. */
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "slub.h"

extern "C" {
#include "features/reclaim/bitmap.h"
#include "features/reclaim/numbered.h"
}

namespace {

TEST(Bits, SameAsASet)
{
	static struct bits bits;
	std::set<uint32_t> model;
	std::mt19937 random(1);

	EXPECT_EQ(bits_next(&bits, 0, BITS_NR, true), BITS_NR);
	for (int round = 0; round < 2000; round++) {
		uint32_t n = round % 3 ? random() % BITS_NR : random() % 200;

		if (random() % 3) {
			bit_set(bits.words, n);
			model.insert(n);
		} else if (!model.empty()) {
			n = *model.lower_bound(random() % (*model.rbegin() + 1));
			bit_clear(bits.words, n);
			model.erase(n);
		}
		auto next = model.lower_bound(n);
		EXPECT_EQ(bits_next(&bits, n, BITS_NR, true),
			  next == model.end() ? BITS_NR : *next);
		uint32_t end = n + random() % 300;
		uint32_t clear = n;

		while (clear < end && model.count(clear))
			clear++;
		if (end <= BITS_NR) {
			EXPECT_EQ(bits_next(&bits, n, end, false), clear);
		}
	}
	std::set<uint32_t> seen;
	for (uint32_t n = bits_next(&bits, 0, BITS_NR, true); n < BITS_NR;
	     n = bits_next(&bits, n + 1, BITS_NR, true))
		seen.insert(n);
	EXPECT_EQ(seen, model);
}

TEST(Bits, TheEnds)
{
	static struct bits bits;

	bit_set(bits.words, BITS_NR - 1);
	EXPECT_EQ(bits_next(&bits, 0, BITS_NR, true), BITS_NR - 1);
	EXPECT_EQ(bits_next(&bits, 0, BITS_NR - 1, true), BITS_NR - 1);
	EXPECT_EQ(bits_next(&bits, BITS_NR - 1, BITS_NR, true), BITS_NR - 1);
	EXPECT_EQ(bits_next(&bits, BITS_NR, BITS_NR, true), BITS_NR);
	bit_set(bits.words, 0);
	EXPECT_EQ(bits_next(&bits, 0, BITS_NR, true), 0u);
	EXPECT_EQ(bits_next(&bits, 1, BITS_NR, true), BITS_NR - 1);
	EXPECT_EQ(bits_next(&bits, 0, 10, false), 1u);
	EXPECT_EQ(bits_next(&bits, 0, 1, false), 1u);
}

TEST(Pool, NumbersAndItems)
{
	static struct pool pool = POOL_INIT(128, 5000);
	std::set<void *> items;

	EXPECT_EQ(pool_end(&pool), 1u);
	for (int i = 0; i < 4999; i++) {
		void *item = pool_get(&pool);

		ASSERT_NE(item, nullptr);
		EXPECT_TRUE(items.insert(item).second);
		uint32_t number = pool_number(&pool, item);
		EXPECT_GT(number, 0u);
		EXPECT_LT(number, pool_end(&pool));
		EXPECT_EQ(pool_item(&pool, number), item);
		for (int k = 0; k < 16; k++)
			EXPECT_EQ(((uint64_t *)item)[k], 0u);
	}
	EXPECT_EQ(pool_get(&pool), nullptr);
	void *item = *items.begin();
	*(uint64_t *)item = 42;
	pool_put(&pool, item);
	EXPECT_EQ(pool_get(&pool), item);
	EXPECT_EQ(*(uint64_t *)item, 42u);
}

} /* namespace */
