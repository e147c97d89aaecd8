/* SPDX-License-Identifier: MIT */
/*
 * Promise: what slub_free_deferred() was given stays as it is until every reader that was inside
 * has left, is free after slub_deferred_barrier(), and costs nobody else his memory.
 */
#include <atomic>
#include <sys/prctl.h>
#include <thread>

#include "api.h"

namespace {

TEST(deferred, null_and_objects_of_every_kind)
{
	api::cache plain(64), typesafe(64, 0, SLUB_CACHE_TYPESAFE_BY_RCU), paged(8192),
		ctor(64, 0, 0, [](void *) {});

	slub_free_deferred(nullptr);
	for (int i = 0; i < 500; i++) {
		for (struct slub_cache *cache : { plain.it, typesafe.it, paged.it, ctor.it })
			slub_free_deferred(slub_cache_alloc(cache));
		slub_free_deferred(malloc((size_t)i * 100));
	}
	char *large = static_cast<char *>(malloc(5 << 20));
	memset(large, 1, 5 << 20);
	slub_free_deferred(large);
	slub_deferred_barrier();
	EXPECT_EQ(slub_deferred_pending(), 0u);
	slub_deferred_barrier();
	/* The caches' destroy would fail if one were left. */
}

TEST(deferred, nothing_happens_to_an_object_while_a_reader_is_inside)
{
	api::cache cache(128);
	std::vector<void *> objects(3000);
	std::atomic<bool> freed{ false };

	int reader = slub_read_lock();
	for (void *&object : objects) {
		object = slub_cache_alloc(cache);
		harness::fill(object, 128, (uintptr_t)object);
	}
	for (void *object : objects)
		slub_free_deferred(object);
	EXPECT_GT(slub_deferred_pending(), 2000u);
	std::thread waits([&] {
		slub_deferred_barrier();
		freed = true;
	});
	for (int i = 0; i < 50; i++) {
		/* Calls that would release them if they could. */
		slub_free_deferred(malloc(10));
		usleep(1000);
		for (void *object : objects)
			ASSERT_TRUE(harness::intact(object, 128, (uintptr_t)object));
	}
	EXPECT_FALSE(freed);
	slub_read_unlock(reader);
	waits.join();
	EXPECT_TRUE(freed);
}

TEST(deferred, a_section_may_be_left_by_another_thread_and_nests)
{
	api::cache cache(64);
	int outer = slub_read_lock(), inner = slub_read_lock();
	void *object = slub_cache_alloc(cache);

	harness::fill(object, 64, 5);
	slub_free_deferred(object);
	slub_read_unlock(inner);
	for (int i = 0; i < 1000; i++)
		slub_free_deferred(malloc(10));
	EXPECT_TRUE(harness::intact(object, 64, 5));
	std::thread([=] { slub_read_unlock(outer); }).join();
	slub_deferred_barrier();
}

TEST(deferred, frees_as_it_goes_without_a_barrier)
{
	api::cache cache(1024);
	size_t most = 0;

	for (int i = 0; i < 200000; i++) {
		void *object = slub_cache_alloc(cache);

		ASSERT_NE(object, nullptr);
		slub_free_deferred(object);
		if (i % 1000 == 0)
			most = std::max(most, (size_t)api::stats_of(cache).objects);
	}
	EXPECT_LT(most, 50000u) << "two hundred megabytes would wait";
}

/*
 * What was handed over before the barrier is free after it, also if another thread of this CPU was
 * preempted with the sheaf in its hands: else the cache could not be destroyed.
 */
TEST(deferred, barrier_covers_all_that_came_before)
{
	std::atomic<bool> stop{ false };
	size_t late = 0;
	harness::one_cpu stays;

	prctl(PR_SET_TIMERSLACK, 1);
	std::thread other([&] {
		while (!stop) {
			slub_free_deferred(malloc(40));
			for (volatile int i = 0; i < 100; i = i + 1)
				;
		}
	});
	for (size_t i = 0; i < api::scaled(3000); i++) {
		struct slub_cache *cache = slub_cache_create("barrier", 64, 0, 0, nullptr);

		ASSERT_NE(cache, nullptr);
		slub_free_deferred(slub_cache_alloc(cache));
		usleep(5);
		while (slub_cache_destroy(cache) != 0)
			late++;
	}
	stop = true;
	other.join();
	EXPECT_EQ(late, 0u);
}

/* However many hand over, what waits to be freed stays little. */
TEST(deferred, keeps_up_with_many_threads)
{
	std::atomic<bool> stop{ false };
	std::vector<std::thread> threads;
	size_t most = 0, before = harness::resident_bytes();

	for (int t = 0; t < 4; t++) {
		threads.emplace_back([&] {
			while (!stop)
				slub_free_deferred(malloc(40));
		});
	}
	for (int i = 0; i < 100; i++) {
		usleep(20000);
		most = std::max(most, harness::resident_bytes());
	}
	slub_deferred_barrier();
	stop = true;
	for (auto &thread : threads)
		thread.join();
	EXPECT_LT(most, before + ((size_t)256 << 20)) << "a gigabyte a second goes through";
}

TEST(deferred, destroy_waits_for_what_is_pending)
{
	for (int i = 0; i < 200; i++) {
		struct slub_cache *cache = slub_cache_create("pending", 64, 0, 0, nullptr);

		for (int k = 0; k < i; k++)
			slub_free_deferred(slub_cache_alloc(cache));
		ASSERT_EQ(slub_cache_destroy(cache), 0) << i;
	}
}

TEST(deferred, in_the_children_of_fork)
{
	std::atomic<bool> stop{ false };
	std::vector<std::thread> threads;

	for (int t = 0; t < 2; t++) {
		threads.emplace_back([&] {
			while (!stop) {
				int index = slub_read_lock();
				slub_free_deferred(malloc(40));
				slub_read_unlock(index);
			}
		});
	}
	for (int i = 0; i < 30; i++) {
		int status = harness::in_child([] {
			struct slub_cache *cache = slub_cache_create("child", 64, 0, 0, nullptr);

			MUST(cache);
			for (int k = 0; k < 1000; k++)
				slub_free_deferred(slub_cache_alloc(cache));
			slub_deferred_barrier();
			MUST(slub_cache_destroy(cache) == 0);
			_exit(0);
		});
		ASSERT_EQ(status, 0) << harness::describe_status(status);
	}
	stop = true;
	for (auto &thread : threads)
		thread.join();
}

TEST(deferred, without_registration)
{
	std::string errors;
	int status = api::run_again({ "GLIBC_TUNABLES=glibc.pthread.rseq=0" }, "all", &errors);

	EXPECT_EQ(status, 0) << harness::describe_status(status) << errors;
}

} /* namespace */

extern "C" int act_instead(int argc, char **argv)
{
	if (!api::act_name(argc, argv))
		return -1;
	testing::InitGoogleTest(&argc, argv);
	testing::GTEST_FLAG(filter) = "-*registration";
	return RUN_ALL_TESTS();
}
