/* SPDX-License-Identifier: MIT */
/* Bits with a summary, and pools. */
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "slub.h"

extern "C" {
#include "reclaim/bitmap.h"
#include "reclaim/numbered.h"
}

namespace {

TEST(Bits, SameAsASet)
{
	static struct bits bits;
	std::set<uint32_t> model;
	std::mt19937 random(1);

	EXPECT_TRUE(bits_are_clear(&bits));
	EXPECT_EQ(bits_next(&bits, 0), BITS_NR);
	for (int round = 0; round < 2000; round++) {
		uint32_t n = round % 3 ? random() % BITS_NR : random() % 200;

		if (random() % 3) {
			bits_set(&bits, n);
			model.insert(n);
		} else if (!model.empty()) {
			n = *model.lower_bound(random() % (*model.rbegin() + 1));
			bits_clear(&bits, n);
			model.erase(n);
		}
		EXPECT_EQ(bits_are_clear(&bits), model.empty());
		auto next = model.lower_bound(n);
		EXPECT_EQ(bits_next(&bits, n), next == model.end() ? BITS_NR : *next);
	}
	std::set<uint32_t> seen;
	for (uint32_t n = bits_next(&bits, 0); n < BITS_NR; n = bits_next(&bits, n + 1))
		seen.insert(n);
	EXPECT_EQ(seen, model);
	for (uint32_t n : model)
		bits_clear(&bits, n);
	EXPECT_TRUE(bits_are_clear(&bits));
	for (uint64_t word : bits.summary)
		EXPECT_EQ(word, 0u);
}

TEST(Bits, TheEnds)
{
	static struct bits bits;

	bits_set(&bits, BITS_NR - 1);
	EXPECT_EQ(bits_next(&bits, 0), BITS_NR - 1);
	EXPECT_EQ(bits_next(&bits, BITS_NR - 1), BITS_NR - 1);
	EXPECT_EQ(bits_next(&bits, BITS_NR), BITS_NR);
	bits_set(&bits, 0);
	EXPECT_EQ(bits_next(&bits, 0), 0u);
	EXPECT_EQ(bits_next(&bits, 1), BITS_NR - 1);
	EXPECT_EQ(bits_next_clear(&bits, 0, 10), 1u);
	EXPECT_EQ(bits_next_clear(&bits, 0, 1), 1u);
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
