/* SPDX-License-Identifier: MIT */
/* Moving objects with owners: each stays charged to its group. */
#include <slub/rcu.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "movable.h"

namespace {

/* Two tenants, whose objects lie side by side. */
struct Tenants {
	slub_group *groups[2] = { slub_group_create("even", nullptr),
				  slub_group_create("odd", nullptr) };

	~Tenants()
	{
		for (slub_group *group : groups) {
			EXPECT_EQ(usage(group), 0u);
			EXPECT_EQ(slub_group_destroy(group), 0);
		}
	}
	static size_t usage(slub_group *group)
	{
		struct slub_group_stats stats = {};

		EXPECT_EQ(slub_group_stats(group, &stats), 0);
		return stats.usage;
	}
	/* As many of each that it stays whose it is when the others have gone. */
	void fill(Table &t, size_t n)
	{
		for (size_t i = 0; i < n; i++)
			t.add(groups[i % 2]);
		for (size_t i = 0; i < n; i++) {
			if (i % 20 != 0 && i % 20 != 7 && i % 20 != 13)
				t.drop(i);
		}
	}
	void check(const Table &t)
	{
		size_t bytes[2] = { 0, 0 };

		for (size_t i = 0; i < t.places.size(); i++)
			bytes[i % 2] += t.places[i] ? sizeof(Object) : 0;
		EXPECT_EQ(usage(groups[0]), bytes[0]);
		EXPECT_EQ(usage(groups[1]), bytes[1]);
	}
};

TEST(Defrag, ChargesFollowTheirObjects)
{
	Tenants tenants;
	Table t("tenants", SLUB_CACHE_ACCOUNT);
	size_t max;

	tenants.fill(t, 20000);
	tenants.check(t);
	/* A group at its maximum does not keep its objects from being moved. */
	max = Tenants::usage(tenants.groups[1]);
	EXPECT_EQ(slub_group_limit_set(tenants.groups[1], SLUB_GROUP_MAX, max), 0);
	EXPECT_GT(slub_cache_defrag(t.cache, 100), 0);
	EXPECT_GT(stats_of(t.cache).objects_moved, 1000u);
	EXPECT_LE(t.slab_bytes() * 10, t.live_bytes() * 13);
	t.check();
	tenants.check(t);
	/* Who frees them is somebody else. */
	for (size_t i = 0; i < t.places.size(); i += 3)
		t.drop(i);
	tenants.check(t);
	for (size_t i = 0; i < t.places.size(); i++)
		t.drop(i);
}

TEST(Defrag, ChargesStayWithWhatStays)
{
	Tenants tenants;
	Table t("tenants-stay", SLUB_CACHE_ACCOUNT);

	tenants.fill(t, 20000);
	t.on_migrate = [&](void *from, void *to) -> int {
		switch (t.migrated % 3) {
		case 0:
			return SLUB_MIGRATE_FAILED;
		case 1:
			t.move(from, to);
			slub_free_deferred(from);
			return SLUB_MIGRATED_FREE_LATER;
		}
		return t.move(from, to);
	};
	slub_cache_defrag(t.cache, 100);
	slub_deferred_barrier();
	EXPECT_GT(stats_of(t.cache).objects_stayed, 100u);
	t.check();
	tenants.check(t);
	for (size_t i = 0; i < t.places.size(); i++)
		t.drop(i);
}

TEST(Defrag, ChargesAreRightWhenOthersAllocateAndFreeMeanwhile)
{
	Tenants tenants;
	Table t("tenants-busy", SLUB_CACHE_ACCOUNT);
	std::atomic<bool> stop{ false };
	std::vector<std::thread> threads;

	tenants.fill(t, 20000);
	for (int k = 0; k < 3; k++) {
		threads.emplace_back([&, k] {
			unsigned int seed = (unsigned int)k;

			while (!stop) {
				std::vector<size_t> mine;

				for (int i = 0; i < 200; i++)
					mine.push_back(t.add(tenants.groups[k % 2]));
				for (size_t number : mine)
					t.drop(number);
				t.drop((size_t)rand_r(&seed) % 20000);
			}
		});
	}
	for (int i = 0; i < 30; i++)
		EXPECT_GE(slub_cache_defrag(t.cache, 100), 0);
	stop = true;
	for (auto &thread : threads)
		thread.join();
	t.check();
	tenants.check(t);
	for (size_t i = 0; i < t.places.size(); i++)
		t.drop(i);
}

} /* namespace */
