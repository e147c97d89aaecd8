/* SPDX-License-Identifier: MIT */
/*
 * core/page/limit.c, page_system_refuses(): what the system is asked about, and what its answer
 * does.
 */
#include <gtest/gtest.h>

#include "start.h"

namespace {

const size_t GiB = 1ul << 30, MiB = 1ul << 20;

bool is_refused;
unsigned nr_asked;
size_t asked;

} /* namespace */

/* os_is_too_much() of this program, by the linker's --wrap. */
extern "C" bool __wrap_os_is_too_much(size_t bytes)
{
	nr_asked++;
	asked = bytes;
	return is_refused;
}

namespace {

/* On a machine that has 16 GiB, see start.h. */
class system_limit : public testing::Test {
protected:
	static void SetUpTestSuite()
	{
		start::once([] { start::page(64 * GiB, 1ul << 40); });
	}
	void SetUp() override
	{
		if (SLUB_CONFIG_HARDENED)
			GTEST_SKIP() << "blocks lie between fences, and wait before they go";
		nr_asked = 0;
		is_refused = false;
	}
	static char *alloc(size_t bytes, size_t align = PAGE_BYTES)
	{
		bool is_zero;

		return (char *)large_alloc(bytes, align, &is_zero);
	}
};

TEST_F(system_limit, is_not_asked_about_less_than_half_of_the_memory)
{
	for (size_t bytes : { PAGE_BYTES, MiB / 20, MiB, 3 * MiB, GiB, 8 * GiB - PAGE_BYTES }) {
		char *ptr = alloc(bytes), *to;

		ASSERT_NE(ptr, nullptr) << bytes;
		to = (char *)large_resize(ptr, bytes + bytes / 4);
		large_free(to ? to : ptr);
	}
	EXPECT_EQ(nr_asked, 0u);
}

TEST_F(system_limit, a_request_that_it_refuses_takes_nothing)
{
	size_t committed = pagemap_committed(), used = superblock_nr_used();

	is_refused = true;
	EXPECT_EQ(alloc(9 * GiB), nullptr);
	EXPECT_EQ(alloc(9 * GiB, 4 * MiB), nullptr);
	EXPECT_EQ(nr_asked, 2u);
	EXPECT_FALSE(large_is_possible(9 * GiB, PAGE_BYTES));
	EXPECT_EQ(pagemap_committed(), committed);
	EXPECT_EQ(superblock_nr_used(), used);
}

TEST_F(system_limit, a_request_that_it_grants_is_met)
{
	char *ptr = alloc(9 * GiB);

	ASSERT_NE(ptr, nullptr);
	EXPECT_EQ(nr_asked, 1u);
	EXPECT_EQ(asked, 9 * GiB);
	large_free(ptr);
}

/* As mremap() does: what is added counts. */
TEST_F(system_limit, growth_counts_for_what_it_adds)
{
	char *ptr = alloc(6 * GiB), *to;

	ASSERT_NE(ptr, nullptr);
	to = (char *)large_resize(ptr, 12 * GiB);
	ASSERT_NE(to, nullptr);
	EXPECT_EQ(nr_asked, 0u);
	is_refused = true;
	EXPECT_EQ(large_resize(to, 21 * GiB), nullptr);
	EXPECT_EQ(nr_asked, 1u);
	EXPECT_EQ(asked, 9 * GiB);
	EXPECT_EQ(large_bytes(to), 12 * GiB);
	large_free(to);
}

} /* namespace */
