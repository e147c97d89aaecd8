/* SPDX-License-Identifier: MIT */
/*
 * features/groups: each number of a group, each bound to the byte, and who is asked before a
 * request is refused.
 */
#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include "start.h"

#define _Static_assert static_assert
extern "C" {
#include "features/groups/group.h"
}
#undef _Static_assert

namespace {

constexpr size_t MIB = 1 << 20;	/* more than any stock */

struct {
	unsigned here, all;
	bool are_none;
} kept;

const struct kept_charges keeper = {
	[](bool all) { all ? kept.all++ : kept.here++; },
	[] { return kept.are_none; },
};

struct {
	unsigned calls;
	struct slub_group *group;
	size_t bytes;
	void *arg;
	bool answer, is_used, is_handled;
} asked;

bool handler(struct slub_group *group, size_t bytes, void *arg) noexcept
{
	asked.calls++;
	asked.group = group;
	asked.bytes = bytes;
	asked.arg = arg;
	asked.is_used = walkers_use_group(group);
	asked.is_handled = walker_next(nullptr) && walker_next(nullptr)->handles == group;
	return asked.answer;
}

class Groups : public testing::Test {
protected:
	static void SetUpTestSuite() { start::percpu(); }
	void SetUp() override
	{
		root = slub_group_root();
		ASSERT_NE(root, nullptr);
		top = slub_group_create("top", nullptr);
		child = slub_group_create("child", top);
		ASSERT_TRUE(top && child);
		kept = {};
		asked = {};
	}
	void TearDown() override
	{
		group_set_kept(nullptr);
		if (child) {
			EXPECT_EQ(slub_group_destroy(child), 0);
		}
		EXPECT_EQ(slub_group_destroy(top), 0);
		EXPECT_EQ(nr_tight, 0u);
		EXPECT_EQ(groups_with_low, 0u);
	}
	static struct slub_group_stats stats(struct slub_group *group)
	{
		struct slub_group_stats now;

		memset(&now, 0x5a, sizeof(now));
		EXPECT_EQ(slub_group_stats(group, &now), 0);
		return now;
	}
	static int limit(struct slub_group *group, enum slub_group_limit which, size_t bytes)
	{
		return slub_group_limit_set(group, which, bytes);
	}
	static int64_t references(struct slub_group *group) { return group->owner->outstanding; }

	struct slub_group *root, *top, *child;
};

TEST_F(Groups, EachNumberIsTold)
{
	struct slub_group_stats now = stats(child), of_top;

	EXPECT_STREQ(now.name, "child");
	EXPECT_EQ(now.parent, top);
	EXPECT_EQ(now.depth, 2u);
	EXPECT_EQ(now.nr_children, 0u);
	for (uint64_t each : { (uint64_t)now.usage, (uint64_t)now.peak, (uint64_t)now.low,
			       now.failures, now.max_hits, now.high_hits })
		EXPECT_EQ(each, 0u);
	EXPECT_EQ(now.high, SLUB_GROUP_NO_LIMIT);
	EXPECT_EQ(now.max, SLUB_GROUP_NO_LIMIT);
	of_top = stats(top);
	EXPECT_EQ(of_top.parent, root);
	EXPECT_EQ(of_top.depth, 1u);
	EXPECT_EQ(of_top.nr_children, 1u);
	EXPECT_EQ(top->nr_below, 1u);
	EXPECT_EQ(stats(root).depth, 0u);
	EXPECT_EQ(stats(root).parent, nullptr);
	uint32_t token = slub_group_charge(child, MIB);
	ASSERT_NE(token, 0u);
	for (struct slub_group *each : { child, top }) {
		EXPECT_EQ(stats(each).usage, MIB);
		EXPECT_GE(stats(each).peak, MIB);
		EXPECT_LE(stats(each).peak, MIB + STOCK_BATCH);
	}
	slub_group_uncharge(token, MIB);
	EXPECT_EQ(stats(top).usage, 0u);
	EXPECT_GE(stats(top).peak, MIB) << "it stays";
	EXPECT_EQ(slub_group_destroy(child), 0);
	EXPECT_EQ(slub_group_stats(child, &now), -EINVAL);
	child = nullptr;
	EXPECT_EQ(stats(top).nr_children, 0u);
	EXPECT_EQ(top->nr_below, 0u);
}

TEST_F(Groups, LimitsAreWhatWasSet)
{
	for (auto which : { SLUB_GROUP_LOW, SLUB_GROUP_HIGH, SLUB_GROUP_MAX }) {
		const size_t before = slub_group_limit_get(child, which);

		for (size_t bytes : { (size_t)1, (size_t)12345, SLUB_GROUP_NO_LIMIT - 1,
				      SLUB_GROUP_NO_LIMIT, SLUB_GROUP_NO_LIMIT + 1, SIZE_MAX }) {
			EXPECT_EQ(limit(child, which, bytes), 0);
			EXPECT_EQ(slub_group_limit_get(child, which),
				  std::min<size_t>(bytes, SLUB_GROUP_NO_LIMIT));
		}
		EXPECT_EQ(limit(child, which, before), 0);
	}
	for (int which : { -1, 3, 100 }) {
		EXPECT_EQ(limit(child, (enum slub_group_limit)which, 1), -EINVAL);
		EXPECT_EQ(slub_group_limit_get(child, (enum slub_group_limit)which), 0u);
	}
	EXPECT_EQ(limit(nullptr, SLUB_GROUP_MAX, 1), -EINVAL);
	EXPECT_EQ(slub_group_limit_get(nullptr, SLUB_GROUP_MAX), 0u);
	EXPECT_EQ(limit((struct slub_group *)((char *)child + 8), SLUB_GROUP_MAX, 1), -EINVAL);
	EXPECT_EQ(limit((struct slub_group *)this, SLUB_GROUP_MAX, 1), -EINVAL);
	/* Below what is in use: nobody can give it back. */
	uint32_t token = slub_group_charge(child, MIB);
	EXPECT_EQ(limit(child, SLUB_GROUP_MAX, MIB - 1), -EBUSY);
	EXPECT_EQ(slub_group_limit_get(child, SLUB_GROUP_MAX), SLUB_GROUP_NO_LIMIT);
	EXPECT_EQ(limit(child, SLUB_GROUP_HIGH, 1), 0) << "that may be";
	EXPECT_EQ(limit(child, SLUB_GROUP_HIGH, SLUB_GROUP_NO_LIMIT), 0);
	EXPECT_EQ(limit(child, SLUB_GROUP_MAX, MIB), 0);
	slub_group_uncharge(token, MIB);
	EXPECT_EQ(limit(child, SLUB_GROUP_MAX, 0), 0);
}

TEST_F(Groups, WhoIsPromisedMemoryIsCounted)
{
	EXPECT_FALSE(group_is_protected(child));
	for (auto [bytes, nr] : { std::pair<size_t, uint32_t>{ 5, 1 }, { 7, 1 }, { 0, 0 },
				  { 0, 0 }, { MIB, 1 } }) {
		EXPECT_EQ(limit(child, SLUB_GROUP_LOW, bytes), 0);
		EXPECT_EQ(groups_with_low, nr);
	}
	EXPECT_EQ(limit(top, SLUB_GROUP_LOW, 1), 0);
	EXPECT_EQ(groups_with_low, 2u);
	EXPECT_TRUE(group_is_protected(child));
	child->usage = MIB;
	EXPECT_TRUE(group_is_protected(child));
	child->usage = MIB + 1;
	EXPECT_FALSE(group_is_protected(child));
	child->usage = 0;
	EXPECT_EQ(slub_group_destroy(child), 0);
	child = nullptr;
	EXPECT_EQ(groups_with_low, 1u) << "a group that ends is promised nothing";
	EXPECT_EQ(limit(top, SLUB_GROUP_LOW, 0), 0);
}

TEST_F(Groups, WhoIsBelowWhom)
{
	struct slub_group *beside = slub_group_create("beside", root);

	EXPECT_TRUE(group_is_below(child, child));
	EXPECT_TRUE(group_is_below(child, top));
	EXPECT_TRUE(group_is_below(child, root));
	EXPECT_TRUE(group_is_below(child, nullptr)) << "that is above all";
	EXPECT_TRUE(group_is_below(nullptr, nullptr));
	EXPECT_FALSE(group_is_below(nullptr, top));
	EXPECT_FALSE(group_is_below(top, child));
	EXPECT_FALSE(group_is_below(beside, top));
	EXPECT_EQ(group_number(nullptr), 0u);
	EXPECT_EQ(group_of_number(group_number(child)), child);
	EXPECT_TRUE(group_is_alive(child));
	EXPECT_FALSE(group_is_alive(nullptr));
	EXPECT_FALSE(group_is_alive((struct slub_group *)((char *)child + 64)));
	EXPECT_EQ(slub_group_destroy(beside), 0);
	EXPECT_FALSE(group_is_alive(beside));
}

TEST_F(Groups, AreRefused)
{
	struct slub_group *dead = slub_group_create("dead", nullptr);
	std::string longest(SLUB_GROUP_NAME_MAX, 'x');

	EXPECT_EQ(slub_group_destroy(dead), 0);
	EXPECT_EQ(slub_group_destroy(dead), -EINVAL);
	EXPECT_EQ(slub_group_destroy(nullptr), -EINVAL);
	EXPECT_EQ(slub_group_destroy(top), -EBUSY) << "it has a child";
	EXPECT_EQ(slub_group_destroy(root), -EPERM);
	slub_thread.locks_held++;
	EXPECT_EQ(slub_group_destroy(child), -EDEADLK);
	slub_thread.locks_held--;
	for (const std::string &name : { std::string(), std::string("a b"), longest + "x" }) {
		errno = 0;
		EXPECT_EQ(slub_group_create(name.c_str(), nullptr), nullptr);
		EXPECT_EQ(errno, EINVAL);
	}
	errno = 0;
	EXPECT_EQ(slub_group_create("x", dead), nullptr);
	EXPECT_EQ(errno, EINVAL);
	struct slub_group *long_one = slub_group_create(longest.c_str(), nullptr);
	ASSERT_NE(long_one, nullptr);
	EXPECT_EQ(stats(long_one).name, longest);
	EXPECT_EQ(slub_group_destroy(long_one), 0);
	struct slub_group *again = slub_group_create("y", nullptr);
	EXPECT_STREQ(stats(again).name, "y") << "nothing of a longer name before";
	EXPECT_EQ(slub_group_destroy(again), 0);
	for (size_t bytes : { (size_t)1 << 41, SIZE_MAX }) {
		errno = 0;
		EXPECT_EQ(slub_group_charge(child, bytes), 0u);
		EXPECT_EQ(errno, EINVAL);
	}
	errno = 0;
	EXPECT_EQ(slub_group_charge(nullptr, 1), 0u) << "this thread is in no group";
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(slub_group_charge(dead, 1), 0u);
	slub_group_uncharge(0, 100);
	slub_group_uncharge(pool_end(&owner_pool), 100);
	slub_group_uncharge(UINT32_MAX, 100);
	EXPECT_EQ(stats(top).usage, 0u);
}

TEST_F(Groups, TheTreeIsSoDeep)
{
	std::vector<struct slub_group *> chain = { root };

	while (struct slub_group *next = slub_group_create("deep", chain.back())) {
		EXPECT_EQ(stats(next).depth, chain.size());
		chain.push_back(next);
	}
	EXPECT_EQ(errno, E2BIG);
	EXPECT_EQ(chain.size(), (size_t)SLUB_GROUP_DEPTH_MAX + 1);
	/* A charge reaches all of them. */
	uint32_t token = slub_group_charge(chain.back(), MIB);
	for (struct slub_group *each : chain)
		EXPECT_EQ(stats(each).usage, MIB);
	slub_group_uncharge(token, MIB);
	for (; chain.size() > 1; chain.pop_back())
		EXPECT_EQ(slub_group_destroy(chain.back()), 0);
}

TEST_F(Groups, AVisitorSeesEachAndMayStop)
{
	std::vector<struct slub_group *> seen;
	auto visit = [](struct slub_group *group, void *arg) {
		auto *list = (std::vector<struct slub_group *> *)arg;

		list->push_back(group);
		return list->size() == 2 ? 55 : 0;
	};

	EXPECT_EQ(slub_group_for_each(visit, &seen), 55);
	EXPECT_EQ(seen.size(), 2u);
	seen.resize(2);
	EXPECT_EQ(slub_group_for_each([](struct slub_group *group, void *arg) {
		((std::vector<struct slub_group *> *)arg)->push_back(group);
		return 0;
	}, &seen), 0);
	/* By their numbers. */
	EXPECT_EQ(std::vector<struct slub_group *>(seen.begin() + 2, seen.end()),
		  std::vector<struct slub_group *>({ root, std::min(top, child),
						     std::max(top, child) }));
}

TEST_F(Groups, ReferencesAreCounted)
{
	const int64_t before = references(child);
	uint32_t owner = group_hold(child), place = 0, other = 0, charged = 1;

	EXPECT_EQ(owner, owner_number(child->owner));
	EXPECT_EQ(group_owner_number(child), owner);
	EXPECT_EQ(references(child), before + 1);
	group_drop(owner);
	group_drop(0);
	EXPECT_EQ(references(child), before);
	EXPECT_EQ(group_place_set(&place, child), 0);
	EXPECT_EQ(place, owner);
	EXPECT_EQ(references(child), before + 1);
	group_place_copy(&other, &place);
	group_place_copy(&other, &place);
	EXPECT_EQ(other, owner);
	EXPECT_EQ(references(child), before + 2);
	EXPECT_EQ(group_place_set(&other, top), 0);
	EXPECT_EQ(references(child), before + 1);
	group_place_copy(&other, &place);
	EXPECT_EQ(other, owner);
	/* Charged where the place says, whoever asks. */
	EXPECT_EQ(group_charge_place(&place, MIB, &charged), 0);
	EXPECT_EQ(charged, owner);
	EXPECT_EQ(stats(child).usage, MIB);
	EXPECT_EQ(references(child), before + 2 + (int64_t)MIB + stocks_of(child));
	group_uncharge(charged, MIB);
	EXPECT_EQ(group_place_set(&place, nullptr), 0);
	EXPECT_EQ(place, 0u);
	EXPECT_EQ(group_charge_place(&place, MIB, &charged), 0);
	EXPECT_EQ(charged, 0u) << "nobody's";
	EXPECT_EQ(stats(child).usage, 0u);
	group_place_copy(&other, &place);
	EXPECT_EQ(other, 0u);
	/* Of a group that is gone. */
	EXPECT_TRUE(group_owns(child, owner));
	EXPECT_TRUE(group_owns(top, owner));
	EXPECT_FALSE(group_owns(child, owner_number(top->owner)));
	EXPECT_FALSE(group_owns(child, 0));
	EXPECT_FALSE(group_owns(child, pool_end(&owner_pool)));
	EXPECT_EQ(group_place_set(&place, child), 0);
	EXPECT_EQ(slub_group_destroy(child), 0);
	EXPECT_EQ(group_hold(child), 0u);
	EXPECT_EQ(group_place_set(&other, child), -EINVAL);
	EXPECT_EQ(other, 0u);
	EXPECT_TRUE(group_owns(top, place)) << "its heir";
	EXPECT_EQ(group_charge_place(&place, MIB, &charged), 0);
	EXPECT_EQ(stats(top).usage, MIB);
	group_uncharge(charged, MIB);
	EXPECT_EQ(group_place_set(&place, nullptr), 0);
	child = nullptr;
}

TEST_F(Groups, AtItsMaximumAGroupIsTight)
{
	uint32_t owner = owner_number(child->owner), token;

	EXPECT_FALSE(charge_is_tight(owner));
	ASSERT_EQ(limit(top, SLUB_GROUP_MAX, 4 * MIB), 0);
	token = slub_group_charge(child, 3 * MIB);
	ASSERT_EQ(token, owner);
	EXPECT_EQ(slub_group_charge(child, MIB + 1), 0u);
	EXPECT_EQ(errno, ENOMEM);
	EXPECT_EQ(stats(child).usage, 3 * MIB) << "as before";
	EXPECT_EQ(stats(top).max_hits, 1u);
	EXPECT_EQ(stats(top).failures, 1u);
	EXPECT_EQ(stats(child).max_hits, 0u);
	EXPECT_EQ(slub_group_charge(child, MIB), owner);
	EXPECT_EQ(stats(child).usage, 4 * MIB);
	EXPECT_EQ(stats(top).peak, 4 * MIB);
	EXPECT_FALSE(group_charge_try(owner, 1));
	EXPECT_EQ(nr_tight, 1u);
	EXPECT_TRUE(charge_is_tight(owner));
	EXPECT_FALSE(charge_is_tight(owner_number(root->owner)));
	/* Whom nobody may refuse is charged all the same. */
	group_charge_anyway(owner, 5);
	EXPECT_EQ(stats(child).usage, 4 * MIB + 5);
	group_uncharge(owner, 5);
	/* Below the margin stocks may be used again: not a byte earlier. */
	const size_t margin = 4 * STOCK_MAX;
	group_uncharge(owner, margin - 1);
	EXPECT_EQ(nr_tight, 1u);
	EXPECT_EQ((size_t)top->usage, 4 * MIB - margin + 1);
	group_uncharge(owner, 1);
	EXPECT_EQ(nr_tight, 0u);
	EXPECT_TRUE(group_charge_try(owner, 1));
	group_uncharge(owner, 1);
	group_uncharge(owner, 4 * MIB - margin);
	EXPECT_EQ(stats(top).usage, 0u);
}

/* The bytes below the nearest limit; what is promised must not be used up by stocks. */
TEST_F(Groups, WhatIsLeftBelowLimits)
{
	struct {
		size_t usage, low, high, max, left;
	} const rows[] = {
		{ 0, 0, SLUB_GROUP_NO_LIMIT, SLUB_GROUP_NO_LIMIT, SLUB_GROUP_NO_LIMIT },
		{ 100, 0, 1000, SLUB_GROUP_NO_LIMIT, 900 }, { 100, 0, 1000, 500, 400 },
		{ 100, 0, 300, 500, 200 }, { 100, 150, 300, 500, 50 }, { 100, 100, 300, 500, 200 },
		{ 300, 0, 300, 500, 0 }, { 301, 0, 300, 500, 0 }, { 299, 0, 300, 500, 1 },
		{ 100, 400, 300, 500, 200 },
	};

	for (auto &row : rows) {
		child->usage = (int64_t)row.usage;
		child->limits[SLUB_GROUP_LOW] = row.low;
		child->limits[SLUB_GROUP_HIGH] = row.high;
		child->limits[SLUB_GROUP_MAX] = row.max;
		EXPECT_EQ(charge_left(owner_number(child->owner)), row.left) << row.usage;
		/* Above it a group with less. */
		top->limits[SLUB_GROUP_MAX] = 150;
		top->usage = 60;
		EXPECT_EQ(charge_left(owner_number(child->owner)), std::min<size_t>(row.left, 90));
		top->limits[SLUB_GROUP_MAX] = SLUB_GROUP_NO_LIMIT;
		top->usage = 0;
	}
	child->usage = 0;
	child->limits[SLUB_GROUP_LOW] = 0;
	child->limits[SLUB_GROUP_HIGH] = child->limits[SLUB_GROUP_MAX] = SLUB_GROUP_NO_LIMIT;
}

TEST_F(Groups, TheHandlerIsAskedOnceAndTold)
{
	int arg;

	ASSERT_EQ(limit(child, SLUB_GROUP_MAX, MIB), 0);
	EXPECT_FALSE(group_handler_ask(child, 1)) << "there is none";
	ASSERT_EQ(slub_group_handler_set(child, handler, &arg), 0);
	EXPECT_EQ(slub_group_charge(child, MIB + 1), 0u);
	EXPECT_EQ(asked.calls, 1u);
	EXPECT_EQ(asked.group, child);
	EXPECT_EQ(asked.bytes, MIB + 1);
	EXPECT_EQ(asked.arg, &arg);
	EXPECT_TRUE(asked.is_used) << "its structure is no other group's meanwhile";
	EXPECT_TRUE(asked.is_handled);
	EXPECT_FALSE(walkers_use_group(child));
	asked.answer = true;
	EXPECT_EQ(slub_group_charge(child, MIB + 1), 0u) << "it has promised too much";
	EXPECT_EQ(asked.calls, 2u);
	EXPECT_EQ(stats(child).failures, 2u);
	EXPECT_EQ(stats(child).max_hits, 2u);
	EXPECT_TRUE(group_handler_ask(child, 9));
	asked.answer = false;
	EXPECT_FALSE(group_handler_ask(child, 9));
	EXPECT_EQ(asked.calls, 4u);
	/* Not inside a reclaim. */
	ASSERT_TRUE(reclaim_enter());
	EXPECT_FALSE(group_handler_ask(child, 9));
	reclaim_leave();
	EXPECT_FALSE(slub_thread.flags & THREAD_IN_RECLAIM);
	EXPECT_EQ(asked.calls, 4u);
	EXPECT_EQ(walker_next(nullptr), nullptr) << "none is left";
	EXPECT_FALSE(group_root_ask(3));
	ASSERT_EQ(slub_group_handler_set(root, handler, &asked), 0);
	asked.answer = true;
	EXPECT_TRUE(group_root_ask(3));
	EXPECT_EQ(asked.group, root);
	EXPECT_EQ(asked.bytes, 3u);
	ASSERT_EQ(slub_group_handler_set(root, nullptr, nullptr), 0);
	EXPECT_FALSE(group_root_ask(3));
	EXPECT_EQ(slub_group_handler_set(nullptr, handler, nullptr), -EINVAL);
	/* A group that ends has none, nor does the next one in its place. */
	EXPECT_EQ(slub_group_destroy(child), 0);
	EXPECT_EQ(slub_group_handler_set(child, handler, nullptr), -EINVAL);
	EXPECT_EQ(child->handler.first, 0u);
	child = nullptr;
}

TEST_F(Groups, KeptChargesAreGivenBackFirst)
{
	group_set_kept(&keeper);
	EXPECT_EQ(group_usage_settled(child), 0u);
	EXPECT_EQ(kept.all, 1u);
	kept.are_none = true;
	EXPECT_EQ(group_usage_settled(child), 0u);
	EXPECT_FALSE(kept_settle_all());
	EXPECT_EQ(kept.all, 1u) << "there are none";
	kept.are_none = false;
	slub_thread.locks_held++;
	EXPECT_EQ(group_usage_settled(child), 0u);
	kept_settle_here();
	EXPECT_FALSE(kept_settle_all());
	slub_thread.locks_held--;
	EXPECT_EQ(kept.all, 1u);
	EXPECT_EQ(kept.here, 0u);
	kept_settle_here();
	EXPECT_EQ(kept.here, 1u);
	EXPECT_TRUE(kept_settle_all());
	EXPECT_EQ(kept.all, 2u);
	/* A request that is granted asks for nothing. */
	kept = {};
	uint32_t token = slub_group_charge(child, MIB);
	EXPECT_EQ(kept.here + kept.all, 0u);
	slub_group_uncharge(token, MIB);
	ASSERT_EQ(limit(child, SLUB_GROUP_MAX, MIB), 0);
	kept = {};
	EXPECT_EQ(slub_group_charge(child, MIB + 1), 0u);
	EXPECT_EQ(kept.here, 1u);
	EXPECT_EQ(kept.all, 1u);
	group_set_kept(nullptr);
	EXPECT_FALSE(kept_settle_all());
}

TEST_F(Groups, AThreadIsInTheInnermost)
{
	EXPECT_EQ(slub_group_current(), nullptr);
	EXPECT_EQ(slub_group_leave(child), -EINVAL);
	EXPECT_EQ(slub_group_enter(nullptr), -EINVAL);
	EXPECT_EQ(slub_group_enter((struct slub_group *)((char *)child + 8)), -EINVAL);
	for (int i = 0; i < SLUB_GROUP_NESTING_MAX; i++) {
		struct slub_group *inner = i % 2 ? child : top;

		EXPECT_EQ(slub_group_enter(inner), 0);
		EXPECT_EQ(slub_group_current(), inner);
		EXPECT_EQ(group_current(), owner_number(inner->owner));
		EXPECT_EQ(slub_group_leave(i % 2 ? top : child), -EINVAL) << "not the innermost";
	}
	EXPECT_EQ(slub_group_enter(child), -ENOSPC);
	EXPECT_EQ(child->owner->word / OWNER_INSIDE, SLUB_GROUP_NESTING_MAX / 2u);
	for (int i = SLUB_GROUP_NESTING_MAX; i-- > 0;) {
		EXPECT_EQ(slub_group_leave(i % 2 ? child : top), 0);
		EXPECT_EQ(slub_group_current(), !i ? nullptr : i % 2 ? top : child);
	}
	EXPECT_EQ(child->owner->word / OWNER_INSIDE, 0u);
	EXPECT_EQ(top->owner->word / OWNER_INSIDE, 0u);
	EXPECT_EQ(group_current(), 0u);
	EXPECT_EQ(group_thread.stock->owner, UINT32_MAX) << "no stock is this thread's";
}

/* What another group gets back waits in the thread's stock, and goes to it in the end. */
TEST_F(Groups, WhatIsGivenBackWaitsInTheStock)
{
	uint32_t owner = owner_number(top->owner);

	ASSERT_EQ(slub_group_charge(top, 2 * MIB), owner);
	EXPECT_FALSE(thread_stock_give(owner, 100)) << "this thread is in no group";
	ASSERT_EQ(slub_group_enter(child), 0);
	EXPECT_FALSE(thread_stock_give(owner, THREAD_STOCK_MAX + 1));
	slub_thread.locks_held++;
	EXPECT_FALSE(thread_stock_give(owner, 100));
	slub_thread.locks_held--;
	EXPECT_EQ(group_thread.stock->back, 0u);
	EXPECT_TRUE(thread_stock_give(owner, 100));
	EXPECT_EQ(group_thread.stock->back, charge_word(owner, 100));
	EXPECT_EQ(stats(top).usage, 2 * MIB - 100);
	EXPECT_TRUE(thread_stock_give(owner, THREAD_STOCK_MAX));
	EXPECT_EQ(group_thread.stock->back, charge_word(owner, THREAD_STOCK_MAX));
	EXPECT_EQ(stats(top).usage, 2 * MIB - 100 - THREAD_STOCK_MAX);
	ASSERT_EQ(slub_group_leave(child), 0);
	EXPECT_EQ(stats(top).usage, 2 * MIB - 100 - THREAD_STOCK_MAX);
	slub_group_uncharge(owner, 2 * MIB - 100 - THREAD_STOCK_MAX);
	EXPECT_EQ(stats(top).usage, 0u);
}

TEST_F(Groups, OwnersStocksHaveABound)
{
	uint32_t owner = owner_number(child->owner);
	const size_t max = stock_max;

	/* Charged to the group, and in nobody's hands. */
	ASSERT_EQ(slub_group_charge(child, 2 * MIB), owner);
	const size_t has = owner_stock(child->owner->word);
	stock_take(owner, 0, true);
	EXPECT_EQ(owner_stock(child->owner->word), 0u);
	EXPECT_EQ(stock_put(owner, max), 0u);
	EXPECT_EQ(owner_stock(child->owner->word), max);
	EXPECT_EQ(stock_put(owner, 1), max / 2 + 1) << "half of the bound stays";
	EXPECT_EQ(owner_stock(child->owner->word), max / 2);
	EXPECT_EQ(stock_take(owner, max / 2 + 1, false), 0u);
	EXPECT_EQ(stock_take(owner, max / 2, false), max / 2);
	EXPECT_EQ(stock_take(owner, 0, true), 0u);
	EXPECT_EQ(stock_take(owner, 0, false), 0u);
	EXPECT_EQ(stock_put(owner, 10), 0u);
	EXPECT_EQ(stocks_of(child), 10);
	EXPECT_EQ(stocks_of(top), 10);
	EXPECT_EQ(stock_take(owner, 3, false), 3u);
	EXPECT_EQ(stocks_of(child), 7);
	slub_thread.locks_held++;
	EXPECT_FALSE(stocks_drain(child));
	slub_thread.locks_held--;
	EXPECT_TRUE(stocks_drain(child));
	EXPECT_FALSE(stocks_drain(child));
	EXPECT_EQ(stocks_of(child), 0);
	charge_drop(owner, 2 * MIB + has - 7);
	EXPECT_EQ(child->usage, 0);
	EXPECT_EQ(top->usage, 0);
	for (auto [nr, is] : { std::pair<uint32_t, size_t>{ 0, STOCK_MAX }, { 1000, STOCK_MAX },
			       { 2047, STOCK_MAX }, { 2048, ((size_t)128 << 20) / 2049 },
			       { 1u << 20, 127 } }) {
		stock_set_max(nr);
		EXPECT_EQ(stock_max, is) << nr;
	}
	stock_set_max(pool_end(&owner_pool));
}

} /* namespace */
