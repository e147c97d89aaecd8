/* SPDX-License-Identifier: MIT */
/*
 * Where the numbers of groups and owners end: what waits for nobody comes back first, and what
 * fails says so and loses nothing.
 */
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <thread>
#include <vector>

#include "start.h"

#define _Static_assert static_assert
extern "C" {
#include "features/groups/group.h"
}
#undef _Static_assert

namespace {

constexpr size_t BYTES = 1 << 20;	/* more than any stock */

class Numbers : public testing::Test {
protected:
	struct slub_group *root = nullptr;
	uint32_t groups_max = group_pool.nr_max, owners_max = owner_pool.nr_max;

	static void SetUpTestSuite() { start::percpu(); }
	void SetUp() override
	{
		root = slub_group_root();
		ASSERT_TRUE(root);
	}
	void TearDown() override
	{
		group_pool.nr_max = groups_max;
		owner_pool.nr_max = owners_max;
	}
	static struct slub_group *make() { return slub_group_create("numbers", nullptr); }
	/* All groups that there are, but for the last @nr. */
	static std::vector<struct slub_group *> make_all_but(size_t nr)
	{
		std::vector<struct slub_group *> all;

		while (struct slub_group *group = make())
			all.push_back(group);
		EXPECT_EQ(errno, ENOSPC);
		for (; nr; nr--, all.pop_back())
			EXPECT_EQ(slub_group_destroy(all.back()), 0);
		return all;
	}
	static void delete_all(const std::vector<struct slub_group *> &groups)
	{
		for (struct slub_group *group : groups)
			EXPECT_EQ(slub_group_destroy(group), 0);
	}
};

/* One that was deleted is had again as soon as who may have found it has left. */
TEST_F(Numbers, ADeadGroupIsWaitedFor)
{
	std::atomic<int> stage{0};

	group_pool.nr_max = pool_end(&group_pool) + 10;
	std::vector<struct slub_group *> groups = make_all_but(0);
	std::thread reader([&] {
		int index;

		index = slub_srcu_read_lock(&group_domain);
		stage = 1;
		while (stage < 2)
			sched_yield();
		/* The other one looks for a group meanwhile. */
		usleep(20000);
		slub_srcu_read_unlock(&group_domain, index);
	});
	while (stage < 1)
		sched_yield();
	EXPECT_EQ(slub_group_destroy(groups.back()), 0);
	stage = 2;
	struct slub_group *again = make();
	int err = errno;
	reader.join();
	EXPECT_EQ(again, groups.back()) << err;
	delete_all(groups);
}

/* Nor for ever: a handler that interrupted who is inside would wait for that one. */
TEST_F(Numbers, WhoIsInsideHimselfIsRefused)
{
	group_pool.nr_max = pool_end(&group_pool) + 10;
	std::vector<struct slub_group *> groups = make_all_but(0);
	int index = slub_srcu_read_lock(&group_domain);

	EXPECT_EQ(slub_group_destroy(groups.back()), 0);
	errno = 0;
	EXPECT_EQ(make(), nullptr);
	EXPECT_EQ(errno, ENOSPC);
	slub_srcu_read_unlock(&group_domain, index);
	EXPECT_EQ(make(), groups.back());
	delete_all(groups);
}

/* A walk that stays in a dead group holds up no other. */
TEST_F(Numbers, AWalkHoldsUpItsOwnGroupOnly)
{
	struct slub_group *used = make(), *other = make(), *again;
	struct walker *walker = walker_begin();

	ASSERT_TRUE(used && other && walker);
	__atomic_store_n(&walker->group, used, __ATOMIC_SEQ_CST);
	EXPECT_EQ(slub_group_destroy(used), 0);
	EXPECT_EQ(slub_group_destroy(other), 0);
	group_pool.nr_max = pool_end(&group_pool);
	std::vector<struct slub_group *> all = make_all_but(0);
	EXPECT_EQ(std::count(all.begin(), all.end(), other), 1);
	EXPECT_EQ(std::count(all.begin(), all.end(), used), 0);
	walker_end(walker);
	again = make();
	EXPECT_EQ(again, used);
	/* The list is whole: what is put behind it comes back, too. */
	delete_all(all);
	EXPECT_EQ(slub_group_destroy(again), 0);
	EXPECT_EQ(make_all_but(0).size(), all.size() + 1);
}

/* A group per request, and of each something stays: owners end, and none is lost. */
TEST_F(Numbers, OwnersEndAndComeBack)
{
	constexpr uint32_t NR = 300;
	size_t before = group_usage(root);
	std::vector<uint32_t> tokens;
	struct slub_group *group;
	uint32_t groups_end;

	owner_pool.nr_max = pool_end(&owner_pool) + NR;
	groups_end = pool_end(&group_pool) + 3;
	while ((group = make()) != nullptr) {
		tokens.push_back(slub_group_charge(group, BYTES));
		ASSERT_NE(tokens.back(), 0u);
		ASSERT_EQ(slub_group_destroy(group), 0);
	}
	EXPECT_EQ(errno, ENOSPC);
	EXPECT_GE(tokens.size(), NR);
	EXPECT_EQ(owner_pool.nr_used, owner_pool.nr_max - 1);
	/* The group that had no owner is not lost: each try has it again. */
	for (int i = 0; i < 100; i++)
		EXPECT_EQ(make(), nullptr);
	EXPECT_LE(pool_end(&group_pool), groups_end);
	EXPECT_EQ(group_usage(root), before + tokens.size() * BYTES);
	/* What was charged goes to whom it is of, and its owner to the next group. */
	slub_group_uncharge(tokens.back(), BYTES);
	tokens.pop_back();
	group = make();
	ASSERT_TRUE(group);
	EXPECT_EQ(make(), nullptr);
	EXPECT_EQ(slub_group_destroy(group), 0);
	for (uint32_t token : tokens)
		slub_group_uncharge(token, BYTES);
	EXPECT_EQ(group_usage(root), before);
	std::vector<struct slub_group *> all;
	for (uint32_t i = 0; i < NR; i++) {
		all.push_back(make());
		ASSERT_TRUE(all.back()) << i;
	}
	delete_all(all);
}

} /* namespace */
