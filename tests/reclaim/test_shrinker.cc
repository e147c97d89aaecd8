/* SPDX-License-Identifier: MIT */
/* Shrinkers: the arithmetic, callbacks that do what they want, and unregistering. */
#include <slub/group.h>
#include <slub/shrinker.h>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <semaphore.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "harness.h"

namespace {

using Control = slub_shrink_control;

/* A shrinker whose callbacks are given as lambdas. */
struct Shrinker : slub_shrinker {
	std::function<size_t(Control *)> on_count = [](Control *) { return 0; };
	std::function<size_t(Control *)> on_scan = [](Control *) { return SLUB_SHRINK_STOP; };

	explicit Shrinker(unsigned int flags = 0) : slub_shrinker()
	{
		name = "test";
		count = [](slub_shrinker *s, Control *c) noexcept {
			return static_cast<Shrinker *>(s)->on_count(c);
		};
		scan = [](slub_shrinker *s, Control *c) noexcept {
			return static_cast<Shrinker *>(s)->on_scan(c);
		};
		seeks = SLUB_SHRINKER_SEEKS;
		this->flags = flags;
	}
	~Shrinker() { slub_shrinker_destroy(this); }
};

/* Has objects, and gives up what it is asked for. */
struct Cache : Shrinker {
	std::atomic<size_t> objects;
	std::vector<size_t> asked;

	explicit Cache(size_t n) : objects(n)
	{
		on_count = [this](Control *) { return objects.load(); };
		on_scan = [this](Control *c) {
			size_t n = std::min(c->nr_to_scan, objects.load());

			asked.push_back(c->nr_to_scan);
			objects -= n;
			return n;
		};
	}
	size_t asked_for()
	{
		size_t sum = 0;

		for (size_t n : asked)
			sum += n;
		return sum;
	}
};

TEST(Shrinker, IsAskedForAShareThatGrowsWithPressure)
{
	struct { size_t objects; int priority; unsigned seeks; size_t asked; } rows[] = {
		/* objects >> priority * 4 / seeks, whole batches of 128 */
		{ 1 << 20, 12, 2, 512 },
		{ 1 << 20, 10, 2, 2048 },
		{ 1 << 20, 12, 8, 128 },
		{ 1 << 20, 12, 16, 0 },
		{ 100000, 6, 2, 3072 },
		{ 1 << 20, 12, 0, 512 },	/* as SLUB_SHRINKER_SEEKS */
		{ 1000, 0, SLUB_SHRINKER_SEEKS_NONE, 384 },	/* a half, but for the last batch */
		{ 100, 12, 2, 0 },
		{ 100, 0, 2, 128 },	/* fewer than a batch: all of it */
		{ 60, 1, 2, 60 },
	};

	for (auto &row : rows) {
		Cache cache(row.objects);

		cache.seeks = row.seeks;
		ASSERT_EQ(slub_shrinker_create(&cache), 0);
		size_t freed = slub_shrink(row.priority);
		EXPECT_EQ(cache.asked_for(), row.asked) << row.objects;
		EXPECT_EQ(freed, row.objects - cache.objects);
		for (size_t n : cache.asked)
			EXPECT_LE(n, 128u);
		EXPECT_EQ(slub_shrinker_destroy(&cache), 0);
	}
}

TEST(Shrinker, IsNotAskedAsTheHeapGrowsFarFromALimit)
{
	std::vector<std::unique_ptr<char[]>> blocks;
	Cache cache(1 << 20);
	ASSERT_EQ(slub_shrinker_create(&cache), 0);
	usleep(200000);	/* by SLUB_RECLAIM_RATE it could be asked */
	for (int i = 0; i < 256; i++)
		blocks.emplace_back(new char[1 << 20]);
	EXPECT_EQ(cache.objects, 1u << 20) << "memory that is there is for caches too";
}

TEST(Shrinker, WhatIsTooLittleForABatchIsOwed)
{
	Cache cache(1 << 16);

	/* 65536 >> 12 * 4 / 2 = 32 a walk: the fourth makes a batch, but only at
	 * priority 0 is the debt asked for in full. */
	slub_shrinker_create(&cache);
	for (int i = 0; i < 3; i++)
		EXPECT_EQ(slub_shrink(12), 0u);
	EXPECT_EQ(cache.deferred[0], 96);
	EXPECT_EQ(slub_shrink(12), 0u);
	EXPECT_EQ(cache.deferred[0], 128);
	slub_shrinker_destroy(&cache);
}

TEST(Shrinker, DebtIsAtMostTwiceWhatThereIs)
{
	Shrinker stubborn;
	size_t asked = 0;

	stubborn.on_count = [](Control *) { return 10000; };
	stubborn.on_scan = [&](Control *) { asked++; return SLUB_SHRINK_STOP; };
	slub_shrinker_create(&stubborn);
	for (int i = 0; i < 100; i++)
		slub_shrink(0);
	EXPECT_EQ(asked, 100u);
	EXPECT_EQ(stubborn.deferred[0], 20000);
}

/* What the last shrinker of a number was owed in a group is not the next one's. */
TEST(Shrinker, DebtsGoWithTheirShrinker)
{
	slub_group *group = slub_group_create("group", nullptr);
	Cache next(500);
	uint32_t id;

	{
		Shrinker stubborn(SLUB_SHRINKER_GROUP_AWARE);

		stubborn.on_count = [](Control *) { return 1 << 24; };
		ASSERT_EQ(slub_shrinker_create(&stubborn), 0);
		id = stubborn.id;
		slub_shrinker_mark(&stubborn, group, 0);
		for (int i = 0; i < 3; i++)
			slub_shrink(0);
	}
	next.flags = SLUB_SHRINKER_GROUP_AWARE;
	for (int i = 0; i < 100000; i++) {
		ASSERT_EQ(slub_shrinker_create(&next), 0);
		if (next.id == id)
			break;
		slub_shrinker_destroy(&next);
	}
	ASSERT_EQ(next.id, id);
	slub_shrinker_mark(&next, group, 0);
	/* 500 >> 12 of its own. */
	EXPECT_EQ(slub_shrink(12), 0u);
	EXPECT_EQ(next.objects, 500u);
	/* Its own debt is kept: 31 each time, which makes a batch of 32. */
	next.batch = 32;
	EXPECT_EQ(slub_shrink(5), 0u);
	EXPECT_EQ(slub_shrink(0), 500u);
	slub_shrinker_destroy(&next);
	slub_group_destroy(group);
}

TEST(Shrinker, TheBatchIsItsOwn)
{
	Cache cache(4096);

	cache.batch = 1000;
	slub_shrinker_create(&cache);
	slub_shrink(1);
	EXPECT_EQ(cache.asked, (std::vector<size_t>{ 1000, 1000, 1000, 1000 }));
}

TEST(Shrinker, ShrinkAllFreesAll)
{
	Cache small(10), large(1 << 20);

	slub_shrinker_create(&small);
	slub_shrinker_create(&large);
	EXPECT_GE(slub_shrink_all(), (size_t)1 << 20);
	EXPECT_EQ(small.objects, 0u);
	EXPECT_LE(large.objects, 128u);
}

TEST(Shrinker, NumaAwareIsAskedForEveryNodeThatThereIs)
{
	Shrinker aware(SLUB_SHRINKER_NUMA_AWARE), plain;
	std::vector<int> nodes, plain_nodes;

	aware.on_count = [&](Control *c) { nodes.push_back(c->node); return 0; };
	plain.on_count = [&](Control *c) { plain_nodes.push_back(c->node); return 0; };
	slub_shrinker_create(&aware);
	slub_shrinker_create(&plain);
	slub_shrink(12);
	EXPECT_GE(nodes.size(), 1u);
	EXPECT_EQ(nodes[0], 0);
	EXPECT_EQ(plain_nodes, std::vector<int>{ 0 });
}

/* ---- bitmaps ---- */

TEST(Shrinker, OnlyMarkedPairsAreAsked)
{
	Shrinker shrinker(SLUB_SHRINKER_GROUP_AWARE);
	slub_group *a = slub_group_create("a", nullptr);
	slub_group *b = slub_group_create("b", a);
	std::vector<slub_group *> asked;
	size_t answer = 1;

	shrinker.on_count = [&](Control *c) { asked.push_back(c->group); return answer; };
	slub_shrinker_create(&shrinker);
	slub_shrink(12);
	EXPECT_TRUE(asked.empty());
	EXPECT_EQ(slub_shrinker_mark(&shrinker, b, 0), 0);
	EXPECT_EQ(slub_shrinker_mark(&shrinker, nullptr, 0), 0);
	slub_shrink(12);
	EXPECT_EQ(asked, (std::vector<slub_group *>{ nullptr, b }));
	/* Empty: looked at twice, and then no more. */
	answer = SLUB_SHRINK_EMPTY;
	slub_shrink(12);
	EXPECT_EQ(asked.size(), 6u);
	slub_shrink(12);
	EXPECT_EQ(asked.size(), 6u);
	slub_shrinker_mark(&shrinker, a, 0);
	slub_shrink(12);
	EXPECT_EQ(asked.size(), 8u);
	slub_group_destroy(b);
	slub_group_destroy(a);
}

TEST(Shrinker, WhatADeletedGroupHadIsItsParents)
{
	Shrinker shrinker(SLUB_SHRINKER_GROUP_AWARE);
	slub_group *a = slub_group_create("a", nullptr);
	slub_group *b = slub_group_create("b", a);
	std::vector<slub_group *> asked;

	shrinker.on_count = [&](Control *c) { asked.push_back(c->group); return 1; };
	slub_shrinker_create(&shrinker);
	slub_shrinker_mark(&shrinker, b, 0);
	EXPECT_EQ(slub_group_destroy(b), 0);
	slub_shrink(12);
	EXPECT_EQ(asked, std::vector<slub_group *>{ a });
	slub_group_destroy(a);
}

/* The race: what is added between "nothing" and the cleared bit is found. */
TEST(Shrinker, AMarkThatRacesWithEmptyIsNotLost)
{
	Shrinker shrinker(SLUB_SHRINKER_GROUP_AWARE);
	std::atomic<long> objects{0};
	std::atomic<bool> stop{false};

	shrinker.on_count = [&](Control *) {
		long n = objects;

		if (!n)
			sched_yield();	/* now somebody adds one */
		return n ? (size_t)n : SLUB_SHRINK_EMPTY;
	};
	/* Every other time it cannot: the object must be asked for again. */
	int scans = 0;
	shrinker.on_scan = [&](Control *) {
		return scans++ % 2 ? SLUB_SHRINK_STOP : (size_t)objects.exchange(0);
	};
	slub_shrinker_create(&shrinker);
	std::thread walker([&] { while (!stop) slub_shrink(0); });
	for (int i = 0; i < 3000; i++) {
		if (objects++ == 0) {
			ASSERT_EQ(slub_shrinker_mark(&shrinker, nullptr, 0), 0);
		}
		/* A lost one stays for ever; a walker may be kept waiting, though. */
		auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
		while (objects && std::chrono::steady_clock::now() < end)
			sched_yield();
		if (objects)
			break;
	}
	stop = true;
	walker.join();
	EXPECT_EQ(objects, 0);
}

TEST(Shrinker, NineThousandShrinkersInManyGroups)
{
	constexpr int SHRINKERS = 9000, GROUPS = 30;
	std::vector<std::unique_ptr<Shrinker>> shrinkers;
	std::vector<slub_group *> groups;
	size_t asked = 0;

	for (int i = 0; i < 32; i++)
		slub_shrink(12);	/* one of 32 forgets the bits of earlier tests */
	for (int i = 0; i < GROUPS; i++)
		groups.push_back(slub_group_create("g", nullptr));
	for (int i = 0; i < SHRINKERS; i++) {
		shrinkers.emplace_back(new Shrinker(SLUB_SHRINKER_GROUP_AWARE));
		Shrinker *s = shrinkers.back().get();
		s->on_count = [&](Control *) { asked++; return SLUB_SHRINK_EMPTY; };
		ASSERT_EQ(slub_shrinker_create(s), 0);
		ASSERT_EQ(slub_shrinker_mark(s, groups[i % GROUPS], 0), 0);
	}
	slub_shrink(12);
	EXPECT_EQ(asked, 2u * SHRINKERS);
	slub_shrink(12);
	EXPECT_EQ(asked, 2u * SHRINKERS);
	shrinkers.clear();
	for (slub_group *group : groups)
		EXPECT_EQ(slub_group_destroy(group), 0);
}

/* ---- callbacks that do what they want ---- */

TEST(Shrinker, ACallbackMayRegisterAllocateAndWalk)
{
	Shrinker outer;
	auto inner = std::make_unique<Shrinker>();
	size_t nested = 1;

	outer.on_count = [&](Control *) {
		std::vector<int> memory(10000, 1);

		slub_shrinker_create(inner.get());
		nested = slub_shrink(0) + slub_shrink_all();
		EXPECT_EQ(slub_shrinker_destroy(inner.get()), 0);
		return 0;
	};
	slub_shrinker_create(&outer);
	slub_shrink(0);
	EXPECT_EQ(nested, 0u);
}

TEST(Shrinker, ACallbackMayUnregisterAndFreeItself)
{
	for (bool in_scan : { false, true }) {
		auto *shrinker = new Shrinker;
		auto go = [&, in_scan](bool here) {
			if (here != in_scan)
				return (size_t)1000;
			auto alive = std::move(shrinker->on_count);
			auto alive_too = std::move(shrinker->on_scan);
			EXPECT_EQ(slub_shrinker_destroy(shrinker), 0);
			memset((void *)shrinker, 0x6b, sizeof(slub_shrinker));
			operator delete(shrinker);
			shrinker = nullptr;
			return (size_t)1000;
		};
		shrinker->on_count = [&](Control *) { return go(false); };
		shrinker->on_scan = [&](Control *) { return go(true); };
		slub_shrinker_create(shrinker);
		slub_shrink(0);
		EXPECT_EQ(shrinker, nullptr);
		slub_shrink(0);
	}
}

TEST(Shrinker, LiesAreBounded)
{
	Shrinker liar;
	size_t scans = 0;

	/* Endless objects, never looked at any, frees more than asked. */
	liar.on_count = [](Control *) { return SLUB_SHRINK_EMPTY - 1; };
	liar.on_scan = [&](Control *c) {
		scans++;
		c->nr_scanned = 0;
		return (size_t)1 << 62;
	};
	slub_shrinker_create(&liar);
	slub_shrink(0);
	EXPECT_EQ(scans, 4096u);
	EXPECT_EQ(liar.cut_short, 1u);
	EXPECT_LE(liar.deferred[0], (int64_t)1 << 49);
	/* Ten passes for ever full hands. */
	slub_shrink_all();
	EXPECT_LE(scans, 11 * 4096u);
	/* Says that it looked at more than there is. */
	liar.on_count = [](Control *) { return 1000; };
	liar.on_scan = [](Control *c) { c->nr_scanned = ~(size_t)0; return 0; };
	slub_shrink(0);
}

TEST(Shrinker, BadRequestsAreRefused)
{
	Shrinker shrinker, half;

	EXPECT_EQ(slub_shrinker_create(nullptr), -EINVAL);
	half.count = nullptr;
	EXPECT_EQ(slub_shrinker_create(&half), -EINVAL);
	half.flags = 1 << 9;
	EXPECT_EQ(slub_shrinker_create(&half), -EINVAL);
	EXPECT_EQ(slub_shrinker_destroy(&half), -EINVAL);
	EXPECT_EQ(slub_shrinker_destroy(nullptr), -EINVAL);
	ASSERT_EQ(slub_shrinker_create(&shrinker), 0);
	EXPECT_EQ(slub_shrinker_create(&shrinker), -EEXIST);
	EXPECT_EQ(slub_shrinker_mark(&shrinker, nullptr, 0), -EINVAL);
	EXPECT_EQ(slub_shrinker_destroy(&shrinker), 0);
	EXPECT_EQ(slub_shrinker_destroy(&shrinker), -EINVAL);
	Shrinker aware(SLUB_SHRINKER_GROUP_AWARE);
	EXPECT_EQ(slub_shrinker_mark(&aware, nullptr, 0), -EINVAL);
	slub_shrinker_create(&aware);
	EXPECT_EQ(slub_shrinker_mark(&aware, nullptr, 1), -EINVAL);
	EXPECT_EQ(slub_shrinker_mark(&aware, nullptr, -1), -EINVAL);
	EXPECT_EQ(slub_shrinker_mark(&aware, (slub_group *)&shrinker, 0), -EINVAL);
	slub_shrink(-5);
	slub_shrink(500);
}

TEST(Shrinker, SixtyFiveThousandAreAllThereCanBe)
{
	std::vector<std::unique_ptr<Shrinker>> all;
	int err = 0;

	while (!err && all.size() < 70000) {
		all.emplace_back(new Shrinker);
		err = slub_shrinker_create(all.back().get());
	}
	EXPECT_EQ(err, -ENOSPC);
	EXPECT_EQ(all.size(), 65536u);
	slub_shrink(12);
}

/* ---- unregistering while somebody walks ---- */

/* A callback that waits for a word from outside. */
struct Gate : Shrinker {
	std::atomic<int> inside{0};
	std::atomic<bool> open{false};

	Gate()
	{
		on_count = [this](Control *) {
			inside++;
			while (!open)
				usleep(100);
			inside--;
			return 0;
		};
	}
};

TEST(Shrinker, UnregisterDoesNotWaitForTheCallbackOfAnother)
{
	Gate gate;
	Shrinker other;

	slub_shrinker_create(&gate);
	slub_shrinker_create(&other);
	std::thread walker([] { slub_shrink(12); });
	while (!gate.inside)
		usleep(100);
	/* It would wait for ever. */
	for (int i = 0; i < 1000; i++) {
		EXPECT_EQ(slub_shrinker_destroy(&other), 0);
		EXPECT_EQ(slub_shrinker_create(&other), 0);
	}
	EXPECT_EQ(gate.inside, 1);
	gate.open = true;
	walker.join();
}

TEST(Shrinker, UnregisterWaitsForItsOwnCallback)
{
	Gate gate;
	std::atomic<bool> done{false};

	slub_shrinker_create(&gate);
	std::thread walker([] { slub_shrink(12); });
	std::thread second([] { slub_shrink(12); });
	while (gate.inside < 2)
		usleep(100);
	uint32_t registered = __atomic_load_n(&gate.state, __ATOMIC_ACQUIRE);
	std::thread leaver([&] {
		EXPECT_EQ(slub_shrinker_destroy(&gate), 0);
		EXPECT_EQ(gate.inside, 0);
		done = true;
	});
	/* Else the second call below would be the first. */
	while (__atomic_load_n(&gate.state, __ATOMIC_ACQUIRE) == registered)
		usleep(100);
	usleep(20000);
	EXPECT_FALSE(done);
	EXPECT_EQ(slub_shrinker_destroy(&gate), -EINVAL);
	gate.open = true;
	leaver.join();
	walker.join();
	second.join();
}

TEST(Shrinker, TwoCallbacksThatUnregisterEachOtherAreTold)
{
	Shrinker a, b;
	std::atomic<int> inside{0}, deadlocks{0}, good{0};
	auto meet = [&](Shrinker *other) {
		inside++;
		while (inside < 2)
			usleep(100);
		int err = slub_shrinker_destroy(other);
		(err == -EDEADLK ? deadlocks : good)++;
		EXPECT_TRUE(err == 0 || err == -EDEADLK);
		return 0;
	};

	a.on_count = [&](Control *) { return meet(&b); };
	slub_shrinker_create(&a);
	std::thread first([] { slub_shrink(12); });
	while (inside < 1)
		usleep(100);
	/* The second walk must get to b, not to a. */
	b.on_count = [&](Control *) { return meet(&a); };
	a.on_count = [](Control *) { return 0; };
	slub_shrinker_create(&b);
	std::thread second([] { slub_shrink(12); });
	first.join();
	second.join();
	EXPECT_GE(deadlocks, 1);
	EXPECT_EQ(deadlocks + good, 2);
	/* Asked no more; from outside it can be finished. */
	slub_shrinker_destroy(&a);
	slub_shrinker_destroy(&b);
	EXPECT_EQ(slub_shrinker_create(&a), 0);
	EXPECT_EQ(slub_shrinker_create(&b), 0);
}

/* Registering, marking, unregistering, poisoning and freeing while others walk. */
TEST(Shrinker, StormDuringWalks)
{
	const char *cycles = getenv("SLUB_STORM_CYCLES");
	long wanted = cycles ? atol(cycles) : 40000;
	std::atomic<bool> stop{false};
	std::atomic<long> calls{0}, wrong{0};
	std::vector<std::thread> walkers, stormers;

	for (int i = 0; i < 3; i++)
		walkers.emplace_back([&] { while (!stop) slub_shrink(12); });
	for (int t = 0; t < 2; t++) {
		stormers.emplace_back([&, t] {
			slub_group *group = slub_group_create("storm", nullptr);

			/* On busy CPUs walkers may come late: until they have seen something. */
			for (long i = 0; i < wanted / 2 || (!calls && i < 1000 * wanted); i++) {
				bool aware = i % 2;
				auto *s = new Shrinker(aware ? SLUB_SHRINKER_GROUP_AWARE : 0);
				std::unique_ptr<std::atomic<long>> life(new std::atomic<long>(42));
				std::atomic<long> *word = life.get();

				s->on_count = [&calls, &wrong, word](Control *) {
					calls++;
					wrong += *word != 42;
					return 1;
				};
				slub_shrinker_create(s);
				if (aware)
					slub_shrinker_mark(s, t ? group : nullptr, 0);
				if (i % 64 == 0)
					sched_yield();
				slub_shrinker_destroy(s);
				*word = 0;
				delete s;
			}
			slub_group_destroy(group);
		});
	}
	for (auto &thread : stormers)
		thread.join();
	stop = true;
	for (auto &thread : walkers)
		thread.join();
	EXPECT_EQ(wrong, 0);
	EXPECT_GT(calls, 0);
}

TEST(Shrinker, AChildIsNotInsideTheCallbacksOfItsParent)
{
	Gate gate;

	slub_shrinker_create(&gate);
	std::thread walker([] { slub_shrink(12); });
	while (!gate.inside)
		usleep(100);
	EXPECT_EQ(harness::in_child([&] {
		_exit(slub_shrinker_destroy(&gate) ? 1 : 0);
	}), 0);
	gate.open = true;
	walker.join();
}

} /* namespace */
