/* SPDX-License-Identifier: MIT */
/*
 * features/groups/charge.c: who is asked in which order before a request is refused, and what is
 * counted where.
 */
#include <cerrno>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "start.h"

#define _Static_assert static_assert
extern "C" {
#include "features/groups/group.h"
}
#undef _Static_assert

namespace {

std::vector<std::string> *calls;
/* What each call does, by its name; without one it gives nothing. */
std::function<size_t(const std::string &)> *does;
bool is_there_none;

size_t called(const std::string &name)
{
	calls->push_back(name);
	return does && *does ? (*does)(name) : 0;
}

const struct kept_charges keeper = {
	[](bool all) { called(all ? "all" : "here"); },
	[] { return is_there_none; },
};

bool handler(struct slub_group *group, size_t, void *) noexcept
{
	return called(std::string("handler ") + group->name);
}

} /* namespace */

/* The linker sends the library's calls to these (--wrap). */
extern "C" size_t __wrap_reclaim_group(const struct slub_group *group, int priority)
{
	return called(group->name + std::to_string(priority));
}

extern "C" size_t __wrap_reclaim_drain(void)
{
	return called("drain");
}

namespace {

constexpr size_t MIB = 1 << 20;	/* more than any stock */
typedef std::vector<std::string> Calls;

class Charges : public testing::Test {
protected:
	static void SetUpTestSuite()
	{
		start::percpu();
		calls = new Calls;
		does = new std::function<size_t(const std::string &)>;
	}
	void SetUp() override
	{
		top = slub_group_create("top", nullptr);
		child = slub_group_create("child", top);
		ASSERT_TRUE(top && child);
		owner = group_owner_number(child);
		*does = nullptr;
		is_there_none = false;
		group_set_kept(&keeper);
		calls->clear();
	}
	void TearDown() override
	{
		group_set_kept(nullptr);
		EXPECT_EQ(child->usage, stocks_of(child));
		EXPECT_EQ(slub_group_destroy(child), 0);
		EXPECT_EQ(slub_group_destroy(top), 0);
		EXPECT_EQ(nr_tight, 0u);
	}
	static struct slub_group_stats stats(struct slub_group *group)
	{
		struct slub_group_stats now;

		is_there_none = true;
		EXPECT_EQ(slub_group_stats(group, &now), 0);
		is_there_none = false;
		return now;
	}
	static void limit(struct slub_group *group, enum slub_group_limit which, size_t bytes)
	{
		EXPECT_EQ(slub_group_limit_set(group, which, bytes), 0);
	}
	/* What is in use is given back, and nothing stays in the owners' stocks. */
	void give_back_all()
	{
		*does = nullptr;
		slub_group_uncharge(owner, stats(child).usage);
		stocks_drain(top);
		EXPECT_EQ(child->usage, 0);
	}
	/* A walk of each priority down to @last. */
	static Calls walks(const char *name, int last = 0)
	{
		Calls all;

		for (int priority = SLUB_SHRINK_PRIORITY_MAX; priority >= last; priority--)
			all.push_back(name + std::to_string(priority));
		return all;
	}
	static Calls joined(std::initializer_list<Calls> parts)
	{
		Calls all;

		for (auto &part : parts)
			all.insert(all.end(), part.begin(), part.end());
		return all;
	}
	/* What is asked when one more byte is wanted than there is; *@err: the answer. */
	Calls at_the_maximum(int *err)
	{
		auto later = *does;

		*does = nullptr;
		limit(top, SLUB_GROUP_MAX, MIB);
		group_charge_anyway(owner, MIB);
		calls->clear();
		*does = later;
		*err = group_charge(owner, 1);
		Calls said = *calls;
		*does = nullptr;
		limit(top, SLUB_GROUP_MAX, SLUB_GROUP_NO_LIMIT);
		give_back_all();
		return said;
	}
	/* In each call of @name one byte is given back; it says that it freed @says. */
	void frees(const std::string &name, size_t says)
	{
		*does = [this, name, says](const std::string &now) -> size_t {
			if (now != name)
				return 0;
			group_uncharge(owner, 1);
			return says;
		};
	}

	struct slub_group *top, *child;
	uint32_t owner;
};

TEST_F(Charges, WhoIsAskedAtTheMaximum)
{
	int err;
	auto plus = [](std::initializer_list<Calls> parts) { return joined(parts); };

	ASSERT_EQ(slub_group_handler_set(top, handler, nullptr), 0);
	/* Nobody frees anything. */
	EXPECT_EQ(at_the_maximum(&err), plus({ { "here", "all" }, walks("top"),
					       { "drain", "handler top" } }));
	EXPECT_EQ(err, -ENOMEM);
	EXPECT_EQ(stats(top).max_hits, 1u);
	EXPECT_EQ(stats(top).failures, 1u);
	EXPECT_EQ(stats(child).max_hits + stats(child).failures, 0u);
	/* One says so, and does not. */
	*does = [](const std::string &now) { return (size_t)(now == "top5"); };
	Calls rest = walks("top");
	rest.erase(rest.begin(), rest.begin() + 8);
	EXPECT_EQ(at_the_maximum(&err), plus({ { "here", "all" }, walks("top", 5), { "here" }, rest,
					       { "drain", "here", "all", "handler top" } }));
	EXPECT_EQ(err, -ENOMEM);
	*does = [](const std::string &now) { return (size_t)(now == "drain"); };
	EXPECT_EQ(at_the_maximum(&err), plus({ { "here", "all" }, walks("top"),
					       { "drain", "here", "all", "handler top" } }));
	EXPECT_EQ(err, -ENOMEM);
	/* The handler promises, and does not keep it. */
	*does = [](const std::string &now) { return (size_t)(now == "handler top"); };
	EXPECT_EQ(at_the_maximum(&err), plus({ { "here", "all" }, walks("top"),
					       { "drain", "handler top", "here", "all" } }));
	EXPECT_EQ(err, -ENOMEM);
	EXPECT_EQ(stats(top).max_hits, 4u);
	EXPECT_EQ(stats(top).failures, 4u);
}

TEST_F(Charges, WhoFreesIsTheLastToBeAsked)
{
	int err;
	auto plus = [](std::initializer_list<Calls> parts) { return joined(parts); };
	const Calls kept = { "here", "all" };
	struct {
		const char *name;
		size_t says;
		Calls asked;
		uint64_t hits;
	} const rows[] = {
		{ "here", 0, { "here" }, 0 },
		{ "all", 0, kept, 0 },
		{ "top12", 1, plus({ kept, walks("top", 12) }), 1 },
		{ "top5", 7, plus({ kept, walks("top", 5) }), 1 },
		{ "top0", 1, plus({ kept, walks("top") }), 1 },
		{ "drain", 1, plus({ kept, walks("top"), { "drain" } }), 1 },
		/* It was another's, or is not counted: there is a last try. */
		{ "top3", 0, plus({ kept, walks("top"), { "drain" } }), 1 },
		{ "drain", 0, plus({ kept, walks("top"), { "drain" } }), 1 },
		{ "handler top", 1, plus({ kept, walks("top"), { "drain", "handler top" } }), 1 },
	};

	ASSERT_EQ(slub_group_handler_set(top, handler, nullptr), 0);
	for (auto &row : rows) {
		uint64_t before = stats(top).max_hits;

		frees(row.name, row.says);
		EXPECT_EQ(at_the_maximum(&err), row.asked) << row.name;
		EXPECT_EQ(err, 0) << row.name;
		EXPECT_EQ(stats(top).max_hits - before, row.hits) << row.name;
	}
	EXPECT_EQ(stats(top).failures, 0u);
	/* Where lists keep nothing nobody asks all of them. */
	is_there_none = true;
	limit(top, SLUB_GROUP_MAX, 100);
	calls->clear();
	EXPECT_EQ(slub_group_charge(child, 101), 0u);
	EXPECT_EQ(*calls, plus({ { "here" }, walks("top"), { "drain", "handler top" } }));
	EXPECT_FALSE(group_charge_try(owner, 101));
	EXPECT_EQ(calls->size(), 16u) << "one attempt asks nobody";
	limit(top, SLUB_GROUP_MAX, SLUB_GROUP_NO_LIMIT);
}

/* Another group may be in the way then: it is asked from there on, and the first one counts. */
TEST_F(Charges, TheNextThatIsInTheWay)
{
	ASSERT_EQ(slub_group_handler_set(top, handler, nullptr), 0);
	ASSERT_EQ(slub_group_handler_set(child, handler, nullptr), 0);
	uint32_t tops = group_owner_number(top);
	group_charge_anyway(tops, MIB);
	group_charge_anyway(owner, MIB);
	limit(child, SLUB_GROUP_MAX, MIB);
	limit(top, SLUB_GROUP_MAX, 2 * MIB);
	*does = [&](const std::string &now) -> size_t {
		if (now != "child9")
			return 0;
		group_uncharge(owner, 100);
		group_charge_anyway(tops, 100);
		return 1;
	};
	calls->clear();
	EXPECT_EQ(group_charge(owner, 50), -ENOMEM);
	Calls expected = joined({ { "here", "all" }, walks("child", 9), { "here" },
		walks("top") });
	expected.erase(expected.begin() + 7, expected.begin() + 11);
	expected.insert(expected.end(), { "drain", "here", "all", "handler top" });
	EXPECT_EQ(*calls, expected);
	EXPECT_EQ(stats(child).max_hits, 1u);
	EXPECT_EQ(stats(child).failures, 1u);
	EXPECT_EQ(stats(top).max_hits + stats(top).failures, 0u);
	*does = nullptr;
	limit(child, SLUB_GROUP_MAX, SLUB_GROUP_NO_LIMIT);
	limit(top, SLUB_GROUP_MAX, SLUB_GROUP_NO_LIMIT);
	group_uncharge(owner, MIB - 100);
	group_uncharge(tops, MIB + 100);
	EXPECT_EQ(stats(top).usage, 0u);
}

/* Above high a request is granted, and pays for it; at high it is not asked to. */
TEST_F(Charges, WhoIsAskedAboveHigh)
{
	struct {
		const char *frees;
		size_t says;
		Calls asked;
	} const rows[] = {
		{ "here", 0, { "here" } },
		{ "top12", 1, { "here", "top12", "here" } },
		{ "top12", 0, { "here", "top12" } },
		{ "top10", 1, { "here", "top12", "top11", "top10", "here" } },
		{ "", 0, joined({ { "here" }, walks("top") }) },
	};
	uint64_t hits = 0;

	for (bool tries : { false, true }) {
		limit(top, SLUB_GROUP_HIGH, 2 * MIB);
		for (auto &row : rows) {
			group_charge_anyway(owner, 2 * MIB - 100);
			calls->clear();
			frees(row.frees, row.says);
			if (tries)
				EXPECT_TRUE(group_charge_try(owner, 101));
			else
				EXPECT_EQ(group_charge(owner, 101), 0);
			EXPECT_EQ(*calls, row.asked) << row.frees;
			hits += std::string(row.frees) != "here";
			EXPECT_EQ(stats(top).high_hits, hits);
			give_back_all();
		}
		/* At it, or in the middle of a reclaim. */
		group_charge_anyway(owner, 2 * MIB - 100);
		calls->clear();
		EXPECT_EQ(group_charge(owner, 100), 0);
		ASSERT_TRUE(reclaim_enter());
		if (tries)
			EXPECT_TRUE(group_charge_try(owner, 1));
		else
			EXPECT_EQ(group_charge(owner, 1), 0);
		reclaim_leave();
		EXPECT_EQ(calls->size(), 0u);
		EXPECT_EQ(stats(top).high_hits, hits);
		give_back_all();
	}
	EXPECT_EQ(stats(child).high_hits, 0u);
	limit(top, SLUB_GROUP_HIGH, SLUB_GROUP_NO_LIMIT);
}

/* Inside a reclaim nobody can be asked: it is charged all the same, once. */
TEST_F(Charges, WhoMayNotWaitIsGranted)
{
	limit(top, SLUB_GROUP_MAX, 100);
	ASSERT_TRUE(reclaim_enter());
	calls->clear();
	EXPECT_EQ(group_charge(owner, 1000), 0);
	reclaim_leave();
	EXPECT_EQ(calls->size(), 0u);
	EXPECT_EQ(stats(child).usage, 1000u);
	EXPECT_EQ(stats(top).usage, 1000u);
	EXPECT_EQ(stats(top).failures + stats(top).max_hits, 0u);
	EXPECT_EQ(stats(top).peak, 1000u);
	group_uncharge(owner, 1000);
	limit(top, SLUB_GROUP_MAX, SLUB_GROUP_NO_LIMIT);
}

TEST_F(Charges, AMaximumBelowWhatIsInUse)
{
	group_charge_anyway(owner, MIB);
	calls->clear();
	EXPECT_EQ(slub_group_limit_set(top, SLUB_GROUP_MAX, MIB - 1), -EBUSY);
	Calls walked;
	for (auto &call : *calls)
		if (call != "all")
			walked.push_back(call);
	EXPECT_EQ(walked, walks("top"));
	EXPECT_EQ(calls->size(), 14u + walked.size()) << "each look gives back what lists keep";
	frees("top3", 1);
	calls->clear();
	EXPECT_EQ(slub_group_limit_set(top, SLUB_GROUP_MAX, MIB - 1), 0);
	EXPECT_EQ(calls->size(), 10u + 11u);
	*does = nullptr;
	calls->clear();
	EXPECT_EQ(slub_group_limit_set(top, SLUB_GROUP_HIGH, 1), 0);
	EXPECT_EQ(slub_group_limit_set(top, SLUB_GROUP_LOW, 1), 0);
	EXPECT_EQ(calls->size(), 0u) << "these may be below";
	limit(top, SLUB_GROUP_LOW, 0);
	limit(top, SLUB_GROUP_HIGH, SLUB_GROUP_NO_LIMIT);
	limit(top, SLUB_GROUP_MAX, SLUB_GROUP_NO_LIMIT);
	group_uncharge(owner, MIB - 1);
}

/* Each group has a peak of its own; what one refuses counts for none. */
TEST_F(Charges, PeaksAreOfWhatWasGranted)
{
	uint32_t tops = group_owner_number(top);

	group_charge_anyway(tops, 3 * MIB);
	group_charge_anyway(owner, MIB);
	EXPECT_EQ(stats(child).peak, MIB);
	EXPECT_EQ(stats(top).peak, 4 * MIB);
	limit(top, SLUB_GROUP_MAX, 5 * MIB);
	EXPECT_EQ(group_charge(owner, 2 * MIB), -ENOMEM);
	EXPECT_EQ(stats(child).peak, MIB);
	EXPECT_EQ(stats(top).peak, 4 * MIB);
	EXPECT_EQ(stats(child).usage, MIB);
	group_uncharge(tops, 3 * MIB);
	group_charge_anyway(owner, MIB);
	EXPECT_EQ(stats(child).peak, 2 * MIB);
	EXPECT_EQ(stats(top).peak, 4 * MIB) << "it was more before";
	limit(top, SLUB_GROUP_MAX, SLUB_GROUP_NO_LIMIT);
	group_uncharge(owner, 2 * MIB);
}

/* A thread's stock is in the way of nobody: only what is in use counts at the end. */
TEST_F(Charges, WhatLiesInAThreadsStockIsNotInUse)
{
	struct slub_group *other = slub_group_create("other", top);

	limit(child, SLUB_GROUP_MAX, 100 * MIB);
	ASSERT_EQ(slub_group_enter(other), 0);
	uint32_t token = slub_group_charge(nullptr, 1000);
	ASSERT_NE(token, 0u);
	EXPECT_GT(group_thread.stock->bytes, 0);
	limit(top, SLUB_GROUP_MAX, 1000 + MIB);
	calls->clear();
	EXPECT_EQ(group_charge(owner, MIB), 0);
	EXPECT_EQ(calls->size(), 0u);
	EXPECT_GT(group_thread.stock->bytes, 0);
	EXPECT_EQ(stats(top).usage, 1000 + MIB);
	EXPECT_EQ(group_charge(owner, 1), -ENOMEM) << "that is one byte too much";
	EXPECT_EQ(stats(top).usage, 1000 + MIB);
	limit(top, SLUB_GROUP_MAX, SLUB_GROUP_NO_LIMIT);
	limit(child, SLUB_GROUP_MAX, SLUB_GROUP_NO_LIMIT);
	group_uncharge(owner, MIB);
	slub_group_uncharge(token, 1000);
	ASSERT_EQ(slub_group_leave(other), 0);
	EXPECT_EQ(slub_group_destroy(other), 0);
}

/* The word of a tight group is never what it was, and threads are told once of each change. */
TEST_F(Charges, EachChangeOfATightGroupIsTold)
{
	std::set<uint32_t> words = { child->tight >> 2 };
	uint32_t before;

	limit(child, SLUB_GROUP_MAX, 4 * MIB);
	for (int i = 0; i < 5; i++) {
		group_charge_anyway(owner, 4 * MIB);
		before = group_generation;
		if (i == 3)
			before = group_generation = UINT32_MAX;
		for (int k = 0; k < 3; k++) {
			EXPECT_FALSE(group_charge_try(owner, MIB));
			EXPECT_FALSE(group_charge(owner, MIB) == 0);
			EXPECT_TRUE(words.insert(child->tight >> 2).second);
			EXPECT_EQ(child->tight & 3, 3u);
			EXPECT_EQ(group_generation, i == 3 ? 1 : before + 1);
			EXPECT_EQ(nr_tight, 1u);
		}
		group_uncharge(owner, 4 * MIB);
		EXPECT_TRUE(words.insert(child->tight >> 2).second);
		EXPECT_EQ(child->tight & 3, 0u);
		EXPECT_EQ(group_generation, i == 3 ? 2 : before + 2);
		EXPECT_EQ(nr_tight, 0u);
	}
	limit(child, SLUB_GROUP_MAX, SLUB_GROUP_NO_LIMIT);
}

TEST_F(Charges, TheBoundsOfOneCharge)
{
	const size_t most = CHARGE_BYTES_MASK / 2;

	EXPECT_EQ(slub_group_charge(child, most), owner);
	EXPECT_EQ(stats(child).usage, most);
	errno = 0;
	EXPECT_EQ(slub_group_charge(child, most + 1), 0u);
	EXPECT_EQ(errno, EINVAL);
	slub_group_uncharge(owner, most);
	EXPECT_EQ(slub_group_charge(child, 0), owner);
	EXPECT_EQ(stats(child).usage, 0u);
	/* Whose stocks have run dry charges so much in advance. */
	for (uint32_t nr : { 100u, 3000u, 100000u }) {
		stocks_drain(child);
		stock_set_max(nr);
		int64_t usage = child->usage;
		EXPECT_EQ(slub_group_charge(child, MIB), owner);
		EXPECT_EQ((size_t)(child->usage - usage),
			  MIB + (nr < 2000 ? STOCK_BATCH : stock_max / 2));
		slub_group_uncharge(owner, MIB);
	}
	stock_set_max(pool_end(&owner_pool));
	stocks_drain(child);
	EXPECT_EQ(child->usage, 0);
}

/* A MiB may lie in a thread's stock beyond its room, and not a byte more at once. */
TEST_F(Charges, WhatAThreadKeepsOfWhatItFrees)
{
	ASSERT_EQ(slub_group_enter(child), 0);
	EXPECT_EQ(slub_group_charge(nullptr, 4 * MIB), owner);
	int64_t has = group_thread.stock->bytes, counter = child->usage;
	EXPECT_LT(has, group_thread.stock->room);
	slub_group_uncharge(owner, MIB);
	EXPECT_EQ(group_thread.stock->bytes, has + (int64_t)MIB);
	EXPECT_EQ(child->usage, counter);
	EXPECT_EQ(slub_group_charge(nullptr, MIB), owner);
	EXPECT_EQ(group_thread.stock->bytes, has);
	slub_group_uncharge(owner, MIB + 1);
	EXPECT_EQ(group_thread.stock->bytes, group_thread.stock->room / 2);
	EXPECT_LT(child->usage, counter);
	slub_group_uncharge(owner, 3 * MIB - 1);
	ASSERT_EQ(slub_group_leave(child), 0);
	stocks_drain(child);
	EXPECT_EQ(child->usage, 0);
}

} /* namespace */
