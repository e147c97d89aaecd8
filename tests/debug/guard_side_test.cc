// SPDX-License-Identifier: MIT
// Promise: option guard_side says at which end of its pages each guarded object lies.  With N = 1,
// under each of its values.
#include "guard.h"

namespace {

struct ends {
	int at_front, at_behind, all;
};

// Where objects of `bytes` lie, whose size fills no page.
ends look(size_t bytes)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	ends ends = {};

	for (int i = 0; i < 64; i++) {
		char *p = (char *)malloc(bytes);

		EXPECT_TRUE(is_guarded(p)) << bytes;
		ends.at_front += !((uintptr_t)p % page);
		ends.at_behind += !((uintptr_t)(p + (bytes + 15) / 16 * 16) % page);
		ends.all++;
		memset(p, 1, bytes);
		free(p);
	}
	return ends;
}

TEST(GuardSide, is_the_one_that_was_asked_for)
{
	const char *side = getenv("SLUB_GUARD_SIDE");

	for (size_t bytes : { 1, 24, 100, 2000, 5000, 33000, 100000 }) {
		ends ends = look(bytes);

		EXPECT_EQ(ends.all, ends.at_front + ends.at_behind) << bytes;
		if (!side || !strcmp(side, "any")) {
			EXPECT_GT(ends.at_front, 0) << bytes;
			EXPECT_GT(ends.at_behind, 0) << bytes;
		} else {
			EXPECT_EQ(!strcmp(side, "front") ? ends.all : 0, ends.at_front) << bytes;
		}
	}
	EXPECT_EQ(0u, pool()->errors);
	EXPECT_EQ(0u, larger()->errors);
}

} // namespace
