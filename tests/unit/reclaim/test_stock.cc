/* SPDX-License-Identifier: MIT */
/*
 * How a thread's stock grows, and what bounds it: where charges come and go no counter is touched
 * after a while, and no group is at its maximum early for what lies in stocks.
 */
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <set>
#include <thread>
#include <vector>

#include "slub.h"

#define _Static_assert static_assert
extern "C" {
#include "features/groups/group.h"
}
#undef _Static_assert

namespace {

constexpr size_t PIECE = 8 << 10;

class Stock : public testing::Test {
protected:
	struct slub_group *group = slub_group_create("stock", nullptr);
	uint32_t token = 0;

	void SetUp() override
	{
		ASSERT_NE(group, nullptr);
		ASSERT_EQ(slub_group_enter(group), 0);
	}
	void TearDown() override
	{
		EXPECT_EQ(used(), 0u);
		EXPECT_EQ(slub_group_leave(group), 0);
		EXPECT_EQ(used(), 0u);
		EXPECT_EQ(slub_group_destroy(group), 0);
	}
	size_t used()
	{
		struct slub_group_stats stats;

		EXPECT_EQ(slub_group_stats(group, &stats), 0);
		return stats.usage;
	}
	/* With what lies in stocks. */
	int64_t counter() { return group->usage; }
	void up(size_t bytes)
	{
		for (size_t n = 0; n < bytes; n += PIECE) {
			token = slub_group_charge(nullptr, PIECE);
			ASSERT_NE(token, 0u);
		}
	}
	void down(size_t bytes)
	{
		for (size_t n = 0; n < bytes; n += PIECE)
			slub_group_uncharge(token, PIECE);
	}
	void up_and_down(size_t bytes, int times)
	{
		for (int i = 0; i < times; i++) {
			up(bytes);
			EXPECT_EQ(used(), bytes);
			down(bytes);
			EXPECT_EQ(used(), 0u);
		}
	}
};

TEST_F(Stock, GrowsUntilWhatComesAndGoesFits)
{
	up_and_down(512 << 10, 20);
	EXPECT_GE(group_thread.stock->room, 512 << 10);
	EXPECT_LE(group_thread.stock->room, THREAD_STOCK_GROWN_MAX);
	int64_t before = counter();
	for (size_t n = 0; n < 512 << 10; n += PIECE) {
		up(PIECE);
		EXPECT_EQ(counter(), before);
	}
	for (size_t n = 0; n < 512 << 10; n += PIECE) {
		down(PIECE);
		EXPECT_EQ(counter(), before);
	}
}

TEST_F(Stock, HasABound)
{
	up_and_down(16 << 20, 20);
	EXPECT_EQ(group_thread.stock->room, THREAD_STOCK_GROWN_MAX);
	EXPECT_LE(counter(), THREAD_STOCK_GROWN_MAX + (int64_t)STOCK_MAX);
}

TEST_F(Stock, OfWhoOnlyGoesUpStaysAsItIs)
{
	up(4 << 20);
	EXPECT_EQ(group_thread.stock->room, THREAD_STOCK_MAX);
	EXPECT_LE(counter(), (int64_t)((4 << 20) + STOCK_MAX));
	down(4 << 20);
	EXPECT_EQ(group_thread.stock->room, THREAD_STOCK_MAX);
	EXPECT_LE(counter(), THREAD_STOCK_MAX + (int64_t)STOCK_MAX);
}

TEST_F(Stock, OneLargePieceDoesNotStay)
{
	token = slub_group_charge(nullptr, 100 << 20);
	ASSERT_NE(token, 0u);
	slub_group_uncharge(token, 100 << 20);
	EXPECT_LE(counter(), THREAD_STOCK_MAX + (int64_t)STOCK_MAX);
}

TEST_F(Stock, IsASmallPartOfWhatIsLeft)
{
	constexpr size_t MAX = 8 << 20;

	for (enum slub_group_limit limit : { SLUB_GROUP_MAX, SLUB_GROUP_HIGH }) {
		ASSERT_EQ(slub_group_limit_set(group, limit, MAX), 0);
		up_and_down(512 << 10, 40);
		EXPECT_GT(group_thread.stock->room, THREAD_STOCK_MAX);
		EXPECT_LE(group_thread.stock->room, (int64_t)MAX / 64);
		/* The more is used the less. */
		up(6 << 20);
		for (int i = 0; i < 40; i++) {
			up(512 << 10);
			down(512 << 10);
		}
		EXPECT_EQ(group_thread.stock->room, THREAD_STOCK_MAX);
		EXPECT_FALSE(charge_is_tight_anywhere());
		down(6 << 20);
		ASSERT_EQ(slub_group_limit_set(group, limit, SLUB_GROUP_NO_LIMIT), 0);
	}
}

TEST_F(Stock, LeavesTheGroupBelowWhatItWasPromised)
{
	ASSERT_EQ(slub_group_limit_set(group, SLUB_GROUP_LOW, 1 << 20), 0);
	up_and_down(512 << 10, 40);
	EXPECT_EQ(group_thread.stock->room, THREAD_STOCK_MAX);
	/* Above it there is no such bound. */
	up(1 << 20);
	for (int i = 0; i < 40; i++) {
		up(512 << 10);
		down(512 << 10);
	}
	EXPECT_GE(group_thread.stock->room, 512 << 10);
	down(1 << 20);
	ASSERT_EQ(slub_group_limit_set(group, SLUB_GROUP_LOW, 0), 0);
}

/* What lies there is taken back, all of it: the maximum holds to the byte. */
TEST_F(Stock, BeginsAnewAtTheMaximum)
{
	constexpr size_t MAX = 4 << 20;
	size_t has = 0;

	up_and_down(2 << 20, 20);
	EXPECT_GE(group_thread.stock->room, 512 << 10);
	ASSERT_EQ(slub_group_limit_set(group, SLUB_GROUP_MAX, MAX), 0);
	while (uint32_t got = slub_group_charge(nullptr, PIECE)) {
		token = got;
		has += PIECE;
	}
	EXPECT_EQ(errno, ENOMEM);
	EXPECT_EQ(has, MAX);
	EXPECT_EQ(used(), MAX);
	EXPECT_EQ(group_thread.stock->room, THREAD_STOCK_MAX);
	EXPECT_EQ(group_thread.stock->bytes, 0);
	down(MAX);
}

TEST_F(Stock, IsForgottenWhereTheThreadGoesElsewhere)
{
	struct slub_group *other = slub_group_create("other", nullptr);

	up_and_down(512 << 10, 20);
	ASSERT_EQ(slub_group_enter(other), 0);
	EXPECT_EQ(group_thread.stock->room, THREAD_STOCK_MAX);
	EXPECT_LE(counter(), (int64_t)STOCK_MAX);
	ASSERT_EQ(slub_group_leave(other), 0);
	EXPECT_EQ(group_thread.stock->room, THREAD_STOCK_MAX);
	EXPECT_EQ(slub_group_destroy(other), 0);
}

/* Each has one while it is inside; nobody is told of their end, and yet none is lost. */
TEST_F(Stock, ThreadsOneAfterAnotherHaveTheSame)
{
	uint32_t end = pool_end(&thread_stock_pool);

	/* What a thread is made of would be charged. */
	ASSERT_EQ(slub_group_leave(group), 0);
	for (int i = 0; i < 100; i++)
		std::thread([this] {
			EXPECT_EQ(slub_group_enter(group), 0);
			EXPECT_NE(group_thread.stock, &no_stock);
			EXPECT_EQ(slub_group_leave(group), 0);
			EXPECT_EQ(group_thread.stock, &no_stock);
		}).join();
	EXPECT_LE(pool_end(&thread_stock_pool), end + 1);
	ASSERT_EQ(slub_group_enter(group), 0);
}

TEST_F(Stock, IsOneThreadsAlone)
{
	constexpr int NR = 24, ROUNDS = 200;
	struct thread_stock *stocks[NR];
	std::atomic<int> arrived(0);
	std::vector<std::thread> threads;
	/* All are inside, and all have left, before the next round. */
	auto meet = [&arrived] {
		int turn = arrived++ / NR + 1;

		while (arrived < turn * NR)
			std::this_thread::yield();
	};

	ASSERT_EQ(slub_group_leave(group), 0);
	for (int i = 0; i < NR; i++)
		threads.emplace_back([&, i] {
			for (int round = 0; round < ROUNDS; round++) {
				EXPECT_EQ(slub_group_enter(group), 0);
				stocks[i] = group_thread.stock;
				meet();
				if (!i) {
					std::set<struct thread_stock *> all(stocks, stocks + NR);

					all.insert(&no_stock);
					EXPECT_EQ(all.size(), NR + 1u);
				}
				meet();
				EXPECT_EQ(slub_group_leave(group), 0);
				/* Some come back to one that another has taken. */
				for (int n = 0; n < (i + round) % 3; n++)
					std::this_thread::yield();
			}
		});
	for (std::thread &thread : threads)
		thread.join();
	for (uint32_t n = 1; n < pool_end(&thread_stock_pool); n++) {
		auto *stock = (struct thread_stock *)pool_item(&thread_stock_pool, n);

		EXPECT_EQ(stock->owner, 0u);
		EXPECT_EQ(stock->generation, 0u);
		EXPECT_EQ(stock->bytes, 0);
		EXPECT_EQ(stock->back, 0u);
	}
	ASSERT_EQ(slub_group_enter(group), 0);
}

} /* namespace */
