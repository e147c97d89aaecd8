/* SPDX-License-Identifier: MIT */
/*
 * features/reclaim/run.c, shrinkers/walk.c, registry.c: how often who is asked, and for how much,
 * by the formula at the head of walk.c.
 */
#include <cerrno>
#include <functional>
#include <string>
#include <vector>

#include "start.h"

#define _Static_assert static_assert
extern "C" {
#include "features/groups/group.h"
#include "features/reclaim/reclaim_internal.h"
}
#undef _Static_assert

namespace {

struct {
	std::vector<int> runs;
	std::vector<bool> drains;
	std::vector<uint64_t> moves;
	unsigned idles;
	uint32_t flags;
} above;

const struct reclaimer layer = {
	[](int priority) {
		above.runs.push_back(priority);
		above.flags = slub_thread.flags;
		return (size_t)1000;
	},
	[](bool is_last) {
		above.drains.push_back(is_last);
		return (size_t)7;
	},
	[] { above.idles++; },
	[](uint64_t deadline) {
		above.moves.push_back(deadline);
		return (size_t)500;
	},
	[] { return (size_t)12345; },
};

/* What a shrinker was asked, and what it answers. */
size_t has, frees_each;
std::vector<size_t> asked;
std::vector<int> nodes, priorities;
std::function<size_t(struct slub_shrinker *, struct slub_shrink_control *)> answer;

size_t counts(struct slub_shrinker *, struct slub_shrink_control *control) noexcept
{
	nodes.push_back(control->node);
	priorities.push_back(control->priority);
	return has;
}

size_t scans(struct slub_shrinker *shrinker, struct slub_shrink_control *control) noexcept
{
	EXPECT_EQ(control->nr_scanned, control->nr_to_scan);
	asked.push_back(control->nr_to_scan);
	return answer ? answer(shrinker, control) : frees_each;
}

class Run : public testing::Test {
protected:
	static void SetUpTestSuite() { start::percpu(); }
	void SetUp() override
	{
		reclaimer_set(&layer);
		above = {};
		shrinker = SLUB_SHRINKER_INIT("table", counts, scans);
		answer = nullptr;
		has = frees_each = 0;
		forget();
	}
	void TearDown() override
	{
		reclaimer_set(nullptr);
		reclaim_configure(1);
	}
	void forget()
	{
		asked.clear();
		nodes.clear();
		priorities.clear();
	}

	struct slub_shrinker shrinker;
};

TEST_F(Run, TheLayersAboveAreAskedOnceOrTwice)
{
	ASSERT_EQ(slub_shrinker_create(&shrinker), 0);
	struct reclaim_result result = reclaim_for(4, 0);
	EXPECT_EQ(above.runs, std::vector<int>({ 4 }));
	EXPECT_EQ(result.objects, 0u);
	EXPECT_EQ(result.bytes, 1000u);
	EXPECT_FALSE(result.is_cut_short);
	EXPECT_TRUE(above.flags & THREAD_IN_RECLAIM);
	EXPECT_FALSE(slub_thread.flags & THREAD_IN_RECLAIM);
	has = 1 << 20;
	frees_each = 1;
	above = {};
	result = reclaim_for(12, 0);
	EXPECT_EQ(above.runs, std::vector<int>({ 12, 12 })) << "shrinkers have freed something";
	EXPECT_EQ(result.bytes, 2000u);
	EXPECT_EQ(result.objects, asked.size());
	EXPECT_EQ(reclaim_used(), 12345u);
	reclaim_idle();
	EXPECT_EQ(above.idles, 1u);
	EXPECT_EQ(reclaim_move(99), 500u);
	EXPECT_EQ(above.moves, std::vector<uint64_t>({ 99 }));
	EXPECT_EQ(reclaim_drain(), 7u);
	EXPECT_EQ(above.drains, std::vector<bool>({ true }));
	above = {};
	has = 0;
	EXPECT_EQ(reclaim_group(nullptr, SLUB_SHRINK_PRIORITY_MAX), 7u);
	EXPECT_EQ(reclaim_group(nullptr, SLUB_SHRINK_PRIORITY_MAX - 1), 0u);
	EXPECT_EQ(above.drains, std::vector<bool>({ false })) << "at the first priority alone";
	EXPECT_EQ(above.runs.size(), 0u);
	reclaimer_set(nullptr);
	EXPECT_EQ(reclaim_used(), 0u);
	EXPECT_EQ(reclaim_drain() + reclaim_move(1), 0u);
	reclaim_idle();
	EXPECT_EQ(reclaim_for(3, 0).bytes, 0u);
	EXPECT_EQ(slub_shrinker_destroy(&shrinker), 0);
}

/* Those that have something in the group are walked over, and what they freed is told. */
TEST_F(Run, OfOneGroup)
{
	struct slub_group *group = slub_group_create("one", nullptr);
	struct slub_group *other = slub_group_create("other", nullptr);

	shrinker.flags = SLUB_SHRINKER_GROUP_AWARE;
	ASSERT_EQ(slub_shrinker_create(&shrinker), 0);
	ASSERT_EQ(slub_shrinker_mark(&shrinker, group, 0), 0);
	has = 1024;
	frees_each = 100;
	EXPECT_EQ(reclaim_group(group, 2), 400u);
	EXPECT_EQ(priorities, std::vector<int>({ 2 }));
	EXPECT_EQ(above.drains.size(), 0u);
	has = 1 << 20;
	EXPECT_EQ(reclaim_group(group, SLUB_SHRINK_PRIORITY_MAX), 7u + 400u);
	EXPECT_FALSE(slub_thread.flags & THREAD_IN_RECLAIM);
	EXPECT_EQ(reclaim_group(other, 2), 0u);
	EXPECT_EQ(slub_shrinker_destroy(&shrinker), 0);
	EXPECT_EQ(slub_group_destroy(group), 0);
	EXPECT_EQ(slub_group_destroy(other), 0);
}

TEST_F(Run, NobodyReclaimsInsideAReclaim)
{
	ASSERT_EQ(slub_shrinker_create(&shrinker), 0);
	has = 1000;
	for (uint32_t flag : { THREAD_IN_RECLAIM, THREAD_IN_INIT }) {
		slub_thread.flags |= (uint16_t)flag;
		EXPECT_FALSE(reclaim_is_possible());
		EXPECT_FALSE(reclaim_enter());
		EXPECT_EQ(reclaim_for(0, 0).bytes, 0u);
		EXPECT_EQ(reclaim_drain() + reclaim_move(1) + reclaim_group(nullptr, 12), 0u);
		EXPECT_EQ(slub_shrink(0), 0u);
		reclaim_idle();
		EXPECT_TRUE(slub_thread.flags & flag) << "not taken off";
		slub_thread.flags &= (uint16_t)~flag;
	}
	slub_thread.locks_held++;
	EXPECT_FALSE(reclaim_is_possible());
	EXPECT_EQ(reclaim_for(0, 0).bytes, 0u);
	slub_thread.locks_held--;
	EXPECT_TRUE(reclaim_is_possible());
	EXPECT_TRUE(above.runs.empty() && above.drains.empty() && above.moves.empty());
	EXPECT_EQ(above.idles, 0u);
	EXPECT_TRUE(nodes.empty());
	EXPECT_EQ(slub_shrinker_destroy(&shrinker), 0);
}

/* From the first walk to the last, and then the root's handler is asked. */
TEST_F(Run, ARequestThatFailsWalksHarderEachTime)
{
	int priority = RECLAIM_FIRST;
	std::vector<int> expected;

	ASSERT_EQ(slub_shrinker_create(&shrinker), 0);
	for (int p = RECLAIM_FIRST; p >= 0; p--)
		expected.push_back(p);
	for (int p = RECLAIM_FIRST; p >= 0; p--) {
		EXPECT_EQ(priority, p);
		EXPECT_EQ(above.drains.size(), 0u);
		EXPECT_TRUE(reclaim_more(&priority, 100));
	}
	EXPECT_EQ(above.drains, std::vector<bool>({ true }));
	EXPECT_EQ(above.runs, expected);
	EXPECT_EQ(priority, -1);
	EXPECT_FALSE(reclaim_more(&priority, 100)) << "there is no root";
	EXPECT_EQ(priority, -2);
	EXPECT_FALSE(reclaim_more(&priority, 100));
	EXPECT_EQ(priority, -2);
	EXPECT_EQ(above.runs, expected);
	EXPECT_EQ(slub_shrinker_destroy(&shrinker), 0);
}

TEST_F(Run, PrioritiesAreBrought)
{
	ASSERT_EQ(slub_shrinker_create(&shrinker), 0);
	for (auto [said, is] : { std::pair<int, int>{ -5, 0 }, { -1, 0 }, { 0, 0 }, { 1, 1 },
				 { 12, 12 }, { 13, 12 }, { 100, 12 } }) {
		above = {};
		forget();
		slub_shrink(said);
		EXPECT_EQ(above.runs, std::vector<int>({ is })) << said;
		EXPECT_EQ(priorities, std::vector<int>({ is })) << said;
	}
	EXPECT_EQ(slub_shrinker_destroy(&shrinker), 0);
}

/* As long as a pass brings more than the one before should. */
TEST_F(Run, AllIsAPassAfterAnother)
{
	ASSERT_EQ(slub_shrinker_create(&shrinker), 0);
	struct {
		std::vector<size_t> frees;	/* in each pass */
		size_t passes, freed;
	} const rows[] = {
		{ { 0 }, 1, 0 }, { { 1 }, 1, 1 }, { { 2, 3 }, 2, 5 }, { { 2, 4, 7 }, 3, 13 },
		{ { 2, 4, 8, 0 }, 4, 14 },
		{ { 5000, 5000, 5000, 5000, 5000, 5000, 5000, 5000, 5000, 5000, 5000 }, 10, 50000 },
	};

	has = 1;
	for (auto &row : rows) {
		size_t pass = 0;

		answer = [&](struct slub_shrinker *, struct slub_shrink_control *) {
			return pass < row.frees.size() ? row.frees[pass++] : 0;
		};
		EXPECT_EQ(slub_shrink_all(), row.freed);
		EXPECT_EQ(pass, row.passes);
	}
	EXPECT_EQ(slub_shrinker_destroy(&shrinker), 0);
}

TEST_F(Run, TheShareIsTheKernels)
{
	struct {
		size_t has;
		unsigned seeks;
		size_t batch;
		int priority;
		std::vector<size_t> asked;
		int64_t owed;
	} const rows[] = {
		/* has >> priority, times 4, by seeks (2): in batches of 128. */
		{ 4096, 0, 0, 4, { 128, 128, 128, 128 }, 0 },
		{ 4096, 4, 0, 4, { 128, 128 }, 0 },
		{ 4096, 0, 100, 4, { 100, 100, 100, 100, 100 }, 12 },
		{ 4096, 0, 0, 12, {}, 2 },
		{ 4095, 0, 0, 12, {}, 0 },
		{ 4096, SLUB_SHRINKER_SEEKS_NONE, 1000, 12, { 1000, 1000 }, 48 },
		/* At the highest pressure twice of what there is, at most. */
		{ 100, 0, 0, 0, { 128 }, 72 },
		{ 100, 0, 50, 0, { 50, 50, 50, 50 }, 0 },
		{ 100, 0, 100, 0, { 100, 100 }, 0 },
		{ 100, 1, 0, 0, { 128 }, 200 },
		{ 127, 4, 0, 0, { 127 }, 0 },
		{ 1, 0, 0, 0, { 2 }, 0 },
		{ 1, 8, 0, 0, {}, 0 },
		{ 0, 0, 0, 0, {}, 0 },
		{ SLUB_SHRINK_EMPTY, 0, 0, 0, {}, 0 },
		{ SLUB_SHRINK_STOP, 0, 0, 0, {}, 0 },
	};

	for (auto &row : rows) {
		shrinker = SLUB_SHRINKER_INIT("share", counts, scans);
		shrinker.seeks = row.seeks;
		shrinker.batch = row.batch;
		ASSERT_EQ(slub_shrinker_create(&shrinker), 0);
		forget();
		has = row.has;
		EXPECT_EQ(shrinkers_run(row.priority, nullptr), 0u);
		SCOPED_TRACE(std::to_string(row.has) + " at " + std::to_string(row.priority) +
			     " by " + std::to_string(row.seeks));
		EXPECT_EQ(asked, row.asked);
		EXPECT_EQ(shrinker.deferred[0], row.owed);
		EXPECT_EQ(shrinker.scans, row.asked.size());
		size_t sum = 0;
		for (size_t each : row.asked)
			sum += each;
		EXPECT_EQ(shrinker.scanned, sum);
		EXPECT_EQ(slub_shrinker_destroy(&shrinker), 0);
	}
}

/* Of a thread that another process has woken: no code of the program. */
TEST_F(Run, AWokenThreadAsksNobody)
{
	ASSERT_EQ(slub_shrinker_create(&shrinker), 0);
	forget();
	has = 4096;
	uint8_t before = thread_growth_set(THREAD_GROWTH_QUIET);

	EXPECT_EQ(shrinkers_run(0, nullptr), 0u);
	thread_growth_set(before);
	EXPECT_TRUE(asked.empty());
	shrinkers_run(0, nullptr);
	EXPECT_FALSE(asked.empty());
	EXPECT_EQ(slub_shrinker_destroy(&shrinker), 0);
}

/* What is owed comes to the next visit, less at a low pressure. */
TEST_F(Run, DebtsAreAddedAndPaid)
{
	ASSERT_EQ(slub_shrinker_create(&shrinker), 0);
	has = 4096;
	for (int64_t owed : { 2, 4, 6 }) {
		EXPECT_EQ(shrinkers_run(12, nullptr), 0u);
		EXPECT_EQ(shrinker.deferred[0], owed);
	}
	EXPECT_TRUE(asked.empty());
	shrinker.deferred[0] = 200 << 4;
	shrinkers_run(4, nullptr);
	/* 200 of them now, and 512 of its own. */
	EXPECT_EQ(asked, std::vector<size_t>({ 128, 128, 128, 128, 128 }));
	EXPECT_EQ(shrinker.deferred[0], 3200 + 512 - 640);
	shrinker.deferred[0] = 1 << 20;
	forget();
	has = 100;
	shrinkers_run(0, nullptr);
	EXPECT_EQ(asked, std::vector<size_t>({ 128 }));
	EXPECT_EQ(shrinker.deferred[0], 200) << "no more than twice of what there is";
	EXPECT_EQ(slub_shrinker_destroy(&shrinker), 0);
}

TEST_F(Run, WhatAScanSaysIsCounted)
{
	ASSERT_EQ(slub_shrinker_create(&shrinker), 0);
	has = 1024;
	/* It looks at more than it was asked, at nothing, at an outrageous number; or stops. */
	struct {
		size_t looks, frees;
		size_t scans, scanned, freed;
	} const rows[] = {
		{ 128, 3, 4, 512, 12 }, { 256, 3, 2, 512, 6 }, { 0, 1, 4, 512, 4 },
		{ (size_t)1 << 60, (size_t)1 << 60, 1, (size_t)1 << 48, (size_t)1 << 48 },
		{ 128, SLUB_SHRINK_STOP, 1, 0, 0 }, { 64, 0, 7, 448, 0 },
	};

	for (auto &row : rows) {
		shrinker.scans = shrinker.scanned = shrinker.freed = 0;
		shrinker.deferred[0] = 0;
		answer = [&](struct slub_shrinker *, struct slub_shrink_control *control) {
			control->nr_scanned = row.looks;
			return row.frees;
		};
		EXPECT_EQ(shrinkers_run(2, nullptr), row.freed) << row.looks;
		EXPECT_EQ(shrinker.scans, row.scans) << row.looks;
		EXPECT_EQ(shrinker.scanned, row.scanned) << row.looks;
		EXPECT_EQ(shrinker.freed, row.freed) << row.looks;
	}
	EXPECT_EQ(slub_shrinker_destroy(&shrinker), 0);
}

/* One that always has more is left after 4096 scans, which is said once. */
TEST_F(Run, AVisitHasAnEnd)
{
	std::string said;
	int status = harness::in_child([&] {
		log_enable(true);
		shrinker.batch = 1;
		if (slub_shrinker_create(&shrinker))
			_exit(1);
		has = 1 << 20;
		for (int i = 1; i <= 2; i++) {
			shrinkers_run(0, nullptr);
			if (shrinker.scans != 4096u * (unsigned)i || (int)shrinker.cut_short != i)
				_exit(2);
		}
		_exit(0);
	}, &said);

	EXPECT_EQ(harness::describe_status(status), "exit 0");
	EXPECT_EQ(said.substr(said.find(' ') + 1), "shrinker 'table': asked 4096 times in one "
		  "visit, and there is still more; left to the next walk\n");
}

TEST_F(Run, EachNodeIsAskedThatThereIs)
{
	for (auto [said, is] : { std::pair<uint32_t, uint32_t>{ 0, 1 }, { 1, 1 }, { 3, 3 },
				 { OS_NODES_MAX, OS_NODES_MAX },
				 { OS_NODES_MAX + 5, OS_NODES_MAX } }) {
		reclaim_configure(said);
		EXPECT_EQ(reclaim_nr_nodes, is);
		for (unsigned flags : { 0u, (unsigned)SLUB_SHRINKER_NUMA_AWARE }) {
			shrinker = SLUB_SHRINKER_INIT("nodes", counts, scans);
			shrinker.flags = flags;
			ASSERT_EQ(slub_shrinker_create(&shrinker), 0);
			forget();
			has = 4096;
			shrinkers_run(12, nullptr);
			std::vector<int> expected;
			for (uint32_t n = 0; n < (flags ? is : 1); n++)
				expected.push_back((int)n);
			EXPECT_EQ(nodes, expected);
			for (uint32_t n = 0; n < OS_NODES_MAX; n++)
				EXPECT_EQ(shrinker.deferred[n], n < expected.size() ? 2 : 0);
			EXPECT_EQ(slub_shrinker_destroy(&shrinker), 0);
		}
	}
}

TEST_F(Run, RegistrationsAreRefused)
{
	struct slub_shrinker good = shrinker, wrong;

	EXPECT_EQ(slub_shrinker_create(nullptr), -EINVAL);
	wrong = good;
	wrong.count = nullptr;
	EXPECT_EQ(slub_shrinker_create(&wrong), -EINVAL);
	wrong = good;
	wrong.scan = nullptr;
	EXPECT_EQ(slub_shrinker_create(&wrong), -EINVAL);
	for (unsigned flags : { 1u << 10, 4u, 8u }) {
		wrong = good;
		wrong.flags = flags;
		EXPECT_EQ(slub_shrinker_create(&wrong), -EINVAL) << flags;
	}
	for (unsigned seeks : { 1000001u, SLUB_SHRINKER_SEEKS_NONE - 1u }) {
		wrong = good;
		wrong.seeks = seeks;
		EXPECT_EQ(slub_shrinker_create(&wrong), -EINVAL) << seeks;
	}
	wrong = good;
	wrong.seeks = 1000000;
	EXPECT_EQ(slub_shrinker_create(&wrong), 0);
	EXPECT_EQ(slub_shrinker_create(&wrong), -EEXIST);
	slub_thread.locks_held++;
	EXPECT_EQ(slub_shrinker_destroy(&wrong), -EDEADLK);
	EXPECT_NE(slub_shrinker_create(&good), 0);
	slub_thread.locks_held--;
	EXPECT_EQ(slub_shrinker_mark(&wrong, nullptr, 0), -EINVAL) << "it knows no groups";
	EXPECT_EQ(slub_shrinker_destroy(&wrong), 0);
	EXPECT_EQ(slub_shrinker_destroy(&wrong), -EINVAL);
	EXPECT_EQ(slub_shrinker_destroy(nullptr), -EINVAL);
	good.flags = SLUB_SHRINKER_GROUP_AWARE;
	EXPECT_EQ(slub_shrinker_mark(&good, nullptr, 0), -EINVAL) << "not registered";
	ASSERT_EQ(slub_shrinker_create(&good), 0);
	EXPECT_EQ(slub_shrinker_mark(nullptr, nullptr, 0), -EINVAL);
	EXPECT_EQ(slub_shrinker_mark(&good, nullptr, -1), -EINVAL);
	EXPECT_EQ(slub_shrinker_mark(&good, nullptr, 1), -EINVAL) << "of one node";
	EXPECT_EQ(slub_shrinker_mark(&good, (struct slub_group *)&good, 0), -EINVAL);
	EXPECT_EQ(slub_shrinker_mark(&good, nullptr, 0), 0);
	EXPECT_EQ(slub_shrinker_destroy(&good), 0);
	good.flags = SLUB_SHRINKER_GROUP_AWARE | SLUB_SHRINKER_NUMA_AWARE;
	ASSERT_EQ(slub_shrinker_create(&good), 0);
	EXPECT_EQ(slub_shrinker_mark(&good, nullptr, OS_NODES_MAX), -EINVAL);
	EXPECT_EQ(slub_shrinker_mark(&good, nullptr, OS_NODES_MAX - 1), 0);
	EXPECT_EQ(slub_shrinker_destroy(&good), 0);
}

TEST_F(Run, AVisitorSeesEachAndMayStop)
{
	struct slub_shrinker three[3];
	std::vector<struct slub_shrinker *> seen;
	auto visit = [](struct slub_shrinker *each, void *arg) {
		auto *list = (std::vector<struct slub_shrinker *> *)arg;

		list->push_back(each);
		return list->size() == 2 ? 44 : 0;
	};

	for (auto &each : three) {
		each = SLUB_SHRINKER_INIT("each", counts, scans);
		for (int64_t &owed : each.deferred)
			owed = 5;
		ASSERT_EQ(slub_shrinker_create(&each), 0);
		for (int64_t owed : each.deferred)
			EXPECT_EQ(owed, 0) << "of nobody before";
		EXPECT_GT(each.id, 0u);
		EXPECT_EQ(shrinker_table[each.id] & ~SHRINKER_SEEN, (uintptr_t)&each);
	}
	EXPECT_EQ(slub_shrinker_for_each(visit, &seen), 44);
	EXPECT_EQ(seen, std::vector<struct slub_shrinker *>({ &three[0], &three[1] }));
	seen.clear();
	EXPECT_EQ(slub_shrinker_destroy(&three[0]), 0);
	EXPECT_EQ(slub_shrinker_destroy(&three[1]), 0);
	EXPECT_EQ(slub_shrinker_for_each(visit, &seen), 0);
	EXPECT_EQ(seen, std::vector<struct slub_shrinker *>({ &three[2] }));
	EXPECT_EQ(slub_shrinker_destroy(&three[2]), 0);
}

/* Of a walk that is cut short the next goes on with whom it did not come to. */
TEST_F(Run, TheNextWalkGoesOnWhereOneEnded)
{
	std::vector<struct slub_shrinker> many(5);
	std::vector<const struct slub_shrinker *> turns;
	bool is_cut = false;

	for (auto &each : many) {
		each = SLUB_SHRINKER_INIT("turn", counts, scans);
		ASSERT_EQ(slub_shrinker_create(&each), 0);
	}
	has = 128;
	answer = [&](struct slub_shrinker *each, struct slub_shrink_control *) {
		turns.push_back(each);
		/* Until the deadline is over. */
		for (uint64_t begin = os_clock_ns(); os_clock_ns() - begin < 3000000;)
			continue;
		return SLUB_SHRINK_STOP;
	};
	for (int round = 0; round < 5; round++) {
		shrinkers_run_until(0, os_clock_ns() + 1000000, &is_cut);
		EXPECT_EQ(is_cut, true) << round;
	}
	shrinkers_run_until(0, 0, &is_cut);
	EXPECT_FALSE(is_cut);
	ASSERT_EQ(turns.size(), 10u) << "one each, and then all of them";
	for (size_t i = 0; i < 10; i++)
		EXPECT_EQ(turns[i], &many[i % 5]) << i;
	for (auto &each : many)
		EXPECT_EQ(slub_shrinker_destroy(&each), 0);
}

} /* namespace */
