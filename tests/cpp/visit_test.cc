/* SPDX-License-Identifier: MIT */
/*
 * Promise: an exception of a function that C calls for its caller goes on in that caller, and C
 * holds nothing afterwards; one where nobody expects it ends the program.
 */
#include <cstring>
#include <gtest/gtest.h>
#include <new>
#include <stdexcept>
#include <string>

#include <slub/slub.hpp>

namespace {

struct of_a_type_of_its_own {
	int number;
};

TEST(cpp_visit, an_exception_goes_on_in_the_caller)
{
	int visits = 0;

	try {
		slub::for_each_cache([&](slub_cache *) -> int {
			visits++;
			throw of_a_type_of_its_own{ 41 };
		});
		FAIL() << "nothing was thrown";
	} catch (const of_a_type_of_its_own &thrown) {
		EXPECT_EQ(thrown.number, 41);
	}
	EXPECT_EQ(visits, 1) << "the walk ends";
	EXPECT_THROW(slub::for_each_value([](const char *, const slub_value &) -> int {
		throw std::runtime_error("value");
	}), std::runtime_error);
}

TEST(cpp_visit, nothing_is_held_after_an_exception)
{
	slub::cache<long> visited("cpp-visited");

	EXPECT_THROW(slub::for_each_cache([&](slub_cache *cache) -> int {
		if (cache == visited.handle())
			throw std::runtime_error("here");
		return 0;
	}), std::runtime_error);
	visited.close();
}

TEST(cpp_visit, walks_nest)
{
	int caught = 0;

	EXPECT_EQ(slub::for_each_cache([&](slub_cache *) {
		try {
			slub::for_each_cache([](slub_cache *) -> int { throw 1; });
		} catch (int) {
			caught++;
		}
		return caught == 2 ? 7 : 0;
	}), 7);
	EXPECT_EQ(caught, 2);
	EXPECT_THROW(slub::for_each_cache([](slub_cache *) {
		return slub::for_each_cache([](slub_cache *) -> int { throw 1; });
	}), int);
}

TEST(cpp_visit, the_last_answer_is_returned)
{
	EXPECT_EQ(slub::for_each_cache([](slub_cache *) { return 0; }), 0);
	EXPECT_EQ(slub::for_each_cache([](slub_cache *) { return -EDEADLK; }), -EDEADLK);
	EXPECT_EQ(slub::for_each_value([](const char *, const slub_value &) { return 5; }), 5);
}

/* values() has no room for a name: a group's limit makes its vector fail. */
TEST(cpp_visit, values_without_memory)
{
	slub::group poor("cpp-no-values");
	bool is_thrown = false;

	poor.set_limit(SLUB_GROUP_MAX, 4096);
	{
		slub::group_guard inside(poor);
		try {
			slub::values();
		} catch (const std::bad_alloc &) {
			is_thrown = true;
		}
	}
	EXPECT_TRUE(is_thrown);
	EXPECT_GT(slub::values().size(), 100u);
}

TEST(cpp_visit_death, an_exception_in_the_middle_of_an_allocation)
{
	slub::shrinker throws("cpp-throws", [] { return size_t(1); },
			      [](size_t) -> size_t { throw 1; });

	EXPECT_DEATH(slub_shrink_all(), "");
}

} // namespace
