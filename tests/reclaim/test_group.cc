/* SPDX-License-Identifier: MIT */
/* Memory groups: accounts that are exact, limits that hold, groups that end. */
#include <slub/group.h>
#include <slub/shrinker.h>

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <mutex>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include "harness.h"

namespace {

struct slub_group_stats stats_of(slub_group *group)
{
	struct slub_group_stats stats = {};

	EXPECT_EQ(slub_group_stats(group, &stats), 0);
	return stats;
}

size_t usage(slub_group *group) { return stats_of(group).usage; }

TEST(Group, AChargeCountsInAllGroupsAbove)
{
	slub_group *a = slub_group_create("a", nullptr);
	slub_group *b = slub_group_create("b", a);
	slub_group *c = slub_group_create("c", a);
	size_t root = usage(slub_group_root());
	uint32_t token = slub_group_charge(b, 1000);

	ASSERT_NE(token, 0u);
	EXPECT_EQ(usage(b), 1000u);
	EXPECT_EQ(usage(a), 1000u);
	EXPECT_EQ(usage(c), 0u);
	EXPECT_EQ(usage(slub_group_root()), root + 1000);
	uint32_t other = slub_group_charge(c, 7);
	EXPECT_EQ(usage(a), 1007u);
	slub_group_uncharge(token, 400);
	EXPECT_EQ(usage(b), 600u);
	slub_group_uncharge(token, 600);
	slub_group_uncharge(other, 7);
	EXPECT_EQ(usage(a), 0u);
	EXPECT_EQ(usage(slub_group_root()), root);
	EXPECT_GE(stats_of(a).peak, 1007u);
	EXPECT_EQ(slub_group_destroy(b), 0);
	EXPECT_EQ(slub_group_destroy(c), 0);
	EXPECT_EQ(slub_group_destroy(a), 0);
}

TEST(Group, ThreadsEnterAndLeave)
{
	slub_group *a = slub_group_create("a", nullptr);
	slub_group *b = slub_group_create("b", a);

	EXPECT_EQ(slub_group_current(), nullptr);
	errno = 0;
	EXPECT_EQ(slub_group_charge(nullptr, 10), 0u);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(slub_group_enter(a), 0);
	EXPECT_EQ(slub_group_enter(b), 0);
	EXPECT_EQ(slub_group_current(), b);
	uint32_t token = slub_group_charge(nullptr, 10);
	EXPECT_EQ(usage(b), 10u);
	std::thread([] { EXPECT_EQ(slub_group_current(), nullptr); }).join();
	EXPECT_EQ(slub_group_leave(a), -EINVAL);
	EXPECT_EQ(slub_group_leave(b), 0);
	EXPECT_EQ(slub_group_leave(b), -EINVAL);
	EXPECT_EQ(slub_group_current(), a);
	EXPECT_EQ(slub_group_leave(a), 0);
	EXPECT_EQ(slub_group_leave(a), -EINVAL);
	slub_group_uncharge(token, 10);
	for (int i = 0; i < SLUB_GROUP_NESTING_MAX; i++)
		EXPECT_EQ(slub_group_enter(a), 0);
	EXPECT_EQ(slub_group_enter(a), -ENOSPC);
	for (int i = 0; i < SLUB_GROUP_NESTING_MAX; i++)
		EXPECT_EQ(slub_group_leave(a), 0);
	slub_group_destroy(b);
	slub_group_destroy(a);
}

TEST(Group, BadRequestsAreRefused)
{
	slub_group *group = slub_group_create("good", nullptr);
	slub_group *below = slub_group_create("below", group);
	struct slub_group_stats stats;
	int nothing = 0;

	for (const char *name : { (const char *)nullptr, "", "two words", "\x7f",
				  "01234567890123456789012345678901234567890123456789" }) {
		errno = 0;
		EXPECT_EQ(slub_group_create(name, nullptr), nullptr);
		EXPECT_EQ(errno, EINVAL);
	}
	errno = 0;
	EXPECT_EQ(slub_group_create("x", (slub_group *)&nothing), nullptr);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(slub_group_destroy(slub_group_root()), -EPERM);
	EXPECT_EQ(slub_group_destroy(group), -EBUSY);
	EXPECT_EQ(slub_group_destroy((slub_group *)&nothing), -EINVAL);
	EXPECT_EQ(slub_group_destroy(nullptr), -EINVAL);
	EXPECT_EQ(slub_group_enter(nullptr), -EINVAL);
	EXPECT_EQ(slub_group_stats(nullptr, &stats), -EINVAL);
	EXPECT_EQ(slub_group_limit_set(group, (enum slub_group_limit)9, 1), -EINVAL);
	EXPECT_EQ(slub_group_charge(group, (size_t)1 << 50), 0u);
	EXPECT_EQ(slub_group_destroy(below), 0);
	EXPECT_EQ(slub_group_destroy(below), -EINVAL);
	EXPECT_EQ(slub_group_enter(below), -EINVAL);
	EXPECT_EQ(slub_group_destroy(group), 0);
	slub_group_uncharge(0, 10);
	slub_group_uncharge(~0u, 10);
}

TEST(Group, TheTreeHasAnEnd)
{
	std::vector<slub_group *> chain;
	slub_group *group = nullptr;

	while ((group = slub_group_create("deep", group)) != nullptr)
		chain.push_back(group);
	EXPECT_EQ(errno, E2BIG);
	EXPECT_EQ(chain.size(), (size_t)SLUB_GROUP_DEPTH_MAX);
	while (!chain.empty()) {
		EXPECT_EQ(slub_group_destroy(chain.back()), 0);
		chain.pop_back();
	}
}

TEST(Group, TheMaximumHoldsToTheByteAndForThatGroupOnly)
{
	slub_group *tenant = slub_group_create("tenant", nullptr);
	slub_group *neighbour = slub_group_create("neighbour", nullptr);
	uint32_t token = 0;
	size_t got = 0;

	EXPECT_EQ(slub_group_limit_set(tenant, SLUB_GROUP_MAX, 1000000), 0);
	while (uint32_t t = slub_group_charge(tenant, 100)) {
		token = t;
		got += 100;
	}
	EXPECT_EQ(errno, ENOMEM);
	EXPECT_EQ(got, 1000000u);
	EXPECT_EQ(usage(tenant), 1000000u);
	EXPECT_EQ(stats_of(tenant).failures, 1u);
	uint32_t other = slub_group_charge(neighbour, 5000000);
	EXPECT_NE(other, 0u);
	EXPECT_EQ(stats_of(neighbour).failures, 0u);
	/* What is given back can be had again. */
	slub_group_uncharge(token, 100);
	EXPECT_EQ(slub_group_charge(tenant, 101), 0u);
	EXPECT_EQ(slub_group_charge(tenant, 100), token);
	/* Below what is used: refused, and unchanged. */
	EXPECT_EQ(slub_group_limit_set(tenant, SLUB_GROUP_MAX, 999999), -EBUSY);
	EXPECT_EQ(slub_group_limit_get(tenant, SLUB_GROUP_MAX), 1000000u);
	slub_group_uncharge(token, got);
	slub_group_uncharge(other, 5000000);
	slub_group_destroy(tenant);
	slub_group_destroy(neighbour);
}

TEST(Group, AParentsMaximumBindsItsChildrenTogether)
{
	slub_group *parent = slub_group_create("parent", nullptr);
	slub_group *a = slub_group_create("a", parent);
	slub_group *b = slub_group_create("b", parent);

	slub_group_limit_set(parent, SLUB_GROUP_MAX, 10000);
	uint32_t ta = slub_group_charge(a, 6000);
	EXPECT_EQ(slub_group_charge(b, 4001), 0u);
	uint32_t tb = slub_group_charge(b, 4000);
	EXPECT_NE(tb, 0u);
	EXPECT_EQ(slub_group_charge(a, 1), 0u);
	EXPECT_GE(stats_of(parent).failures, 2u);
	EXPECT_EQ(usage(parent), 10000u);
	slub_group_uncharge(ta, 6000);
	slub_group_uncharge(tb, 4000);
	slub_group_destroy(a);
	slub_group_destroy(b);
	slub_group_destroy(parent);
}

TEST(Group, WhatAParentRefusesWasNeverThere)
{
	slub_group *parent = slub_group_create("parent", nullptr);
	slub_group *child = slub_group_create("child", parent);

	slub_group_limit_set(parent, SLUB_GROUP_MAX, 1 << 20);
	EXPECT_EQ(slub_group_charge(child, 100 << 20), 0u);
	EXPECT_EQ(usage(child), 0u);
	EXPECT_EQ(stats_of(child).peak, 0u);
	uint32_t token = slub_group_charge(child, 1000);
	EXPECT_GE(stats_of(child).peak, 1000u);
	EXPECT_LE(stats_of(child).peak, 1u << 20);
	slub_group_uncharge(token, 1000);
	slub_group_destroy(child);
	slub_group_destroy(parent);
}

/* Objects that are freed by a shrinker when the group is full. */
struct Hoard : slub_shrinker {
	slub_group *group;
	uint32_t token = 0;
	size_t held = 0;
	int calls = 0;

	explicit Hoard(slub_group *group) : slub_shrinker(), group(group)
	{
		name = "hoard";
		count = [](slub_shrinker *s, slub_shrink_control *c) noexcept -> size_t {
			Hoard *hoard = static_cast<Hoard *>(s);

			hoard->calls++;
			return c->group == hoard->group && hoard->held ?
			       hoard->held / 100 : SLUB_SHRINK_EMPTY;
		};
		scan = [](slub_shrinker *s, slub_shrink_control *c) noexcept -> size_t {
			Hoard *hoard = static_cast<Hoard *>(s);
			size_t n = std::min(c->nr_to_scan, hoard->held / 100);

			slub_group_uncharge(hoard->token, n * 100);
			hoard->held -= n * 100;
			return n;
		};
		seeks = SLUB_SHRINKER_SEEKS;
		flags = SLUB_SHRINKER_GROUP_AWARE;
		slub_shrinker_create(this);
	}
	~Hoard()
	{
		slub_group_uncharge(token, held);
		slub_shrinker_destroy(this);
	}
	void hold(size_t bytes)
	{
		token = slub_group_charge(group, bytes);
		ASSERT_NE(token, 0u);
		held += bytes;
		slub_shrinker_mark(this, group, 0);
	}
};

TEST(Group, AtItsMaximumAGroupShrinksItselfFirst)
{
	slub_group *group = slub_group_create("group", nullptr);
	slub_group *other = slub_group_create("other", nullptr);
	{
		Hoard hoard(group), others(other);

		slub_group_limit_set(group, SLUB_GROUP_MAX, 1000000);
		hoard.hold(1000000);
		others.hold(1000000);
		int calls = others.calls;
		uint32_t token = slub_group_charge(group, 200000);
		EXPECT_NE(token, 0u);
		EXPECT_LE(hoard.held, 800000u);
		EXPECT_EQ(others.calls, calls);
		EXPECT_EQ(others.held, 1000000u);
		EXPECT_EQ(stats_of(group).failures, 0u);
		slub_group_uncharge(token, 200000);
	}
	EXPECT_EQ(slub_group_destroy(group), 0);
	EXPECT_EQ(slub_group_destroy(other), 0);
}

TEST(Group, AboveHighItReclaimsButDoesNotRefuse)
{
	slub_group *group = slub_group_create("group", nullptr);
	{
		Hoard hoard(group);

		hoard.hold(1000000);
		slub_group_limit_set(group, SLUB_GROUP_HIGH, 500000);
		uint32_t token = slub_group_charge(group, 100000);
		EXPECT_NE(token, 0u);
		EXPECT_LE(usage(group), 500000u);
		EXPECT_GE(stats_of(group).high_hits, 1u);
		slub_group_uncharge(token, 100000);
	}
	slub_group_destroy(group);
}

TEST(Group, LowIsLeftAloneButForTheLastResort)
{
	slub_group *group = slub_group_create("group", nullptr);
	{
		Hoard hoard(group);

		hoard.hold(1000000);
		slub_group_limit_set(group, SLUB_GROUP_LOW, 2000000);
		for (int i = 0; i < 10; i++)
			slub_shrink(1);
		EXPECT_EQ(hoard.held, 1000000u);
		slub_shrink(0);
		EXPECT_LT(hoard.held, 1000000u);
	}
	slub_group_destroy(group);
}

TEST(Group, TheHandlerIsAskedBeforeARequestIsRefused)
{
	static std::vector<size_t> asked;
	slub_group *group = slub_group_create("group", nullptr);

	slub_group_limit_set(group, SLUB_GROUP_MAX, 1000);
	slub_group_handler_set(group, [](slub_group *full, size_t bytes, void *arg) noexcept {
		asked.push_back(bytes);
		EXPECT_EQ(arg, &asked);
		if (asked.size() == 1)
			return slub_group_limit_set(full, SLUB_GROUP_MAX, 3000) == 0;
		return false;
	}, &asked);
	uint32_t token = slub_group_charge(group, 2000);
	EXPECT_NE(token, 0u);
	EXPECT_EQ(slub_group_charge(group, 2000), 0u);
	EXPECT_EQ(asked, (std::vector<size_t>{ 2000, 2000 }));
	slub_group_uncharge(token, 2000);
	slub_group_destroy(group);
}

TEST(Group, ChargesOutliveTheirGroup)
{
	slub_group *a = slub_group_create("a", nullptr);
	slub_group *b = slub_group_create("b", a);
	slub_group *c = slub_group_create("c", b);
	uint32_t token = slub_group_charge(c, 12345);
	size_t root = usage(slub_group_root());

	EXPECT_EQ(slub_group_enter(c), 0);
	EXPECT_EQ(slub_group_destroy(c), 0);
	EXPECT_EQ(usage(b), 12345u);
	/* A thread inside goes on, on its parent's account. */
	uint32_t late = slub_group_charge(nullptr, 5);
	EXPECT_EQ(usage(b), 12350u);
	EXPECT_EQ(slub_group_leave(c), 0);
	EXPECT_EQ(slub_group_destroy(b), 0);
	EXPECT_EQ(usage(a), 12350u);
	EXPECT_EQ(usage(slub_group_root()), root + 5);
	slub_group_uncharge(token, 12345);
	slub_group_uncharge(late, 5);
	EXPECT_EQ(usage(a), 0u);
	EXPECT_EQ(usage(slub_group_root()), root - 12345);
	EXPECT_EQ(slub_group_destroy(a), 0);
}

TEST(Group, TenThousandGroupsComeAndGo)
{
	size_t root = usage(slub_group_root());
	std::vector<uint32_t> tokens;

	for (int round = 0; round < 3; round++) {
		std::vector<slub_group *> groups;
		for (int i = 0; i < 10000; i++) {
			groups.push_back(slub_group_create("many", nullptr));
			ASSERT_NE(groups.back(), nullptr);
			tokens.push_back(slub_group_charge(groups.back(), 64 + i));
		}
		for (int i = 0; i < 10000; i += 97)
			EXPECT_EQ(usage(groups[i]), 64u + i);
		for (slub_group *group : groups)
			EXPECT_EQ(slub_group_destroy(group), 0);
	}
	for (size_t i = 0; i < tokens.size(); i++)
		slub_group_uncharge(tokens[i], 64 + i % 10000);
	EXPECT_EQ(usage(slub_group_root()), root);
}

/* Charges that wait for somebody to give them back. */
struct Charge {
	uint32_t token;
	uint32_t bytes;
};
struct Box {
	std::mutex mutex;
	std::vector<Charge> charges;
};

struct Exchange {
	static constexpr int THREADS = 16, GROUPS = 100;
	Box boxes[THREADS];
	slub_group *tree = slub_group_create("tree", nullptr);
	std::atomic<slub_group *> groups[GROUPS];

	Exchange()
	{
		for (int i = 0; i < GROUPS; i++)
			groups[i] = slub_group_create("leaf", i % 10 ? groups[i / 10 * 10].load()
								     : tree);
	}
	~Exchange()
	{
		for (int i = GROUPS - 1; i >= 0; i--) {
			EXPECT_EQ(usage(groups[i]), 0u);
			EXPECT_EQ(slub_group_destroy(groups[i]), 0);
		}
		EXPECT_EQ(usage(tree), 0u);
		EXPECT_EQ(slub_group_destroy(tree), 0);
	}
	/* Charges, or gives back what somebody else charged. */
	void operate(harness::Random &random)
	{
		Box &box = boxes[random.below(THREADS)];
		std::lock_guard<std::mutex> guard(box.mutex);

		if (random.below(2) && !box.charges.empty()) {
			Charge charge = box.charges.back();

			box.charges.pop_back();
			slub_group_uncharge(charge.token, charge.bytes);
			return;
		}
		uint32_t bytes = 1 + (uint32_t)random.below(5000);
		uint32_t token = slub_group_charge(groups[random.below(GROUPS)], bytes);
		if (token)	/* else the group was deleted just now */
			box.charges.push_back({ token, bytes });
	}
	void replace(int i)
	{
		slub_group *fresh = slub_group_create("leaf", groups[i / 10 * 10]);

		EXPECT_EQ(slub_group_destroy(groups[i].exchange(fresh)), 0);
	}
	size_t in_boxes()
	{
		size_t sum = 0;

		for (Box &box : boxes) {
			for (Charge charge : box.charges)
				sum += charge.bytes;
		}
		return sum;
	}
};

/*
 * Threads charge, and give back what others charged, while groups are deleted and made anew.
 * SLUB_GROUP_OPS: how many per thread.
 */
TEST(Group, AccountsAreExactAfterManyThreads)
{
	const char *option = getenv("SLUB_GROUP_OPS");
	long ops = option ? atol(option) : 100000;
	Exchange exchange;
	std::vector<std::thread> threads;

	for (int t = 0; t < Exchange::THREADS; t++) {
		threads.emplace_back([&, t] {
			harness::Random random(t + 1);

			for (long i = 0; i < ops; i++)
				exchange.operate(random);
		});
	}
	for (int round = 0; round < 200; round++) {
		exchange.replace(10 * (round % 10) + 1 + round % 9);
		usleep(300);
	}
	for (auto &thread : threads)
		thread.join();
	EXPECT_EQ(usage(exchange.tree), exchange.in_boxes());
	size_t tops = 0;
	for (int i = 0; i < Exchange::GROUPS; i += 10)
		tops += usage(exchange.groups[i]);
	EXPECT_EQ(tops, exchange.in_boxes());
	for (Box &box : exchange.boxes) {
		for (Charge charge : box.charges)
			slub_group_uncharge(charge.token, charge.bytes);
	}
}

/* Many threads at one limit: together never above it. */
struct Crowd {
	static constexpr size_t MAX = 900000, LARGEST = 9000;
	slub_group *group = slub_group_create("crowd", nullptr);
	std::atomic<long> live{0}, peak{0}, refused{0};

	void charge(harness::Random &random, std::vector<Charge> &mine)
	{
		uint32_t bytes = 1 + (uint32_t)random.below(LARGEST);
		uint32_t token = slub_group_charge(group, bytes);

		if (!token) {
			refused++;
			return;
		}
		mine.push_back({ token, bytes });
		long now = live += bytes, before = peak;
		while (now > before && !peak.compare_exchange_weak(before, now))
			;
	}
	void uncharge(std::vector<Charge> &mine)
	{
		live -= mine.back().bytes;
		slub_group_uncharge(mine.back().token, mine.back().bytes);
		mine.pop_back();
	}
};

TEST(Group, ThreadsTogetherStayBelowTheMaximum)
{
	Crowd crowd;
	std::vector<std::thread> threads;

	slub_group_limit_set(crowd.group, SLUB_GROUP_MAX, Crowd::MAX);
	for (int t = 0; t < 4; t++) {
		threads.emplace_back([&, t] {
			harness::Random random(t + 1);
			std::vector<Charge> mine;

			for (int i = 0; i < 30000; i++) {
				if (mine.size() > 250 || (random.below(3) == 0 && !mine.empty()))
					crowd.uncharge(mine);
				else
					crowd.charge(random, mine);
			}
			while (!mine.empty())
				crowd.uncharge(mine);
		});
	}
	for (auto &thread : threads)
		thread.join();
	EXPECT_GT(crowd.refused, 0);
	/* Requests that are looked at in the same instant may all be granted. */
	EXPECT_LE(crowd.peak, (long)(Crowd::MAX + 4 * Crowd::LARGEST));
	EXPECT_EQ(usage(crowd.group), 0u);
	slub_group_destroy(crowd.group);
}

} /* namespace */
