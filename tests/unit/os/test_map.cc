/* SPDX-License-Identifier: MIT */
/* os/map.c: what is behind addresses, and whose they are. */
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "harness.h"
#include "slub.h"

namespace {

const size_t bytes = 1 << 20;

class hole : public testing::Test {
protected:
	void SetUp() override
	{
		start = (char *)os_map(bytes);
		ASSERT_NE(start, nullptr);
	}
	void TearDown() override
	{
		os_unreserve(start, bytes);
	}
	char *start;
};

TEST_F(hole, where_there_is_none)
{
	start[0] = 1;
	EXPECT_EQ(os_fill_hole(start, bytes), 0);
	EXPECT_EQ(start[0], 1);
}

TEST_F(hole, all_of_it_is_one)
{
	os_unreserve(start, bytes);
	EXPECT_EQ(os_fill_hole(start, bytes), 1);
	harness::fill(start, bytes, 1);
	EXPECT_TRUE(harness::intact(start, bytes, 1));
}

/* A thread got addresses of the hole for a mapping of its own: they are not to be taken. */
TEST_F(hole, somebody_else_was_quicker)
{
	for (size_t at : { (size_t)0, bytes / 2, bytes - 65536 }) {
		char *theirs;

		os_unreserve(start, bytes);
		theirs = (char *)mmap(start + at, 65536, PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
		ASSERT_EQ(theirs, start + at);
		theirs[5] = 5;
		EXPECT_LT(os_fill_hole(start, bytes), 0) << at;
		EXPECT_EQ(theirs[5], 5);
	}
}

} /* namespace */
