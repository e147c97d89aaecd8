/* SPDX-License-Identifier: MIT */
/* features/profile/profile.c: the trails of samples, in the book and in a copy of it. */
#include <cstdlib>
#include <gtest/gtest.h>

#include "slub.h"

extern "C" {
#include "features/profile/profile.h"
#include "features/profile/profile_trail.h"
}

namespace {

class trail_book : public testing::Test {
protected:
	void SetUp() override
	{
		if (!trails_begin())
			GTEST_SKIP() << "no registers are known of this CPU";
	}
	void TearDown() override
	{
		trails_end();
	}
};

/* What was unwound before can still be joined. */
TEST_F(trail_book, samples_keep_their_trails_when_the_ring_goes_off)
{
	uint64_t before = trail_ring.drawn;
	struct profile_state state;
	void *volatile blocks[3];

	ASSERT_EQ(slub_profile_start(1), 0);
	for (void *volatile &block : blocks)
		block = malloc(1000);
	trails_end();
	free(blocks[1]);
	ASSERT_EQ(slub_profile_stop(), 0);
	ASSERT_EQ(profile_copy(&state), 0);
	EXPECT_EQ(state.last_trail, before + 3);
	ASSERT_EQ(state.nr_trails, 2u);
	EXPECT_EQ(state.trails[0], before + 1);
	EXPECT_EQ(state.trails[1], before + 3);
	profile_copy_free(&state);
	free(blocks[0]);
	free(blocks[2]);
}

/* Its place in the book was that of a sample with a trail. */
TEST_F(trail_book, a_sample_without_a_trail_has_no_old_one)
{
	struct profile_state state;
	void *volatile block;

	for (bool is_on : { true, false }) {
		if (!is_on)
			trails_end();
		ASSERT_EQ(slub_profile_start(1), 0);
		block = malloc(1000);
		ASSERT_EQ(slub_profile_stop(), 0);
		ASSERT_EQ(profile_copy(&state), 0);
		EXPECT_EQ(state.nr_trails, is_on ? 1u : 0u);
		profile_copy_free(&state);
		free(block);
	}
}

/* What a book had before it was begun anew is no sample's. */
TEST_F(trail_book, a_new_book_has_no_old_trails)
{
	struct profile_state state;
	void *volatile blocks[4];

	ASSERT_EQ(slub_profile_start(1), 0);
	for (int i = 0; i < 3; i++)
		blocks[i] = malloc(1000);
	ASSERT_EQ(slub_profile_start(1), 0);
	blocks[3] = malloc(1000);
	ASSERT_EQ(slub_profile_stop(), 0);
	ASSERT_EQ(profile_copy(&state), 0);
	ASSERT_EQ(state.nr_trails, 1u);
	EXPECT_EQ(state.trails[0], trail_ring.drawn);
	profile_copy_free(&state);
	for (void *volatile block : blocks)
		free(block);
}

} /* namespace */
