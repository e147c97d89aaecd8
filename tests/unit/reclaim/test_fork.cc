/* SPDX-License-Identifier: MIT */
/* What a forked child finds of a thread that did not come along, or of its own in a handler. */
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "start.h"

#define _Static_assert static_assert
extern "C" {
#include "features/groups/group.h"
}
#undef _Static_assert

namespace {

class Fork : public testing::Test {
protected:
	static void SetUpTestSuite() { start::percpu(); }
};

/* A handler that interrupted the holder of area_lock forks, and a reader is inside. */
TEST_F(Fork, TheChildOfALocksHolderHasNoNewCounters)
{
	struct slub_srcu domain = SLUB_SRCU_INIT;

	ASSERT_EQ(slub_srcu_create(&domain), 0);
	std::string errors;
	int status = harness::in_child([&] {
		int index = slub_srcu_read_lock(&domain);

		lock_acquire(&area_lock);
		srcu_fork_child();
		lock_release(&area_lock);
		slub_srcu_read_unlock(&domain, index);
		/* Readers count themselves all the same, and are waited for. */
		index = slub_srcu_read_lock(&domain);
		uint64_t cookie = slub_srcu_start_poll(&domain);
		if (slub_srcu_poll(&domain, cookie))
			_exit(1);
		slub_srcu_read_unlock(&domain, index);
		slub_srcu_synchronize(&domain);
		_exit(slub_srcu_poll(&domain, cookie) ? 0 : 2);
	}, &errors, 10);
	EXPECT_EQ(status, 0) << harness::describe_status(status) << errors;
	slub_srcu_destroy(&domain);
}

/* What lay there is the group's again, and others may have the stocks. */
TEST_F(Fork, StocksOfThreadsThatDidNotComeAlong)
{
	constexpr int NR = 3, PIECE = 8 << 10;
	struct slub_group *group = slub_group_create("group", nullptr);
	std::vector<std::thread> threads;
	std::atomic<int> arrived(0);
	std::atomic<bool> over(false);

	for (int i = 0; i < NR; i++)
		threads.emplace_back([&] {
			EXPECT_EQ(slub_group_enter(group), 0);
			uint32_t token = slub_group_charge(nullptr, PIECE);
			EXPECT_NE(token, 0u);
			EXPECT_GT(group_thread.stock->bytes, 0);
			arrived++;
			while (!over)
				std::this_thread::yield();
			slub_group_uncharge(token, PIECE);
			EXPECT_EQ(slub_group_leave(group), 0);
		});
	while (arrived < NR)
		std::this_thread::yield();
	std::string errors;
	int status = harness::in_child([&] {
		struct slub_group_stats stats;

		reclaim_fork_finish(true);
		if (slub_group_stats(group, &stats) || stats.usage != NR * PIECE)
			_exit(1);
		for (uint32_t n = 1; n < pool_end(&thread_stock_pool); n++) {
			auto *stock = (struct thread_stock *)pool_item(&thread_stock_pool, n);

			if (stock->owner || stock->bytes)
				_exit(2);
		}
		_exit(0);
	}, &errors, 10);
	EXPECT_EQ(status, 0) << harness::describe_status(status) << errors;
	over = true;
	for (std::thread &thread : threads)
		thread.join();
	EXPECT_EQ(slub_group_destroy(group), 0);
}

int asked;

/* A bit that another thread had set below, and not yet above. */
TEST_F(Fork, AMarkThatWasOnItsWayUpwards)
{
	constexpr int NR = 192;
	static struct slub_shrinker all[NR];
	struct slub_group *group = slub_group_create("group", nullptr);
	int marked = 0;

	ASSERT_TRUE(group);
	for (struct slub_shrinker &shrinker : all) {
		shrinker.count = shrinker.scan = [](slub_shrinker *, slub_shrink_control *)
			noexcept -> size_t { asked++; return 0; };
		shrinker.flags = SLUB_SHRINKER_GROUP_AWARE;
		shrinker.seeks = SLUB_SHRINKER_SEEKS;
		ASSERT_EQ(slub_shrinker_create(&shrinker), 0);
	}
	/* In the oldest unit of the map, and in another. */
	for (int n : { 10, 140 }) {
		uint32_t number = group_number(group);

		ASSERT_EQ(slub_shrinker_mark(&all[n], group, 0), 0);
		bit_clear(map_groups[0].words, number);
		asked = 0;
		shrinkers_run(SLUB_SHRINK_PRIORITY_MAX, group);
		EXPECT_EQ(asked, 0) << n;
		reclaim_fork_prepare();
		reclaim_fork_finish(true);
		shrinkers_run(SLUB_SHRINK_PRIORITY_MAX, group);
		EXPECT_EQ(asked, ++marked) << n;
	}
	for (struct slub_shrinker &shrinker : all)
		slub_shrinker_destroy(&shrinker);
	EXPECT_EQ(slub_group_destroy(group), 0);
}

/* While a process forks nobody else changes what the child would find half done. */
TEST_F(Fork, AllLocksAreTheForkingThreads)
{
	struct slub_group *group = slub_group_create("group", nullptr);
	struct lock *const locks[] = { &srcu_lock, &registry.lock, &group_pool.lock,
				       &owner_pool.lock, &thread_stock_pool.lock };
	std::atomic<int> stage(0);
	std::thread other([&] {
		while (stage < 1)
			std::this_thread::yield();
		EXPECT_EQ(slub_group_destroy(group), 0);
		stage = 2;
	});

	for (bool in_child : { false, true }) {
		reclaim_fork_prepare();
		for (struct lock *lock : locks)
			EXPECT_TRUE(lock_is_mine(lock));
		if (!in_child) {
			/* The tree's own lock: the other one is at it by then, or soon. */
			stage = 1;
			usleep(30000);
			EXPECT_EQ(stage, 1);
		}
		reclaim_fork_finish(in_child);
		for (struct lock *lock : locks)
			EXPECT_FALSE(lock_is_mine(lock));
		EXPECT_EQ(slub_thread.locks_held, 0u);
		if (!in_child)
			other.join();
	}
	EXPECT_EQ(stage, 2);
}

/* A parent keeps its readers and its threads' stocks. */
TEST_F(Fork, AParentGoesOn)
{
	struct slub_group *group = slub_group_create("group", nullptr);
	struct slub_srcu domain;
	std::atomic<int> stage(0);

	ASSERT_EQ(slub_srcu_create(&domain), 0);
	std::thread other([&] {
		int index = slub_srcu_read_lock(&domain);

		EXPECT_EQ(slub_group_enter(group), 0);
		uint32_t token = slub_group_charge(nullptr, 1000);
		int64_t has = group_thread.stock->bytes;
		EXPECT_GT(has, 0);
		stage = 1;
		while (stage < 2)
			std::this_thread::yield();
		EXPECT_EQ(group_thread.stock->bytes, has);
		slub_group_uncharge(token, 1000);
		EXPECT_EQ(slub_group_leave(group), 0);
		slub_srcu_read_unlock(&domain, index);
	});
	while (stage < 1)
		std::this_thread::yield();
	uint64_t cookie = slub_srcu_start_poll(&domain), completed = domain.completed;
	reclaim_fork_prepare();
	reclaim_fork_finish(false);
	EXPECT_EQ(domain.completed, completed);
	EXPECT_FALSE(slub_srcu_poll(&domain, cookie));
	stage = 2;
	other.join();
	EXPECT_TRUE(slub_srcu_poll(&domain, cookie));
	slub_srcu_destroy(&domain);
	EXPECT_EQ(slub_group_destroy(group), 0);
}

} /* namespace */
