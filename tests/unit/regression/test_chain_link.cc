/* SPDX-License-Identifier: MIT */
/*
 * Objects of a page keep their links in the descriptor of their page.  The second one, from chain
 * to chain in a barn, once shared the word that the slab's own list uses: after some rounds a slab
 * was on a list that led nowhere.
 */
#include <gtest/gtest.h>
#include <malloc.h>

#include "harness.h"
#include "slub.h"

namespace {

class chain_link : public testing::TestWithParam<size_t> {
};

TEST_P(chain_link, many_blocks_again_and_again)
{
	const size_t nr = 10000, size = GetParam();
	std::vector<void *> mine(nr);
	struct cache_census census;

	for (int round = 0; round < 20; round++) {
		for (size_t i = 0; i < nr; i++) {
			mine[i] = malloc(size);
			ASSERT_NE(mine[i], nullptr);
			*(size_t *)mine[i] = i;
			((size_t *)mine[i])[size / sizeof(size_t) - 1] = i;
		}
		for (size_t i = 0; i < nr; i++) {
			ASSERT_EQ(*(size_t *)mine[i], i) << "round " << round;
			ASSERT_EQ(((size_t *)mine[i])[size / sizeof(size_t) - 1], i);
		}
		/* Forwards, backwards, and every other one first. */
		for (size_t i = 0; i < nr; i++)
			free(mine[round % 3 == 0 ? i : round % 3 == 1 ? nr - 1 - i :
				  i < nr / 2 ? 2 * i : 2 * (i - nr / 2) + 1]);
	}
	malloc_trim(0);
	census_cache(sizeclass_cache(size), &census);
	EXPECT_LT(census.active, 100u);
}

INSTANTIATE_TEST_SUITE_P(size, chain_link, testing::Values(4096, 5120, 8192),
			 testing::PrintToStringParamName());

} /* namespace */
