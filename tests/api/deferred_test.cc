/* SPDX-License-Identifier: MIT */
/*
 * Promise: what slub_free_deferred() was given stays as it is until every reader that was inside
 * has left, is free after slub_deferred_barrier(), and costs nobody else his memory.  It is not
 * kept when memory is short: not under a limit, not in a group, not by a request to shrink.
 */
#include <atomic>
#include <malloc.h>
#include <sys/prctl.h>
#include <thread>

#include <slub/control.h>
#include <slub/group.h>
#include <slub/shrinker.h>

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

/* ---- when memory is short ---- */

const size_t MIB = 1 << 20;

uint64_t value_of(const char *name)
{
	struct slub_value value = {};

	EXPECT_EQ(slub_value_read(name, &value), 0) << name;
	return value.number;
}

/* A block that @bytes were written to, freed deferred. */
void defer(size_t bytes)
{
	void *block = malloc(bytes);

	ASSERT_NE(block, nullptr);
	memset(block, 1, bytes);
	slub_free_deferred(block);
}

/* The same under a reader, so that it waits; it has left on return. */
void defer_under_a_reader(size_t bytes)
{
	int reader = slub_read_lock();

	defer(bytes);
	slub_read_unlock(reader);
}

TEST(deferred, no_large_block_waits_for_others_to_follow)
{
	slub_deferred_barrier();
	for (int i = 0; i < 20; i++) {
		defer(20 * MIB);
		EXPECT_EQ(slub_deferred_pending(), 0u) << "there is no reader";
	}
}

TEST(deferred, what_waits_is_counted_in_bytes)
{
	slub_deferred_barrier();
	EXPECT_EQ(value_of("heap.deferred_bytes"), 0u);
	int reader = slub_read_lock();
	defer(20 * MIB);
	for (int i = 0; i < 9; i++)
		slub_free_deferred(malloc(100));
	EXPECT_EQ(slub_deferred_pending(), 10u);
	EXPECT_EQ(value_of("heap.deferred_objects"), 10u);
	EXPECT_GE(value_of("heap.deferred_bytes"), 20 * MIB + 900);
	EXPECT_LE(value_of("heap.deferred_bytes"), 20 * MIB + 8192);
	slub_read_unlock(reader);
	slub_deferred_barrier();
	EXPECT_EQ(value_of("heap.deferred_bytes"), 0u);
	EXPECT_EQ(value_of("heap.deferred_objects"), 0u);
}

/* Those of this thread and those of others, who do nothing more. */
void some_pend_everywhere(const std::function<void()> &then)
{
	std::atomic<int> ready{ 0 };
	std::atomic<bool> stop{ false };
	std::vector<std::thread> threads;

	for (int t = 0; t < 3; t++) {
		threads.emplace_back([&] {
			for (int i = 0; i < 5; i++)
				slub_free_deferred(malloc(100));
			for (ready++; !stop;)
				usleep(1000);
		});
	}
	while (ready < 3)
		usleep(1000);
	defer_under_a_reader(MIB);
	EXPECT_GT(slub_deferred_pending(), 0u);
	then();
	EXPECT_EQ(slub_deferred_pending(), 0u);
	stop = true;
	for (auto &thread : threads)
		thread.join();
}

TEST(deferred, goes_when_the_program_asks_for_memory_back)
{
	slub_deferred_barrier();
	some_pend_everywhere([] { slub_shrink_all(); });
	some_pend_everywhere([] { slub_shrink(SLUB_SHRINK_PRIORITY_MAX); });
	some_pend_everywhere([] { malloc_trim(0); });
	some_pend_everywhere([] { slub_node_shrink(SLUB_NODE_ANY); });
}

/* Not even if no list is ever full: what the allocator finds on its slow ways is enough. */
TEST(deferred, goes_while_a_program_does_other_things)
{
	std::vector<void *> blocks(2000);

	slub_deferred_barrier();
	for (int i = 0; i < 500; i++)
		defer_under_a_reader(1000);
	for (int round = 0; round < 300 && slub_deferred_pending(); round++) {
		for (void *&block : blocks)
			block = malloc(200);
		for (void *block : blocks)
			free(block);
	}
	EXPECT_EQ(slub_deferred_pending(), 0u);
	for (int i = 0; i < 5; i++)
		defer_under_a_reader(10 * MIB);
	for (int i = 0; i < 100 && slub_deferred_pending(); i++)
		free(malloc(300000));
	EXPECT_EQ(slub_deferred_pending(), 0u) << "those of large blocks, too";
}

TEST(deferred, no_limit_refuses_what_was_freed)
{
	std::string errors;
	int status = api::run_again({ "SLUB_LIMIT=100M" }, "limit", &errors);

	EXPECT_EQ(status, 0) << harness::describe_status(status) << errors;
}

void under_a_limit()
{
	for (int i = 0; i < 100; i++) {
		void *block;

		defer_under_a_reader(30 * MIB);
		defer_under_a_reader(30 * MIB);
		block = malloc(70 * MIB);
		MUST(block != nullptr);
		free(block);
		for (int k = 0; k < 3000; k++)
			defer_under_a_reader(8000);
		block = malloc(80 * MIB);
		MUST(block != nullptr);
		free(block);
	}
	/* A reader that is inside itself is refused at once, and waits for nobody. */
	int reader = slub_read_lock();

	defer(50 * MIB);
	MUST(malloc(70 * MIB) == nullptr && errno == ENOMEM);
	slub_read_unlock(reader);
	MUST(malloc(70 * MIB) != nullptr);
}

/* Others come and go as readers: what they leave is found, though nothing more is freed. */
void under_a_limit_with_readers()
{
	std::atomic<bool> stop{ false };
	std::vector<std::thread> readers;

	for (int t = 0; t < 2; t++) {
		readers.emplace_back([&] {
			while (!stop) {
				int reader = slub_read_lock();

				for (volatile int i = 0; i < 300; i = i + 1)
					;
				slub_read_unlock(reader);
			}
		});
	}
	for (int i = 0; i < 50; i++) {
		void *block;

		/* Not filled: the limit counts them as they are, and the readers take the CPUs. */
		slub_free_deferred(malloc(30 * MIB));
		slub_free_deferred(malloc(30 * MIB));
		/* All readers may have been preempted inside. */
		for (int k = 0; !(block = malloc(70 * MIB)) && k < 1000; k++)
			usleep(1000);
		MUST(block != nullptr);
		free(block);
	}
	stop = true;
	for (auto &reader : readers)
		reader.join();
}

TEST(deferred, no_limit_refuses_while_readers_come_and_go)
{
	std::string errors;
	int status = api::run_again({ "SLUB_LIMIT=100M" }, "readers", &errors);

	EXPECT_EQ(status, 0) << harness::describe_status(status) << errors;
}

TEST(deferred, no_group_refuses_what_it_freed)
{
	struct slub_group *group = slub_group_create("tenant", nullptr);

	ASSERT_NE(group, nullptr);
	ASSERT_EQ(slub_group_limit_set(group, SLUB_GROUP_MAX, 100 * MIB), 0);
	ASSERT_EQ(slub_group_enter(group), 0);
	for (int i = 0; i < 50; i++)
		defer_under_a_reader(20 * MIB);
	for (int i = 0; i < 40000; i++)
		defer_under_a_reader(8000);
	slub_group_leave(group);
	/* A lower maximum is refused only if more is in use. */
	slub_group_enter(group);
	slub_deferred_barrier();
	for (int i = 0; i < 4; i++)
		defer_under_a_reader(20 * MIB);
	slub_group_leave(group);
	EXPECT_EQ(slub_group_limit_set(group, SLUB_GROUP_MAX, 10 * MIB), 0);
	slub_deferred_barrier();
	EXPECT_EQ(slub_group_destroy(group), 0);
}

TEST(deferred, a_child_counts_what_it_has)
{
	std::atomic<bool> stop{ false };
	std::vector<std::thread> threads;

	for (int t = 0; t < 3; t++) {
		threads.emplace_back([&] {
			while (!stop)
				slub_free_deferred(malloc(40));
		});
	}
	for (int i = 0; i < 30; i++) {
		int status = harness::in_child([] {

			slub_deferred_barrier();
			MUST(slub_deferred_pending() == 0);
			MUST(value_of("heap.deferred_bytes") == 0);
			slub_free_deferred(malloc(40));
			MUST(slub_deferred_pending() == 1);
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
	const char *name = api::act_name(argc, argv);

	if (!name)
		return -1;
	if (!strcmp(name, "limit"))
		return under_a_limit(), 0;
	if (!strcmp(name, "readers"))
		return under_a_limit_with_readers(), 0;
	testing::InitGoogleTest(&argc, argv);
	testing::GTEST_FLAG(filter) = "-*registration:*limit*";
	return RUN_ALL_TESTS();
}
