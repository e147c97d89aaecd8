/* SPDX-License-Identifier: MIT */
/* Groups that take turns: blocks that one frees are the next one's, run by run, to the byte. */
#include <atomic>
#include <cstdlib>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "account.h"

namespace {

using Turns = Account;

struct Blocks {
	std::vector<void *> all;
	size_t charged = 0;

	/* The list itself is not to be charged. */
	Blocks() { all.reserve(128); }
	void take(size_t bytes, size_t nr)
	{
		for (size_t i = 0; i < nr; i++) {
			void *block = malloc(harness::opaque(bytes));

			ASSERT_NE(block, nullptr);
			all.push_back(block);
			charged += charge_of(block);
		}
	}
	void release()
	{
		for (void *block : all)
			free(block);
		all.clear();
		charged = 0;
	}
};

/* What changes hands is right while the thread is still inside, and after it has left. */
TEST_F(Turns, ARunOfAnothersBlocksChangesHands)
{
	slub_group *parent = slub_group_create("parent", nullptr);
	slub_group *other = slub_group_create("other", parent);

	for (size_t bytes : { (size_t)64, (size_t)1000, (size_t)8192 }) {
		Blocks first, second;

		{
			Inside inside(group);
			first.take(bytes, 64);
		}
		first.release();
		{
			Inside inside(other);
			second.take(bytes, 40);
			EXPECT_EQ(usage(other), second.charged);
			EXPECT_EQ(usage(parent), second.charged);
			EXPECT_EQ(usage(group), 0u);
			second.take(bytes, 40);
		}
		EXPECT_EQ(usage(other), second.charged);
		EXPECT_EQ(usage(parent), second.charged);
		EXPECT_EQ(usage(group), 0u);
		second.release();
	}
	EXPECT_EQ(usage(parent), 0u);
	EXPECT_EQ(slub_group_destroy(other), 0);
	EXPECT_EQ(slub_group_destroy(parent), 0);
}

/*
 * Who is in no group takes what the group has freed past its charge, also a thread's first block,
 * which no fast path serves.
 */
TEST_F(Turns, WhoIsInNoGroupIsChargedNothing)
{
	for (size_t bytes : { (size_t)64, (size_t)1000, (size_t)8192 }) {
		Blocks first, mine;
		std::atomic<bool> go(false);
		/* Made out here, and with a list made out here. */
		std::thread thread([&] {
			while (!go)
				std::this_thread::yield();
			mine.take(bytes, 100);
		});

		{
			Inside inside(group);
			first.take(bytes, 100);
			first.release();
		}
		go = true;
		thread.join();
		EXPECT_EQ(usage(group), 0u);
		mine.release();
		{
			Inside inside(group);
			first.take(bytes, 100);
		}
		EXPECT_EQ(usage(group), first.charged);
		first.release();
		mine.take(bytes, 100);
		EXPECT_EQ(usage(group), 0u);
		mine.release();
	}
}

/* Chains go from list to barn and slab and back; what finds a list full or dry is charged once. */
TEST_F(Turns, ListsThatRunFullAndDry)
{
	slub_group *other = slub_group_create("other", nullptr);

	for (size_t bytes : { (size_t)48, (size_t)3000, (size_t)8192, (size_t)32768 }) {
		Blocks first, second;

		first.all.reserve(3000);
		second.all.reserve(3000);
		for (int round = 0; round < 3; round++) {
			Inside inside(group);

			first.take(bytes, 700);
			for (size_t i = 0; i < 500; i++) {
				free(first.all.back());
				first.all.pop_back();
			}
			Inside deeper(other);
			second.take(bytes, 300);
		}
		EXPECT_EQ(usage(other), second.charged);
		EXPECT_EQ(usage(group), first.charged / 7 * 2);
		{
			Inside inside(other);
			first.release();
		}
		EXPECT_EQ(usage(group), 0u);
		EXPECT_EQ(usage(other), second.charged);
		second.release();
		EXPECT_EQ(usage(other), 0u);
	}
	EXPECT_EQ(slub_group_destroy(other), 0);
}

/* What lies in stocks of a hundred groups does not count against the maximum of the one above. */
TEST_F(Turns, WhatManyHaveInStockOneMayUse)
{
	constexpr size_t MAX = 1000000, BYTES = 1000;
	slub_group *parent = slub_group_create("parent", nullptr);
	std::vector<slub_group *> children;
	std::vector<void *> blocks;
	size_t charged = 0;

	blocks.reserve(MAX / BYTES + 1);
	for (int i = 0; i < 100; i++) {
		children.push_back(slub_group_create("child", parent));
		Inside inside(children[i]);
		free(malloc(harness::opaque((size_t)64)));
	}
	ASSERT_EQ(slub_group_limit_set(parent, SLUB_GROUP_MAX, MAX), 0);
	{
		Inside inside(children[0]);
		while (void *block = malloc(harness::opaque(BYTES))) {
			blocks.push_back(block);
			charged += charge_of(block);
		}
	}
	EXPECT_EQ(usage(parent), charged);
	EXPECT_LE(charged, MAX);
	ASSERT_FALSE(blocks.empty());
	EXPECT_GT(charged + charge_of(blocks[0]), MAX);
	for (void *block : blocks)
		free(block);
	EXPECT_EQ(usage(parent), 0u);
	for (slub_group *child : children)
		EXPECT_EQ(slub_group_destroy(child), 0);
	EXPECT_EQ(slub_group_destroy(parent), 0);
}

/* What a thread is about to give back to a group does not count against its maximum. */
TEST_F(Turns, WhatIsNotYetGivenBackMayBeUsed)
{
	constexpr size_t NR = 64, BYTES = 64;
	slub_group *other = slub_group_create("other", nullptr);
	Blocks first, second, third;

	ASSERT_EQ(slub_group_limit_set(group, SLUB_GROUP_MAX, NR * BYTES), 0);
	{
		Inside inside(group);
		first.take(BYTES, NR);
	}
	first.release();
	/* Made out here: what a thread is made of would be charged too. */
	std::atomic<bool> go(false), done(false);
	std::thread thread([&] {
		while (!go)
			std::this_thread::yield();
		{
			Inside theirs(group);

			third.take(BYTES, NR);
			EXPECT_EQ(malloc(harness::opaque(BYTES)), nullptr);
		}
		done = true;
	});
	{
		Inside inside(other);
		second.take(BYTES, NR);
		go = true;
		while (!done)
			std::this_thread::yield();
	}
	thread.join();
	EXPECT_EQ(usage(group), third.charged);
	EXPECT_EQ(usage(other), second.charged);
	second.release();
	third.release();
	EXPECT_EQ(slub_group_destroy(other), 0);
}

/* A group that is deleted meanwhile leaves its parent nothing. */
TEST_F(Turns, AGroupMayGoBeforeItIsGivenBack)
{
	slub_group *child = slub_group_create("child", group);
	slub_group *other = slub_group_create("other", nullptr);
	Blocks first, second;

	{
		Inside inside(child);
		first.take(64, 64);
	}
	first.release();
	{
		Inside inside(other);
		second.take(64, 32);
		EXPECT_EQ(slub_group_destroy(child), 0);
		EXPECT_EQ(usage(group), 0u);
		second.take(64, 32);
	}
	EXPECT_EQ(usage(group), 0u);
	EXPECT_EQ(usage(other), second.charged);
	second.release();
	EXPECT_EQ(slub_group_destroy(other), 0);
}

/* Requests for any of many groups, freed whenever their turn comes, beside another such thread. */
using Request = std::pair<slub_group *, Blocks>;

void serve(const std::vector<slub_group *> &groups, uint32_t seed, std::vector<Request> &backlog)
{
	std::mt19937 random(seed);

	for (size_t i = 0; i < 3000; i++) {
		auto &[owner, blocks] = backlog[i % backlog.size()];

		blocks.release();
		owner = groups[random() % groups.size()];
		Inside inside(owner);
		blocks.take(16 << random() % 10, random() % 32);
	}
}

TEST_F(Turns, RequestsForManyGroups)
{
	std::vector<slub_group *> groups(300);
	std::vector<Request> first(100), second(100);
	std::map<slub_group *, size_t> left;
	size_t all = 0;

	for (auto &one : groups)
		one = slub_group_create("tenant", group);
	std::thread thread([&] { serve(groups, 1, first); });
	serve(groups, 2, second);
	thread.join();
	for (auto *backlog : { &first, &second }) {
		for (auto &[owner, blocks] : *backlog) {
			left[owner] += blocks.charged;
			all += blocks.charged;
		}
	}
	for (auto one : groups)
		EXPECT_EQ(usage(one), left[one]);
	EXPECT_EQ(usage(group), all);
	for (auto *backlog : { &first, &second }) {
		for (auto &request : *backlog)
			request.second.release();
	}
	for (auto one : groups) {
		EXPECT_EQ(usage(one), 0u);
		EXPECT_EQ(slub_group_destroy(one), 0);
	}
}

/*
 * Each report empties the lists of all CPUs, and takes into its hands what threads of other groups
 * freed.  Theirs wait for it.
 */
TEST(Reports, AreExactWhileOthersEmptyTheLists)
{
	std::vector<std::thread> threads;
	std::atomic<int> wrong{0};

	for (int t = 0; t < 4; t++) {
		threads.emplace_back([&] {
			slub_group *own = slub_group_create("own", nullptr);

			for (int round = 0; round < 2000; round++) {
				Blocks blocks;

				{
					Inside inside(own);
					blocks.take(200, 120);
				}
				wrong += usage(own) != blocks.charged;
				blocks.release();
				wrong += usage(own) != 0;
			}
			EXPECT_EQ(slub_group_destroy(own), 0);
		});
	}
	for (std::thread &thread : threads)
		thread.join();
	EXPECT_EQ(wrong, 0);
}

}
