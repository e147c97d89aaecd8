/* SPDX-License-Identifier: MIT */
/* core/base/inject.c: points are hit as SLUB_INJECT says, and are nothing in other builds. */
#include <gtest/gtest.h>
#include <stdlib.h>

#include "slub.h"

namespace {

TEST(inject, points_that_are_on_are_hit_at_the_rate)
{
	setenv("SLUB_INJECT", "points=stop+keep,rate=1,sleep=0,seed=3,unknown=4", 1);
	EXPECT_EQ(inject_fails(INJECT_stop), SLUB_CONFIG_INJECT == 1);
	EXPECT_EQ(inject_fails(INJECT_keep), SLUB_CONFIG_INJECT == 1);
	EXPECT_FALSE(inject_fails(INJECT_stopped)) << "the name of another begins so";
	EXPECT_FALSE(inject_fails(INJECT_abort));
	EXPECT_FALSE(inject_fails(INJECT_quick));
	/* Each kind of wait comes back. */
	for (int i = 0; i < 100; i++)
		inject(INJECT_stop);
}

} /* namespace */
