/* SPDX-License-Identifier: MIT */
/* Limits that malloc meets, groups that end, many groups, many threads, forks and handlers. */
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <new>
#include <sys/time.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "account.h"

namespace {

using AccountLimit = Account;
using AccountLife = Account;

/* ---- limits ---- */

TEST_F(AccountLimit, AtItsMaximumATenantIsRefusedAndOthersAreNot)
{
	slub_group *neighbour = slub_group_create("neighbour", nullptr);
	std::vector<void *> blocks;
	std::vector<void *> more;
	int error = 0;
	void *refused_large, *refused_calloc;

	blocks.reserve(100000);
	more.reserve(100);
	ASSERT_EQ(slub_group_limit_set(group, SLUB_GROUP_MAX, 1000000), 0);
	{
		Inside inside(group);
		while (void *block = malloc(100))
			blocks.push_back(block);
		error = errno;
		refused_large = malloc(100000);
		refused_calloc = calloc(1, 1000);
	}
	EXPECT_EQ(error, ENOMEM);
	EXPECT_EQ(refused_large, nullptr);
	EXPECT_EQ(refused_calloc, nullptr);
	EXPECT_EQ(usage(group), blocks.size() * charge_of(blocks[0]));
	EXPECT_GT(usage(group) + charge_of(blocks[0]), 1000000u);
	EXPECT_GE(failures(group), 3u);
	{
		Inside inside(neighbour);
		for (int i = 0; i < 100; i++)
			more.push_back(malloc(100000));
	}
	for (void *block : more) {
		EXPECT_NE(block, nullptr);
		free(block);
	}
	void *outside = malloc(100);
	EXPECT_NE(outside, nullptr);
	free(outside);
	/* What it gives back it may have again, to the byte. */
	size_t nr = blocks.size();
	for (int i = 0; i < 10; i++) {
		free(blocks.back());
		blocks.pop_back();
	}
	{
		Inside inside(group);
		while (void *block = malloc(100))
			blocks.push_back(block);
	}
	EXPECT_EQ(blocks.size(), nr);
	for (void *block : blocks)
		free(block);
	EXPECT_EQ(slub_group_destroy(neighbour), 0);
}

bool free_something(slub_group *, size_t, void *arg) noexcept
{
	auto *blocks = (std::vector<void *> *)arg;

	if (blocks->empty())
		return false;
	free(blocks->back());
	blocks->pop_back();
	return true;
}

TEST_F(AccountLimit, TheHandlerMakesRoom)
{
	std::vector<void *> blocks;

	blocks.reserve(100);
	ASSERT_EQ(slub_group_limit_set(group, SLUB_GROUP_MAX, 64 << 10), 0);
	ASSERT_EQ(slub_group_handler_set(group, free_something, &blocks), 0);
	{
		Inside inside(group);
		for (int i = 0; i < 100; i++) {
			void *block = malloc(8 << 10);

			if (!block)
				break;
			blocks.push_back(block);
		}
	}
	EXPECT_EQ(blocks.size(), 8u);
	EXPECT_EQ(usage(group), 64u << 10);
	for (void *block : blocks)
		free(block);
}

TEST_F(AccountLimit, NewThrowsAtTheMaximum)
{
	bool thrown = false;

	ASSERT_EQ(slub_group_limit_set(group, SLUB_GROUP_MAX, 10000), 0);
	{
		Inside inside(group);
		try {
			::operator delete(::operator new(20000));
		} catch (const std::bad_alloc &) {
			thrown = true;
		}
	}
	EXPECT_TRUE(thrown);
}

/* ---- groups that end, many groups ---- */

TEST_F(AccountLife, WhatADeletedGroupHadIsItsParents)
{
	slub_group *child = slub_group_create("child", group);
	void *small, *large, *later;

	slub_group_enter(child);
	small = malloc(500);
	large = malloc(500000);
	EXPECT_EQ(slub_group_destroy(child), 0);
	later = malloc(600);	/* still inside */
	slub_group_leave(child);
	EXPECT_EQ(usage(group), charge_of(small) + charge_of(large) + charge_of(later));
	free(large);
	EXPECT_EQ(usage(group), charge_of(small) + charge_of(later));
	free(later);
	free(small);
}

TEST_F(AccountLife, TenThousandGroups)
{
	constexpr int NR = 10000, EACH = 4;
	std::vector<slub_group *> groups(NR);
	std::vector<void *> blocks(NR * EACH);
	harness::Random random(7);
	size_t sum = 0, wrong = 0;

	for (auto &g : groups)
		g = slub_group_create("tenant", group);
	for (int k = 0; k < EACH; k++) {
		for (int i = 0; i < NR; i++) {
			Inside inside(groups[i]);

			blocks[k * NR + i] = malloc(1 + random.below(900));
		}
	}
	for (int i = 0; i < NR; i += 97) {
		size_t mine = 0;

		for (int k = 0; k < EACH; k++)
			mine += charge_of(blocks[k * NR + i]);
		wrong += usage(groups[i]) != mine;
	}
	EXPECT_EQ(wrong, 0u);
	for (void *block : blocks)
		sum += charge_of(block);
	EXPECT_EQ(usage(group), sum);
	for (int i = NR * EACH; i--;)
		free(blocks[i]);
	EXPECT_EQ(usage(group), 0u);
	for (auto &g : groups) {
		wrong += usage(g) != 0;
		wrong += slub_group_destroy(g) != 0;
	}
	EXPECT_EQ(wrong, 0u);
}

/* ---- fork ---- */

TEST_F(AccountLife, AForkedChildHasTheAccounts)
{
	void *mine = in_group([] { return malloc(1000); });
	std::atomic<bool> stop{ false };
	std::thread other([&] {
		Inside inside(group);
		while (!stop)
			free(malloc(100));
	});
	for (int i = 0; i < 10; i++) {
		int status = harness::in_child([&] {
			/* Another thread may have been in the middle of one. */
			size_t before = usage(group), mean = charge_of(mine);

			if (before < mean || before > mean + 2 * 128)
				_exit(2);
			void *more = in_group([] { return malloc(5000); });
			if (usage(group) != before + charge_of(more))
				_exit(3);
			free(more);
			free(mine);
			if (usage(group) != before - mean)
				_exit(4);
			_exit(0);
		});
		EXPECT_EQ(status, 0) << harness::describe_status(status);
	}
	stop = true;
	other.join();
	EXPECT_EQ(usage(group), charge_of(mine));
	free(mine);
}

/* ---- signals ---- */

slub_group *handler_group;
std::atomic<long> handled;

/* Allocates, frees, and works for another group for a moment, wherever the thread was. */
void on_signal(int)
{
	int saved = errno;
	void *a = malloc(64);

	slub_group_enter(handler_group);
	void *b = malloc(64);
	free(a);
	slub_group_leave(handler_group);
	free(b);
	handled++;
	errno = saved;
}

TEST_F(AccountLife, HandlersLeaveTheAccountsRight)
{
	struct sigaction action = {};
	struct itimerval timer = { { 0, 100 }, { 0, 100 } }, off = {};
	std::vector<void *> blocks(64);

	handler_group = slub_group_create("handler", nullptr);
	handled = 0;
	action.sa_handler = on_signal;
	action.sa_flags = SA_RESTART;
	sigaction(SIGALRM, &action, nullptr);
	setitimer(ITIMER_REAL, &timer, nullptr);
	{
		Inside inside(group);
		for (long i = 0; i < 100000 || handled < 200; i++) {
			void *&place = blocks[i % blocks.size()];

			free(place);
			place = malloc(1 + (size_t)i % 300);
			if (i % 16 == 0) {
				slub_group_enter(handler_group);
				slub_group_leave(handler_group);
			}
		}
	}
	setitimer(ITIMER_REAL, &off, nullptr);
	signal(SIGALRM, SIG_DFL);
	size_t sum = 0;
	for (void *block : blocks)
		sum += charge_of(block);
	EXPECT_EQ(usage(group), sum);
	EXPECT_EQ(usage(handler_group), 0u);
	for (void *block : blocks)
		free(block);
	EXPECT_EQ(slub_group_destroy(handler_group), 0);
}

/* ---- many threads ---- */

struct Storm {
	static constexpr int THREADS = 16, GROUPS = 3, BOXES = 256, ROOM = 16;
	struct Box {
		std::mutex mutex;
		int nr = 0;
		void *blocks[ROOM];
		int owners[ROOM];
	};
	slub_group *groups[GROUPS];
	slub_cache *cache = slub_cache_create("storm", 120, 0, SLUB_CACHE_ACCOUNT, nullptr);
	Box boxes[BOXES];

	void *allocate(harness::Random &random)
	{
		switch (random.below(16)) {
		case 0:
			return calloc(1, 1 + random.below(2000));
		case 1:
			return aligned_alloc(128, 1 + random.below(6000));
		case 2:
			return random.below(20) ? malloc(random.below(30000)) :
						  malloc(40000 + random.below(100000));
		case 3:
		case 4:
		case 5:
			return slub_cache_alloc(cache);
		default:
			return malloc(random.below(600));
		}
	}
	/* Puts a block into a box, or frees one out of it. */
	void operate(harness::Random &random, int group)
	{
		Box &box = boxes[random.below(BOXES)];
		std::lock_guard<std::mutex> lock(box.mutex);

		if (box.nr < ROOM && random.below(2)) {
			box.blocks[box.nr] = allocate(random);
			box.owners[box.nr++] = group;
		} else if (box.nr) {
			free(box.blocks[--box.nr]);
		}
	}
	void body(int t, long ops)
	{
		harness::Random random(t + 1);
		int group = t % (GROUPS + 1);	/* the last: in none */

		for (long i = 0; i < ops; i += 256) {
			if (group < GROUPS)
				slub_group_enter(groups[group]);
			for (int k = 0; k < 256; k++)
				operate(random, group);
			if (group < GROUPS)
				slub_group_leave(groups[group]);
			group = (int)random.below(GROUPS + 1);
		}
	}
};

/* SLUB_GROUP_OPS: how many operations a thread makes. */
TEST(AccountStorm, AccountsAreExactAfterManyThreads)
{
	static Storm storm;
	const char *option = getenv("SLUB_GROUP_OPS");
	long ops = option ? atol(option) : 60000;
	std::vector<std::thread> threads;
	size_t expected[Storm::GROUPS + 1] = {};

	for (auto &group : storm.groups)
		group = slub_group_create("storm", nullptr);
	for (int t = 0; t < Storm::THREADS; t++)
		threads.emplace_back([&, t] { storm.body(t, ops); });
	for (auto &thread : threads)
		thread.join();
	for (auto &box : storm.boxes) {
		for (int i = 0; i < box.nr; i++)
			expected[box.owners[i]] += charge_of(box.blocks[i]);
	}
	for (int i = 0; i < Storm::GROUPS; i++) {
		EXPECT_GT(expected[i], 0u);
		EXPECT_EQ(usage(storm.groups[i]), expected[i]) << i;
	}
	for (auto &box : storm.boxes) {
		while (box.nr)
			free(box.blocks[--box.nr]);
	}
	for (auto &group : storm.groups) {
		EXPECT_EQ(usage(group), 0u);
		EXPECT_EQ(slub_group_destroy(group), 0);
	}
	EXPECT_EQ(slub_cache_destroy(storm.cache), 0);
}

} /* namespace */
