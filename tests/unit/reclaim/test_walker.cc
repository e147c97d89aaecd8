/* SPDX-License-Identifier: MIT */
/* The walkers' own list, and the numbers of shrinkers: what is taken, and what is free again. */
#include <set>
#include <vector>

#include "start.h"

#define _Static_assert static_assert
extern "C" {
#include "features/reclaim/reclaim_internal.h"
}
#undef _Static_assert

namespace {

class Walker : public testing::Test {
protected:
	static void SetUpTestSuite() { start::percpu(); }
	static std::set<struct walker *> seen()
	{
		std::set<struct walker *> found;

		for (struct walker *w = walker_next(nullptr); w; w = walker_next(w))
			EXPECT_TRUE(found.insert(w).second);
		return found;
	}
};

TEST_F(Walker, EachThatIsBusyIsSeenOnce)
{
	std::vector<struct walker *> all;
	std::set<struct walker *> busy;

	EXPECT_TRUE(seen().empty());
	while (struct walker *walker = walker_begin()) {
		EXPECT_TRUE(walker_is_mine(walker));
		EXPECT_TRUE(busy.insert(walker).second);
		all.push_back(walker);
	}
	EXPECT_EQ(all.size(), (size_t)WALKERS_MAX);
	EXPECT_EQ(seen(), busy);
	/* The first of a word, the last, and some between go. */
	for (size_t n = 0; n < all.size(); n++) {
		if (n % 64 == 0 || n % 64 == 63 || n % 5 == 0) {
			walker_end(all[n]);
			busy.erase(all[n]);
		}
	}
	EXPECT_EQ(seen(), busy);
	/* What is free is taken again. */
	EXPECT_EQ(walker_begin(), all[0]);
	walker_end(all[0]);
	/* A child has those of its own thread alone: here all. */
	walkers_fork_child();
	EXPECT_EQ(seen(), busy);
	for (struct walker *walker : busy)
		walker_end(walker);
	EXPECT_TRUE(seen().empty());
}

TEST_F(Walker, AGroupThatIsGoneIsNoneToWalkInto)
{
	struct slub_group *group = slub_group_create("group", nullptr);
	uint32_t number = group_number(group);

	EXPECT_TRUE(bit_is_set(groups_alive.words, number));
	EXPECT_EQ(slub_group_destroy(group), 0);
	EXPECT_FALSE(bit_is_set(groups_alive.words, number));
}

/* What was put off before a shrinker went is nothing to the same one when it comes back. */
TEST_F(Walker, AShrinkerThatComesBackOwesNothing)
{
	static struct slub_shrinker shrinker;

	shrinker.count = [](slub_shrinker *, slub_shrink_control *) noexcept -> size_t {
		return 1000000;
	};
	shrinker.scan = [](slub_shrinker *, slub_shrink_control *) noexcept -> size_t {
		return SLUB_SHRINK_STOP;
	};
	shrinker.seeks = SLUB_SHRINKER_SEEKS;
	for (int round = 0; round < 2; round++) {
		ASSERT_EQ(slub_shrinker_create(&shrinker), 0);
		EXPECT_EQ(shrinker.deferred[0], 0);
		shrinkers_run(2, nullptr);
		EXPECT_GT(shrinker.deferred[0], 0);
		EXPECT_EQ(slub_shrinker_destroy(&shrinker), 0);
	}
}

/* Where all numbers were given away a number that is free again is found, wherever it is. */
TEST_F(Walker, TheLastFreeNumberOfAShrinkerIsFound)
{
	static struct slub_shrinker all[SHRINKERS_MAX];
	int nr = 0;

	for (struct slub_shrinker &shrinker : all) {
		shrinker.count = shrinker.scan =
			[](slub_shrinker *, slub_shrink_control *) noexcept -> size_t { return 0; };
		shrinker.seeks = SLUB_SHRINKER_SEEKS;
		if (slub_shrinker_create(&shrinker))
			break;
		nr++;
	}
	EXPECT_GE(nr, 60000);
	struct slub_shrinker last = all[0];
	EXPECT_NE(slub_shrinker_create(&last), 0);
	/* A higher number was given last than the only one that is free. */
	for (int n : { 3000, 20 }) {
		slub_shrinker_destroy(&all[n]);
		EXPECT_EQ(slub_shrinker_create(&all[n]), 0) << n;
	}
	for (int n = 0; n < nr; n++)
		slub_shrinker_destroy(&all[n]);
}

} /* namespace */
