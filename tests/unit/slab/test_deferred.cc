/* SPDX-License-Identifier: MIT */
/* slab/rcu/deferred.c: objects in sheaves come back to their caches, once and in time. */
#include <atomic>
#include <thread>

#include "typed.h"

namespace {

using deferred = typed;

size_t count(struct slub_cache *cache)
{
	size_t nr = 0;

	EXPECT_EQ(slub_cache_for_each_object(cache, [](void *, void *arg) {
		++*(size_t *)arg;
		return 0;
	}, &nr), 0);
	return nr;
}

TEST_F(deferred, a_barrier_frees_what_lies_in_a_sheaf_that_is_not_full)
{
	struct slub_cache *cache = make("few", 64);

	for (size_t nr : { 1, 2, 59, 60, 61, 62, 63, 124, 1000 }) {
		std::vector<void *> objects(nr);

		ASSERT_EQ(slub_cache_alloc_bulk(cache, 0, nr, objects.data()), nr);
		for (void *object : objects)
			slub_free_deferred(object);
		slub_deferred_barrier();
		EXPECT_EQ(slub_deferred_pending(), 0u);
		check_cache(cache, {});
	}
	end(cache);
}

TEST_F(deferred, what_lies_in_a_sheaf_is_pending)
{
	struct slub_cache *cache = make("pending", 64);

	for (int round = 0; round < 3; round++) {
		slub_free_deferred(slub_cache_alloc_flags(cache, 0));
		EXPECT_GT(slub_deferred_pending(), 0u) << round;
		EXPECT_LE(slub_deferred_pending(), 62u) << round;
		slub_deferred_barrier();
		EXPECT_EQ(slub_deferred_pending(), 0u) << round;
	}
	end(cache);
}

/* The list of this CPU's sheaves: there is one in it, and what it is among. */
uint32_t list_with_a_sheaf(const char *area)
{
	for (uint32_t at = AREA_BYTES; at < percpu_committed(); at += SLUB_PERCPU_LIST_ALIGN) {
		auto *list = (const struct slot *)(area + at);

		if (list->main.head && list->main.room == -1)
			return at;
	}
	return 0;
}

/* An aborted push may leave an empty list less room, as if there were a sheaf in it. */
TEST_F(deferred, nothing_is_pending_in_an_empty_list)
{
	if (percpu_backend > BACKEND_THREAD)
		GTEST_SKIP() << "other backends abort nothing";
	const uint32_t other = 40;
	struct slub_cache *cache = make("aborted", 64);
	uint32_t at = 0;

	slub_deferred_barrier();
	slub_free_deferred(slub_cache_alloc_flags(cache, 0));
	for (uint32_t cid = 0; cid < percpu_areas_end() && !at; cid++)
		at = percpu_area(cid) ? list_with_a_sheaf(percpu_area(cid)) : 0;
	ASSERT_NE(at, 0u);
	percpu_area_make(other);
	((struct slot *)(percpu_area(other) + at))->main.room = -1;
	EXPECT_GT(slub_deferred_pending(), 0u);
	slub_deferred_barrier();
	EXPECT_EQ(slub_deferred_pending(), 0u);
	end(cache);
}

TEST_F(deferred, nothing_is_free_while_a_reader_is_inside)
{
	struct slub_cache *cache = make("kept", 64);
	std::vector<void *> objects(500);

	ASSERT_EQ(slub_cache_alloc_bulk(cache, 0, 500, objects.data()), 500u);
	int reader = slub_read_lock();
	for (void *object : objects) {
		memset(object, 0x3c, 64);
		slub_free_deferred(object);
	}
	deferred_poll();
	check_cache(cache, objects);
	for (void *object : objects)
		for (int i = 0; i < 64; i++)
			ASSERT_EQ(((char *)object)[i], 0x3c);
	slub_read_unlock(reader);
	slub_deferred_barrier();
	check_cache(cache, {});
	end(cache);
}

TEST_F(deferred, objects_of_many_caches_in_one_sheaf)
{
	struct slub_cache *caches[] = { make("m1", 32), make("m2", 100, 0, [](void *) {}),
					make("m3", 5000), make("m4", 64,
							SLUB_CACHE_TYPESAFE_BY_RCU) };

	for (int i = 0; i < 5000; i++)
		slub_free_deferred(slub_cache_alloc_flags(caches[i % 4], 0));
	slub_deferred_barrier();
	for (auto *cache : caches) {
		check_cache(cache, {});
		EXPECT_EQ(count(cache), 0u);
		end(cache);
	}
}

TEST_F(deferred, by_many_threads_with_barriers)
{
	struct slub_cache *cache = make("threads", 48);
	std::atomic<bool> stop{ false };
	std::vector<std::thread> threads;

	for (int t = 0; t < 3; t++) {
		threads.emplace_back([&] {
			for (int i = 0; i < 30000; i++) {
				int reader = slub_read_lock();
				void *object = slub_cache_alloc_flags(cache, 0);

				slub_free_deferred(object);
				slub_read_unlock(reader);
			}
		});
	}
	std::thread barriers([&] {
		while (!stop)
			slub_deferred_barrier();
	});
	for (auto &thread : threads)
		thread.join();
	stop = true;
	barriers.join();
	slub_deferred_barrier();
	check_cache(cache, {});
	end(cache);
}

} /* namespace */
