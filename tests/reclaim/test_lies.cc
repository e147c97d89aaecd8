/* SPDX-License-Identifier: MIT */
/*
 * Groups that are asked for what cannot be, handlers that lie, and functions that move objects and
 * do not do what they say: an error code, nothing lost.
 */
#include <slub/defrag.h>
#include <slub/group.h>

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <sched.h>
#include <set>
#include <thread>
#include <vector>

#include "harness.h"

namespace {

struct slub_group_stats stats_of(slub_group *group)
{
	struct slub_group_stats stats = {};

	EXPECT_EQ(slub_group_stats(group, &stats), 0);
	return stats;
}

/* ---- limits ---- */

TEST(GroupLies, LimitsBelowUsage)
{
	slub_group *group = slub_group_create("limits", nullptr), *root = slub_group_root();
	uint32_t token = slub_group_charge(group, 1000000);

	ASSERT_NE(token, 0u);
	for (slub_group *one : { group, root }) {
		size_t used = stats_of(one).usage;

		for (size_t max : { (size_t)0, (size_t)1, used - 1 }) {
			EXPECT_EQ(slub_group_limit_set(one, SLUB_GROUP_MAX, max), -EBUSY);
			EXPECT_EQ(slub_group_limit_get(one, SLUB_GROUP_MAX),
				  (size_t)SLUB_GROUP_NO_LIMIT);
		}
		EXPECT_EQ(stats_of(one).usage, used);
	}
	/* All that is used may be the maximum; the others may be anywhere. */
	EXPECT_EQ(slub_group_limit_set(group, SLUB_GROUP_MAX, 1000000), 0);
	EXPECT_EQ(slub_group_limit_set(group, SLUB_GROUP_HIGH, 1), 0);
	EXPECT_EQ(slub_group_limit_set(group, SLUB_GROUP_LOW, SIZE_MAX), 0);
	EXPECT_EQ(slub_group_limit_get(group, SLUB_GROUP_LOW), (size_t)SLUB_GROUP_NO_LIMIT);
	errno = 0;
	EXPECT_EQ(slub_group_charge(group, 1), 0u);
	EXPECT_EQ(errno, ENOMEM);
	EXPECT_EQ(stats_of(group).usage, 1000000u);
	slub_group_uncharge(token, 1000000);
	/* Above high it is slowed down, and nothing else. */
	token = slub_group_charge(group, 100);
	EXPECT_NE(token, 0u);
	slub_group_uncharge(token, 100);
	EXPECT_EQ(stats_of(group).usage, 0u);
	EXPECT_EQ(slub_group_limit_set(group, SLUB_GROUP_MAX, 0), 0);
	EXPECT_EQ(slub_group_charge(group, 1), 0u);
	EXPECT_EQ(slub_group_enter(group), 0);
	errno = 0;
	EXPECT_EQ(malloc(10), nullptr);
	EXPECT_EQ(errno, ENOMEM);
	EXPECT_EQ(slub_group_leave(group), 0);
	EXPECT_EQ(slub_group_destroy(group), 0);
}

/* ---- the tree ---- */

/* There is no call that changes a parent; what comes near to a cycle is refused. */
TEST(GroupLies, TheTreeStaysATree)
{
	slub_group *a = slub_group_create("a", nullptr);
	slub_group *b = slub_group_create("b", a);
	uint32_t token = slub_group_charge(b, 500);

	EXPECT_EQ(slub_group_destroy(a), -EBUSY);
	EXPECT_EQ(stats_of(a).nr_children, 1u);
	EXPECT_EQ(stats_of(b).parent, a);
	EXPECT_EQ(slub_group_destroy(b), 0);
	/* Below one that has ended, which would hang in the air. */
	errno = 0;
	EXPECT_EQ(slub_group_create("c", b), nullptr);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(stats_of(a).nr_children, 0u);
	EXPECT_EQ(stats_of(a).usage, 500u);
	for (slub_group *g = a; g; g = stats_of(g).parent)
		EXPECT_LT(stats_of(g).depth, 2u);
	slub_group_uncharge(token, 500);
	EXPECT_EQ(slub_group_destroy(a), 0);
}

TEST(GroupLies, TheRootStays)
{
	slub_group *root = slub_group_root();
	slub_group *group = slub_group_create("below", nullptr);
	uint32_t token = slub_group_charge(group, 700);
	size_t used = stats_of(root).usage;

	EXPECT_EQ(slub_group_destroy(root), -EPERM);
	EXPECT_EQ(slub_group_enter(root), 0);
	EXPECT_EQ(slub_group_destroy(root), -EPERM);
	EXPECT_EQ(slub_group_leave(root), 0);
	EXPECT_EQ(slub_group_root(), root);
	EXPECT_EQ(stats_of(root).usage, used);
	slub_group_uncharge(token, 700);
	EXPECT_EQ(slub_group_destroy(group), 0);
	EXPECT_EQ(slub_group_destroy(root), -EPERM);
	EXPECT_EQ(stats_of(root).usage, used - 700);
}

/* ---- entering and leaving ---- */

TEST(GroupLies, LeavingWhatWasNotEntered)
{
	slub_group *a = slub_group_create("a", nullptr), *b = slub_group_create("b", nullptr);
	int nothing = 0;
	auto refused = [&] {
		for (slub_group *one : { (slub_group *)nullptr, (slub_group *)&nothing, b,
					 slub_group_root() })
			EXPECT_EQ(slub_group_leave(one), -EINVAL);
	};

	refused();
	EXPECT_EQ(slub_group_leave(a), -EINVAL);
	/* What one thread has entered another has not; it is made before, for that allocates. */
	std::atomic<bool> entered{ false };
	std::thread other([&] {
		while (!entered)
			sched_yield();
		EXPECT_EQ(slub_group_leave(a), -EINVAL);
	});
	EXPECT_EQ(slub_group_enter(a), 0);
	refused();
	entered = true;
	other.join();
	EXPECT_EQ(slub_group_current(), a);
	void *block = malloc(100);
	size_t charge = stats_of(a).usage;
	EXPECT_GE(charge, 100u);
	refused();
	EXPECT_EQ(stats_of(a).usage, charge);
	EXPECT_EQ(slub_group_leave(a), 0);
	EXPECT_EQ(slub_group_leave(a), -EINVAL);
	EXPECT_EQ(slub_group_current(), nullptr);
	free(block);
	EXPECT_EQ(stats_of(a).usage, 0u);
	EXPECT_EQ(slub_group_destroy(a), 0);
	EXPECT_EQ(slub_group_destroy(b), 0);
}

TEST(GroupLies, EnteringTwiceIsToBeLeftTwice)
{
	slub_group *a = slub_group_create("a", nullptr);

	EXPECT_EQ(slub_group_enter(a), 0);
	EXPECT_EQ(slub_group_enter(a), 0);
	void *block = malloc(100);
	EXPECT_EQ(slub_group_leave(a), 0);
	EXPECT_EQ(slub_group_current(), a);
	void *second = malloc(100);
	size_t charge = stats_of(a).usage;
	EXPECT_EQ(slub_group_leave(a), 0);
	EXPECT_EQ(slub_group_current(), nullptr);
	EXPECT_EQ(slub_group_leave(a), -EINVAL);
	void *third = malloc(100);
	EXPECT_EQ(stats_of(a).usage, charge);
	free(third);
	free(second);
	EXPECT_EQ(stats_of(a).usage, charge / 2);
	free(block);
	EXPECT_EQ(stats_of(a).usage, 0u);
	EXPECT_EQ(slub_group_destroy(a), 0);
}

/* ---- handlers ---- */

TEST(GroupLies, AHandlerThatPromisesRoomForEverIsAskedOnce)
{
	slub_group *group = slub_group_create("promises", nullptr);
	int asked = 0;

	slub_group_limit_set(group, SLUB_GROUP_MAX, 1000);
	slub_group_handler_set(group, [](slub_group *, size_t, void *arg) noexcept {
		++*static_cast<int *>(arg);
		return true;
	}, &asked);
	for (int i = 1; i <= 3; i++) {
		errno = 0;
		EXPECT_EQ(slub_group_charge(group, 2000), 0u);
		EXPECT_EQ(errno, ENOMEM);
		EXPECT_EQ(asked, i);
		EXPECT_EQ(stats_of(group).failures, (uint64_t)i);
	}
	EXPECT_EQ(slub_group_destroy(group), 0);
}

TEST(GroupLies, AHandlerMayEndItsGroup)
{
	slub_group *group = slub_group_create("ends", nullptr);
	uint32_t token = slub_group_charge(group, 900);
	size_t root = stats_of(slub_group_root()).usage;

	slub_group_limit_set(group, SLUB_GROUP_MAX, 1000);
	slub_group_handler_set(group, [](slub_group *full, size_t bytes, void *) noexcept {
		/* Allocates without regard to limits, in the group that is full. */
		EXPECT_EQ(slub_group_enter(full), 0);
		void *block = malloc(bytes);
		EXPECT_NE(block, nullptr);
		free(block);
		EXPECT_EQ(slub_group_leave(full), 0);
		return slub_group_destroy(full) == 0;
	}, nullptr);
	/* The parent has no maximum, so there is room now. */
	uint32_t other = slub_group_charge(group, 2000);
	EXPECT_NE(other, 0u);
	EXPECT_EQ(slub_group_charge(group, 1), 0u);
	EXPECT_EQ(errno, EINVAL);
	slub_group_uncharge(other, 2000);
	EXPECT_EQ(stats_of(slub_group_root()).usage, root);
	slub_group_uncharge(token, 900);
	EXPECT_EQ(stats_of(slub_group_root()).usage, root - 900);
}

/* ---- functions that move objects ---- */

struct Thing {
	uint64_t number;
	char rest[248];
};

/* One object in ten of many is alive; @on_migrate is asked to move each of them. */
struct Things {
	slub_cache *cache = slub_cache_create("things", sizeof(Thing), 0, 0, nullptr);
	std::set<void *> alive;
	std::function<int(Thing *, Thing *)> on_migrate;
	size_t asked = 0;
	size_t double_frees = 0;

	Things()
	{
		std::vector<void *> all(5000);

		for (void *&object : all)
			object = slub_cache_alloc(cache);
		for (size_t i = 0; i < all.size(); i++) {
			if (i % 10) {
				slub_cache_free(cache, all[i]);
				continue;
			}
			harness::fill(all[i], sizeof(Thing), (uintptr_t)all[i]);
			alive.insert(all[i]);
		}
		EXPECT_EQ(slub_cache_setup_mobility(cache, isolate, migrate, this), 0);
	}
	/* What is allocated is what we know of, each different, and can all be freed. */
	~Things()
	{
		std::set<void *> found;
		auto note = [](void *object, void *set) {
			EXPECT_TRUE(static_cast<std::set<void *> *>(set)->insert(object).second);
			return 0;
		};

		EXPECT_EQ(slub_cache_for_each_object(cache, note, &found), 0);
		EXPECT_EQ(found, alive);
		if (!alive.empty()) {
			EXPECT_EQ(slub_cache_destroy(cache), -EBUSY);
		}
		for (void *object : found)
			slub_cache_free(cache, object);
		EXPECT_EQ(count(&slub_cache_stats::double_free), double_frees);
		EXPECT_EQ(slub_cache_destroy(cache), 0);
	}
	uint64_t count(uint64_t slub_cache_stats::*which)
	{
		struct slub_cache_stats stats = {};

		EXPECT_EQ(slub_cache_stats(cache, &stats), 0);
		return stats.*which;
	}
	static void isolate(slub_cache *, void **objects, size_t nr, void *arg) noexcept
	{
		auto *things = static_cast<Things *>(arg);

		for (size_t i = 0; i < nr; i++) {
			if (!things->alive.count(objects[i]))
				objects[i] = nullptr;
		}
	}
	static int migrate(slub_cache *, void *from, void *to, void *arg) noexcept
	{
		auto *things = static_cast<Things *>(arg);

		things->asked++;
		EXPECT_EQ(things->alive.count(to), 0u);
		return things->on_migrate(static_cast<Thing *>(from), static_cast<Thing *>(to));
	}
	void expect_whole()
	{
		for (void *object : alive)
			EXPECT_TRUE(harness::intact(object, sizeof(Thing), (uintptr_t)object));
	}
};

TEST(DefragLies, ErrorsAreTakenAsRefusals)
{
	for (int answer : { 0, -ENOMEM, -1, 3, 1 << 16, INT_MAX, INT_MIN }) {
		Things things;

		/* It may even have written there. */
		things.on_migrate = [=](Thing *, Thing *to) {
			memset(to, 0x6b, sizeof(*to));
			return answer;
		};
		EXPECT_EQ(slub_cache_defrag(things.cache, 100), 0);
		EXPECT_GT(things.asked, 100u);
		EXPECT_EQ(things.count(&slub_cache_stats::objects_stayed), things.asked);
		EXPECT_EQ(things.count(&slub_cache_stats::objects_moved), 0u);
		things.expect_whole();
	}
}

/* The old place is free, the new one an object that only the cache knows of. */
TEST(DefragLies, SaysMovedAndDidNot)
{
	Things things;

	things.on_migrate = [&](Thing *from, Thing *to) {
		things.alive.erase(from);
		things.alive.insert(to);	/* for the count alone */
		memset(to, 0x6b, sizeof(*to));
		return SLUB_MIGRATED;
	};
	EXPECT_GT(slub_cache_defrag(things.cache, 100), 0);
	EXPECT_EQ(things.count(&slub_cache_stats::objects_moved), things.asked);
	EXPECT_EQ(things.alive.size(), 500u);
}

TEST(DefragLies, MovesIntoAWrongObject)
{
	Things things;
	slub_cache *other = slub_cache_create("wrong-things", sizeof(Thing), 0, 0, nullptr);
	std::vector<Thing *> wrong;

	/* Into one of another cache, or of the same, or where another one lives already. */
	things.on_migrate = [&](Thing *from, Thing *to) {
		auto *place = static_cast<Thing *>(*things.alive.rbegin());

		if (things.asked % 3 == 0)
			place = static_cast<Thing *>(slub_cache_alloc(other));
		else if (things.asked % 3 == 1)
			place = static_cast<Thing *>(slub_cache_alloc(things.cache));
		if (things.asked % 3 == 0)
			wrong.push_back(place);
		things.alive.erase(from);
		if (things.asked % 3 == 1)
			things.alive.insert(place);
		things.alive.insert(to);
		memcpy(place, from, sizeof(*from));
		return SLUB_MIGRATED;
	};
	EXPECT_GE(slub_cache_defrag(things.cache, 100), 0);
	EXPECT_GT(wrong.size(), 30u);
	EXPECT_EQ(std::set<Thing *>(wrong.begin(), wrong.end()).size(), wrong.size());
	for (Thing *object : wrong)
		slub_cache_free(other, object);
	EXPECT_EQ(slub_cache_destroy(other), 0);
}

TEST(DefragLies, SaysFreeLaterAndNeverDoes)
{
	Things things;

	things.on_migrate = [&](Thing *, Thing *to) {
		things.alive.insert(to);
		return SLUB_MIGRATED_FREE_LATER;
	};
	EXPECT_GE(slub_cache_defrag(things.cache, 100), 0);
	EXPECT_EQ(things.alive.size(), 500 + things.asked);
}

/* Refuses, and frees the new place, which is the library's again by that. */
TEST(DefragLies, FreesTheNewPlaceAndRefuses)
{
	slub_cache *cache;
	{
		Things things;
		size_t freed = 0;

		cache = things.cache;
		things.on_migrate = [&](Thing *, Thing *to) {
			if (things.asked % 7)
				return SLUB_MIGRATE_FAILED;
			slub_cache_free(things.cache, to);
			freed++;
			return SLUB_MIGRATE_FAILED;
		};
		EXPECT_EQ(slub_cache_defrag(things.cache, 100), 0);
		EXPECT_GT(freed, 10u);
		EXPECT_EQ(things.count(&slub_cache_stats::double_free), freed);
		things.expect_whole();
		things.double_frees = freed;
	}
	EXPECT_EQ(slub_cache_defrag(cache, 100), -EINVAL);
}

} /* namespace */
