/* SPDX-License-Identifier: MIT */
/* Moving objects: sparse slabs are emptied, whatever the program's functions do meanwhile. */
#include <slub/defrag.h>
#include <slub/rcu.h>

#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <sched.h>
#include <set>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include "harness.h"
#include "movable.h"

namespace {

TEST(Defrag, ACacheATenthFullShrinksToItsObjects)
{
	Table t("tenth");

	t.fill(200000, 10);
	slub_cache_shrink(t.cache);
	EXPECT_GT(t.slab_bytes(), 5 * t.live_bytes());
	EXPECT_GT(slub_cache_defrag(t.cache, 100), 0);
	EXPECT_LE(t.slab_bytes() * 10, t.live_bytes() * 13);
	t.check();
	EXPECT_GT(stats_of(t.cache).objects_moved, 15000u);
	EXPECT_LE(t.most_at_once, (size_t)SLUB_ISOLATE_MAX);
	/* There is nothing more to gain: it knows, and moves next to nothing. */
	size_t moved = stats_of(t.cache).objects_moved;
	slub_cache_defrag(t.cache, 100);
	EXPECT_LT(stats_of(t.cache).objects_moved - moved, 600u);
	t.check();
}

TEST(Defrag, WhatBecameFreeIsNotResidentAnyMore)
{
	Table t("resident");

	t.fill(400000, 10);
	slub_cache_shrink(t.cache);
	size_t before = harness::resident_bytes();
	slub_cache_defrag(t.cache, 100);
	/* 80 MB of objects were, 8 are: at least the half of the difference. */
	EXPECT_LT(harness::resident_bytes() + ((size_t)36 << 20), before);
	t.check();
}

TEST(Defrag, AllCachesAtOnce)
{
	Table a("all-a"), b("all-b");

	a.fill(50000, 10);
	b.fill(50000, 20);
	EXPECT_GT(slub_defrag_all(100), 0);
	EXPECT_LE(a.slab_bytes() * 10, a.live_bytes() * 13);
	EXPECT_LE(b.slab_bytes() * 10, b.live_bytes() * 14);
	a.check();
	b.check();
}

/* Keeps the thread where it is: each CPU that it comes to leaves a slab half carved. */
class OnOneCpu {
public:
	OnOneCpu()
	{
		cpu_set_t one;

		CPU_ZERO(&one);
		CPU_SET(sched_getcpu(), &one);
		sched_getaffinity(0, sizeof(before_), &before_);
		sched_setaffinity(0, sizeof(one), &one);
	}
	~OnOneCpu()
	{
		sched_setaffinity(0, sizeof(before_), &before_);
	}

private:
	cpu_set_t before_;
};

TEST(Defrag, FullerSlabsAreLeftAlone)
{
	OnOneCpu stays;
	Table t("fuller");

	t.fill(50000, 2);
	EXPECT_EQ(slub_cache_defrag(t.cache, 30), 0);
	EXPECT_EQ(t.migrated, 0u);
	EXPECT_GT(slub_cache_defrag(t.cache, 60), 0);
	EXPECT_LE(t.slab_bytes() * 10, t.live_bytes() * 13);
	t.check();
}

TEST(Defrag, WhatIsRefusedStays)
{
	Table t("refused");

	t.fill(50000, 10);
	t.on_migrate = [&](void *from, void *to) {
		return static_cast<Object *>(from)->number % 20 ? t.move(from, to) :
								  SLUB_MIGRATE_FAILED;
	};
	slub_cache_defrag(t.cache, 100);
	t.check();
	EXPECT_GT(stats_of(t.cache).objects_stayed, 1000u);
	EXPECT_EQ(t.isolated, t.migrated);
	/* Nothing was lost on the way: with consent it comes together. */
	t.on_migrate = [&](void *from, void *to) { return t.move(from, to); };
	slub_cache_defrag(t.cache, 100);
	EXPECT_LE(t.slab_bytes() * 10, t.live_bytes() * 13);
	t.check();
}

TEST(Defrag, IsolateMayRefuseAll)
{
	Table t("refuses-all");

	t.fill(20000, 10);
	t.on_isolate = [&](void **objects, size_t n) {
		for (size_t i = 0; i < n; i++)
			objects[i] = nullptr;
		t.pinned = 0;
	};
	EXPECT_EQ(slub_cache_defrag(t.cache, 100), 0);
	EXPECT_EQ(t.migrated, 0u);
	t.check();
}

TEST(Defrag, PointersThatWereNotAskedForAreNotMoved)
{
	Table t("pointers");

	t.fill(20000, 10);
	t.on_isolate = [&](void **objects, size_t n) {
		for (size_t i = 0; i < n; i++)
			objects[i] = reinterpret_cast<void *>(0x1234);
		t.pinned = 0;
	};
	EXPECT_EQ(slub_cache_defrag(t.cache, 100), 0);
	EXPECT_EQ(t.migrated, 0u);
	t.check();
}

TEST(Defrag, AFunctionThatFreesItselfIsNoticed)
{
	Table t("frees");
	size_t lied = 0;

	t.fill(20000, 10);
	t.on_migrate = [&](void *from, void *to) {
		int result = t.move(from, to);

		if (t.migrated % 7 == 0) {
			slub_cache_free(t.cache, from);
			lied++;
		}
		return result;
	};
	slub_cache_defrag(t.cache, 100);
	t.check();
	EXPECT_GT(lied, 100u);
	EXPECT_EQ(stats_of(t.cache).double_free, lied);
}

TEST(Defrag, MayBeFreedLater)
{
	Table t("later");

	t.fill(20000, 10);
	t.on_migrate = [&](void *from, void *to) {
		t.move(from, to);
		slub_free_deferred(from);
		return SLUB_MIGRATED_FREE_LATER;
	};
	slub_cache_defrag(t.cache, 100);
	slub_deferred_barrier();
	slub_cache_shrink(t.cache);
	EXPECT_LE(t.slab_bytes() * 10, t.live_bytes() * 13);
	t.check();
}

TEST(Defrag, FunctionsMayAllocateSleepAndAskAgain)
{
	Table t("sleeps");
	std::vector<void *> more;

	t.fill(20000, 10);
	t.on_migrate = [&](void *from, void *to) {
		if (t.migrated % 500 == 0)
			usleep(1000);
		more.push_back(slub_cache_alloc(t.cache));
		EXPECT_EQ(slub_cache_defrag(t.cache, 100), -EDEADLK);
		EXPECT_EQ(slub_defrag_all(100), -EDEADLK);
		EXPECT_EQ(slub_cache_destroy(t.cache), -EDEADLK);
		EXPECT_EQ(slub_cache_setup_mobility(t.cache, nullptr, nullptr, nullptr), -EDEADLK);
		return t.move(from, to);
	};
	EXPECT_GT(slub_cache_defrag(t.cache, 100), 0);
	t.check();
	for (void *o : more)
		slub_cache_free(t.cache, o);
}

TEST(Defrag, OthersAllocateAndFreeMeanwhile)
{
	Table t("busy");
	std::atomic<bool> stop{ false };
	std::vector<std::thread> threads;

	t.fill(50000, 10);
	for (int i = 0; i < 3; i++)
		threads.emplace_back([&, i] {
			harness::Random random(i + 1);

			while (!stop) {
				if (random.below(2)) {
					t.add();
					continue;
				}
				size_t n;
				{
					std::lock_guard<std::mutex> hold(t.lock);
					n = random.below(t.places.size());
				}
				t.drop(n);
			}
		});
	/* Two at once: each isolates slabs of its own. */
	std::thread second([&] {
		for (int i = 0; i < 100; i++) {
			EXPECT_GE(slub_cache_defrag(t.cache, 100), 0);
			slub_cache_shrink(t.cache);
		}
	});
	for (int i = 0; i < 100; i++)
		EXPECT_GE(slub_cache_defrag(t.cache, 60), 0);
	stop = true;
	for (std::thread &thread : threads)
		thread.join();
	second.join();
	t.check();
	slub_cache_shrink(t.cache);
	slub_cache_defrag(t.cache, 100);
	EXPECT_LE(t.slab_bytes() * 10, t.live_bytes() * 13 + 10 * 65536);
	t.check();
}

TEST(Defrag, DestroyWaitsForTheBatch)
{
	auto t = std::make_unique<Table>("destroyed");
	std::atomic<bool> inside{ false }, left{ false };
	long result = 1;

	t->fill(20000, 10);
	t->on_migrate = [&](void *from, void *to) {
		if (!inside.exchange(true))
			usleep(50000);
		int moved = t->move(from, to);
		left = t->pinned == 1;
		return moved;
	};
	std::thread mover([&] { result = slub_cache_defrag(t->cache, 100); });
	while (!inside)
		usleep(100);
	/* Objects are left: refused, but not before the mover has stopped. */
	EXPECT_EQ(slub_cache_destroy(t->cache), -EBUSY);
	EXPECT_TRUE(left);
	mover.join();
	EXPECT_GE(result, 0);
	t->check();
	t.reset();	/* and this destroys it */
}

TEST(Defrag, BadInputIsRefused)
{
	slub_cache *cache = slub_cache_create("plain", 100, 0, 0, nullptr);

	EXPECT_EQ(slub_cache_defrag(cache, 100), -EOPNOTSUPP);
	EXPECT_EQ(slub_cache_defrag(cache, 101), -EINVAL);
	EXPECT_EQ(slub_cache_defrag(nullptr, 100), -EINVAL);
	EXPECT_EQ(slub_defrag_all(101), -EINVAL);
	EXPECT_EQ(slub_cache_setup_mobility(nullptr, Table::isolate, Table::migrate, nullptr),
		  -EINVAL);
	EXPECT_EQ(slub_cache_setup_mobility(cache, Table::isolate, nullptr, nullptr), -EINVAL);
	EXPECT_EQ(slub_cache_setup_mobility(slub_cache_of(malloc(100)), Table::isolate,
					    Table::migrate, nullptr),
		  -EINVAL);
	EXPECT_EQ(slub_cache_setup_mobility(cache, Table::isolate, Table::migrate, nullptr), 0);
	EXPECT_EQ(slub_cache_defrag(cache, 100), 0);
	EXPECT_EQ(slub_cache_setup_mobility(cache, nullptr, nullptr, nullptr), 0);
	EXPECT_EQ(slub_cache_defrag(cache, 100), -EOPNOTSUPP);
	EXPECT_EQ(slub_cache_destroy(cache), 0);
	EXPECT_EQ(slub_cache_defrag(cache, 100), -EINVAL);
	EXPECT_EQ(slub_cache_destroy(cache), -EINVAL);
}

TEST(Defrag, AForkedChildHasItsSlabs)
{
	Table t("forked");
	std::atomic<bool> inside{ false }, go_on{ false };

	t.fill(20000, 10);
	t.on_migrate = [&](void *from, void *to) {
		inside = true;
		while (!go_on)
			usleep(100);
		return t.move(from, to);
	};
	std::thread mover([&] { slub_cache_defrag(t.cache, 100); });
	while (!inside)
		usleep(100);
	int status = harness::in_child([&] {
		/* The mover did not come along, nor did what it had isolated stay so. */
		for (Object *o : t.places) {
			if (o)
				slub_cache_free(t.cache, o);
		}
		slub_cache_shrink(t.cache);
		/* What it had in hand as new places is lost, on a slab or two. */
		_exit(t.slab_bytes() < 4 * 65536 ? 0 : 1);
	});
	go_on = true;
	mover.join();
	EXPECT_EQ(harness::describe_status(status), "exit 0");
	t.check();
}

/* ---- what need not move ---- */

TEST(Trim, FreeObjectsOfAPageAndMoreAreNotResident)
{
	for (size_t size : { 6000u, 12000u, 28000u }) {
		std::vector<char *> all((64u << 20) / size);
		size_t before, after;

		for (char *&p : all)
			p = static_cast<char *>(memset(malloc(size), 1, size));
		before = harness::resident_bytes();
		for (size_t i = 0; i < all.size(); i++) {
			if (i % 10) {
				free(all[i]);
				all[i] = nullptr;
			}
		}
		malloc_trim(0);
		after = harness::resident_bytes();
		/* 64 MiB were; a tenth is needed, and the ends of the other objects. */
		EXPECT_LT(after + ((size_t)20 << 20), before) << size;
		for (size_t i = 0; i < all.size(); i += 10) {
			for (size_t at = 0; at < size; at++)
				ASSERT_EQ(all[i][at], 1);
		}
		/* And they can be had again. */
		for (char *&p : all) {
			if (!p)
				p = static_cast<char *>(malloc(size));
			memset(p, 2, size);
		}
		for (char *p : all)
			free(p);
	}
}

/* ---- moving one's own ---- */

TEST(Move, ObjectsOfMallocComeTogether)
{
	std::vector<uint64_t *> all(200000);
	const size_t size = 208;
	size_t sparse = 0, moved = 0;

	for (size_t i = 0; i < all.size(); i++) {
		all[i] = static_cast<uint64_t *>(malloc(size));
		all[i][0] = i;
		all[i][size / 8 - 1] = ~i;
	}
	for (size_t i = 0; i < all.size(); i++) {
		if (i % 10) {
			free(all[i]);
			all[i] = nullptr;
		}
	}
	slub_shrink_all();	/* what lies in lists is not to be seen as used */
	size_t before = stats_of(slub_cache_of(all[0])).slabs;
	for (uint64_t *&p : all) {
		if (!p || !slub_object_is_sparse(p))
			continue;
		sparse++;
		void *to = slub_object_move(p);
		if (to) {
			p = static_cast<uint64_t *>(to);
			moved++;
		}
	}
	slub_shrink_all();
	size_t after = stats_of(slub_cache_of(all[0])).slabs;
	EXPECT_GT(sparse, all.size() / 20);
	EXPECT_GT(moved * 10, sparse * 8);
	EXPECT_LT(after * 5, before);
	for (size_t i = 0; i < all.size(); i += 10) {
		ASSERT_EQ(all[i][0], i);
		ASSERT_EQ(all[i][size / 8 - 1], ~i);
		free(all[i]);
	}
}

/* Asks for each of @all once, as a program that walks through its tables. */
size_t move_once(std::vector<uint64_t *> &all)
{
	size_t moved = 0;

	for (uint64_t *&p : all) {
		void *to = p && slub_object_is_sparse(p) ? slub_object_move(p) : nullptr;

		moved += to != nullptr;
		if (to)
			p = static_cast<uint64_t *>(to);
	}
	return moved;
}

/* Frees one in @share, in random order; returns how many stay. */
size_t free_some(std::vector<uint64_t *> &all, uint32_t share)
{
	harness::Random random(share);
	size_t nr = all.size() / share;

	for (size_t n = 0; n < nr;) {
		uint64_t *&p = all[random.below(static_cast<uint32_t>(all.size()))];

		n += p != nullptr;
		free(p);
		p = nullptr;
	}
	return all.size() - nr;
}

/* @empties: what was freed does not lie in lists of the CPU, where it may keep slabs. */
void come_together(uint32_t share, bool empties)
{
	std::vector<uint64_t *> all(200000);
	size_t moved = 1, nr_live;

	for (size_t i = 0; i < all.size(); i++) {
		all[i] = static_cast<uint64_t *>(malloc(208));
		all[i][0] = all[i][25] = i;
	}
	slub_cache *cache = slub_cache_of(all[0]);
	nr_live = free_some(all, share);
	if (empties)
		slub_shrink_all();
	for (int round = 0; round < 50 && moved; round++)
		moved = move_once(all);
	EXPECT_EQ(moved, 0u) << "moving does not come to an end";
	slub_shrink_all();
	if (empties) {
		EXPECT_LT(stats_of(cache).objects, nr_live + nr_live / 32) << share;
	}
	for (size_t i = 0; i < all.size(); i++) {
		ASSERT_TRUE(!all[i] || (all[i][0] == i && all[i][25] == i));
		free(all[i]);
	}
}

TEST(Move, SlabsThatLostATenthOrAThirdComeTogetherToo)
{
	for (uint32_t share : { 10u, 3u, 2u }) {
		come_together(share, true);
		come_together(share, false);
	}
}

TEST(Move, WhatIsNoSlabsIsNotSparse)
{
	int local = 0;
	void *large = malloc(1 << 20);

	EXPECT_FALSE(slub_object_is_sparse(nullptr));
	EXPECT_FALSE(slub_object_is_sparse(&local));
	EXPECT_FALSE(slub_object_is_sparse(large));
	EXPECT_EQ(slub_object_move(nullptr), nullptr);
	EXPECT_EQ(slub_object_move(&local), nullptr);
	EXPECT_EQ(slub_object_move(large), nullptr);
	free(large);
}

/* Fills @mine, frees nine in ten, and moves what is left. */
size_t fill_and_move(std::vector<uint64_t *> &mine, harness::Random &random)
{
	size_t moved = 0;

	for (size_t i = 0; i < mine.size(); i++) {
		if (!mine[i])
			mine[i] = static_cast<uint64_t *>(malloc(320));
		mine[i][0] = mine[i][39] = i;
	}
	for (uint64_t *&p : mine) {
		if (random.below(10)) {
			free(p);
			p = nullptr;
		}
	}
	slub_shrink_all();
	for (size_t i = 0; i < mine.size(); i++) {
		void *to = slub_object_move(mine[i]);

		moved += to != nullptr;
		if (to)
			mine[i] = static_cast<uint64_t *>(to);
		EXPECT_TRUE(!mine[i] || (mine[i][0] == i && mine[i][39] == i));
	}
	return moved;
}

TEST(Move, ThreadsMoveTheirOwn)
{
	std::vector<std::thread> threads;
	std::atomic<size_t> moved{ 0 };

	for (int i = 0; i < 4; i++)
		threads.emplace_back([&moved, i] {
			harness::Random random(i + 1);
			std::vector<uint64_t *> mine(10000);

			for (int round = 0; round < 20; round++)
				moved += fill_and_move(mine, random);
			for (uint64_t *p : mine)
				free(p);
		});
	for (std::thread &thread : threads)
		thread.join();
	EXPECT_GT(moved, 1000u);
}

} /* namespace */
