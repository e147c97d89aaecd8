/* SPDX-License-Identifier: MIT */
/* What the tests of moving objects share: a cache whose objects move. */
#ifndef SLUB_TESTS_RECLAIM_MOVABLE_H
#define SLUB_TESTS_RECLAIM_MOVABLE_H

#include <slub/defrag.h>
#include <slub/group.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <mutex>
#include <set>
#include <vector>

/* What the program knows of its objects: who lives, and where. */
struct Object {
	uint64_t number;
	uint64_t again;		/* ~number */
	char rest[184];
};

struct Table {
	std::mutex lock;
	std::vector<Object *> places;	/* by number; NULL: not allocated */
	std::set<const void *> alive;
	slub_cache *cache;
	size_t isolated = 0, migrated = 0, most_at_once = 0;
	std::function<void(void **, size_t)> on_isolate = [](void **, size_t) {};
	std::function<int(void *, void *)> on_migrate = [this](void *from, void *to) {
		return move(from, to);
	};

	explicit Table(const char *name, unsigned long flags = 0)
		: cache(slub_cache_create(name, sizeof(Object), 0, flags, nullptr))
	{
		EXPECT_EQ(slub_cache_setup_mobility(cache, isolate, migrate, this), 0);
	}
	~Table()
	{
		for (size_t i = 0; i < places.size(); i++)
			drop(i);
		EXPECT_EQ(slub_cache_destroy(cache), 0);
	}
	/* Numbers 0 to n, of which every @keep-th lives on. */
	void fill(size_t n, size_t keep)
	{
		size_t first = places.size();

		for (size_t i = 0; i < n; i++)
			add();
		for (size_t i = first; i < first + n; i++) {
			if (i % keep)
				drop(i);
		}
	}
	/* In @group is the object alone, not what the table keeps of it. */
	size_t add(slub_group *group = nullptr)
	{
		if (group)
			slub_group_enter(group);
		auto *o = static_cast<Object *>(slub_cache_alloc(cache));
		if (group)
			slub_group_leave(group);
		std::lock_guard<std::mutex> hold(lock);

		o->number = places.size();
		o->again = ~o->number;
		places.push_back(o);
		alive.insert(o);
		return o->number;
	}
	/* By number: places moves when it grows. */
	void drop(size_t number)
	{
		Object *o;
		{
			std::lock_guard<std::mutex> hold(lock);
			o = places[number];
			if (!o)
				return;
			alive.erase(o);
			places[number] = nullptr;
		}
		slub_cache_free(cache, o);
	}
	int move(void *from, void *to)
	{
		auto *object = static_cast<Object *>(from);

		*static_cast<Object *>(to) = *object;
		places[object->number] = static_cast<Object *>(to);
		alive.erase(from);
		alive.insert(to);
		return SLUB_MIGRATED;
	}
	/* Objects stay locked from isolate to the last migrate of the batch. */
	size_t pinned = 0;
	static void isolate(slub_cache *cache, void **objects, size_t n, void *arg) noexcept
	{
		auto *t = static_cast<Table *>(arg);

		EXPECT_EQ(cache, t->cache);
		t->lock.lock();
		EXPECT_EQ(t->pinned, 0u);
		t->most_at_once = std::max(t->most_at_once, n);
		for (size_t i = 0; i < n; i++) {
			if (t->alive.count(objects[i]))
				t->pinned++;
			else
				objects[i] = nullptr;
		}
		t->isolated += t->pinned;
		t->on_isolate(objects, n);
		if (!t->pinned)
			t->lock.unlock();
	}
	static int migrate(slub_cache *, void *from, void *to, void *arg) noexcept
	{
		auto *t = static_cast<Table *>(arg);
		int result = t->on_migrate(from, to);

		t->migrated++;
		if (--t->pinned == 0)
			t->lock.unlock();
		return result;
	}
	void check()
	{
		for (size_t i = 0; i < places.size(); i++) {
			if (!places[i])
				continue;
			ASSERT_EQ(places[i]->number, i);
			ASSERT_EQ(places[i]->again, ~i);
		}
	}
	size_t slab_bytes()
	{
		struct slub_cache_stats s = {};

		EXPECT_EQ(slub_cache_stats(cache, &s), 0);
		return s.objects * slub_cache_stride(cache);
	}
	size_t live_bytes() { return alive.size() * sizeof(Object); }
};

inline struct slub_cache_stats stats_of(slub_cache *cache)
{
	struct slub_cache_stats s = {};

	EXPECT_EQ(slub_cache_stats(cache, &s), 0);
	return s;
}

#endif
