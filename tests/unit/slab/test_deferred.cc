/* SPDX-License-Identifier: MIT */
/* features/rcu/deferred.c: objects in sheaves come back to their caches, once and in time. */
#include <sys/resource.h>

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

	for (size_t nr : { 1, 2, 57, 59, 60, 61, 119, 120, 121, 1000 }) {
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

struct deferred_numbers pending()
{
	struct deferred_numbers numbers;

	deferred_count(&numbers);
	return numbers;
}

TEST_F(deferred, what_is_pending_is_counted_one_by_one)
{
	struct slub_cache *cache = make("pending", 64);
	int reader = slub_read_lock();

	for (unsigned i = 1; i <= 1000; i++) {
		slub_free_deferred(slub_cache_alloc_flags(cache, 0));
		ASSERT_EQ(slub_deferred_pending(), i);
		ASSERT_EQ(pending().bytes, i * 64u);
	}
	slub_read_unlock(reader);
	EXPECT_EQ(slub_deferred_barrier(), 0);
	EXPECT_EQ(slub_deferred_pending(), 0u);
	EXPECT_EQ(pending().bytes, 0u);
	end(cache);
}

/* In a CPU's list, and in the queue: fresh, and behind a reader. */
TEST_F(deferred, a_child_has_as_much_pending_as_its_parent_had)
{
	struct slub_cache *cache = make("before_fork", 64);

	for (int i = 0; i < 100; i++)
		slub_free_deferred(slub_cache_alloc_flags(cache, 0));
	EXPECT_EQ(slub_deferred_barrier(), 0);
	int reader = slub_read_lock();
	for (unsigned nr = 1; nr <= 400; nr++) {
		slub_free_deferred(slub_cache_alloc_flags(cache, 0));
		if (nr % 50)
			continue;
		deferred_fork(FORK_BEGINS);
		deferred_fork(FORK_CHILD);
		EXPECT_EQ(pending().objects, nr);
		EXPECT_EQ(pending().bytes, nr * 64u);
	}
	slub_read_unlock(reader);
	EXPECT_EQ(slub_deferred_barrier(), 0);
	EXPECT_EQ(pending().objects, 0u);
	EXPECT_EQ(pending().bytes, 0u);
	end(cache);
}

/* A CPU keeps back sheaves of 64 KiB at the most: then readers are asked. */
TEST_F(deferred, no_list_keeps_back_much_memory)
{
	struct slub_cache *cache = make("big", 16384);

	for (int i = 0; i < 100; i++) {
		slub_free_deferred(slub_cache_alloc_flags(cache, 0));
		ASSERT_LT(pending().bytes, 2u * 64 * 1024) << i;
	}
	slub_deferred_barrier();
	end(cache);
}

TEST_F(deferred, a_drain_takes_what_all_cpus_have_and_waits_for_nobody)
{
	struct slub_cache *cache = make("drained", 64);
	std::atomic<int> ready{ 0 };
	std::atomic<bool> stop{ false };
	std::vector<std::thread> threads;

	for (int t = 0; t < 4; t++) {
		threads.emplace_back([&] {
			for (int i = 0; i < 10; i++)
				slub_free_deferred(slub_cache_alloc_flags(cache, 0));
			for (ready++; !stop;)
				sched_yield();
		});
	}
	while (ready < 4)
		sched_yield();
	int reader = slub_read_lock();
	EXPECT_EQ(deferred_drain(), 0u);
	EXPECT_EQ(slub_deferred_pending(), 40u);
	slub_read_unlock(reader);
	EXPECT_EQ(deferred_drain(), 40u);
	EXPECT_EQ(slub_deferred_pending(), 0u);
	stop = true;
	for (auto &thread : threads)
		thread.join();
	check_cache(cache, {});
	end(cache);
}

/*
 * Two grace periods, of a reader each; the second one leaves after the first object is free.
 * False: it came to that too late, a machine may be busy.
 */
bool a_wait_frees_both(struct slub_cache *cache)
{
	std::atomic<bool> is_inside{ false };
	int first = slub_read_lock();

	slub_free_deferred(slub_cache_alloc_flags(cache, 0));
	std::thread second([&] {
		int reader = slub_read_lock();

		is_inside = true;
		while (slub_deferred_pending() != 1)
			sched_yield();
		/* Not so soon that the look which freed the first one sees that. */
		usleep(2000);
		slub_read_unlock(reader);
	});
	while (!is_inside)
		sched_yield();
	slub_free_deferred(slub_cache_alloc_flags(cache, 0));
	EXPECT_EQ(slub_deferred_pending(), 2u);
	slub_read_unlock(first);
	size_t nr = deferred_drain_patiently();
	bool is_all = !slub_deferred_pending();

	EXPECT_GE(nr, 1u);
	second.join();
	slub_deferred_barrier();
	return is_all;
}

/* A part may be too little for the caller, who refuses a request then. */
TEST_F(deferred, who_is_about_to_refuse_waits_for_all_that_is_pending)
{
	struct slub_cache *cache = make("both", 65536);
	int nr = 0;

	for (int i = 0; i < 20; i++)
		nr += a_wait_frees_both(cache);
	EXPECT_GE(nr, 10) << "but for rounds in that the reader did not get to run";
	end(cache);
}

/* Nor again and again, for a reader that stays: most of these calls do not wait at all. */
TEST_F(deferred, a_reader_that_stays_is_waited_for_once)
{
	struct slub_cache *cache = make("stays", 65536);
	std::atomic<int> state{ 0 };
	std::thread other([&] {
		int reader = slub_read_lock();

		for (state = 1; state == 1;)
			usleep(1000);
		slub_read_unlock(reader);
	});
	size_t waits = 0;

	while (!state)
		sched_yield();
	slub_free_deferred(slub_cache_alloc_flags(cache, 0));
	for (int i = 0; i < 1000; i++) {
		struct rusage before, after;

		getrusage(RUSAGE_THREAD, &before);
		EXPECT_EQ(deferred_drain_patiently(), 0u);
		getrusage(RUSAGE_THREAD, &after);
		waits += after.ru_nvcsw - before.ru_nvcsw > 10;
	}
	state = 2;
	other.join();
	slub_deferred_barrier();
	EXPECT_LE(waits, 10u) << "of 1000 calls";
	end(cache);
}

TEST_F(deferred, drains_and_barriers_and_frees_at_once)
{
	struct slub_cache *cache = make("drains", 48);
	std::atomic<bool> stop{ false };
	std::vector<std::thread> threads;

	for (int t = 0; t < 3; t++) {
		threads.emplace_back([&] {
			for (int i = 0; i < 30000; i++)
				slub_free_deferred(slub_cache_alloc_flags(cache, 0));
		});
	}
	std::thread drains([&] {
		while (!stop)
			deferred_drain();
	});
	std::thread barriers([&] {
		while (!stop)
			slub_deferred_barrier();
	});
	for (auto &thread : threads)
		thread.join();
	stop = true;
	drains.join();
	barriers.join();
	slub_deferred_barrier();
	EXPECT_EQ(slub_deferred_pending(), 0u);
	EXPECT_EQ(pending().bytes, 0u);
	check_cache(cache, {});
	end(cache);
}

/* A program that frees no more, but goes on: slow paths see to what it left. */
TEST_F(deferred, slow_paths_release_what_no_reader_sees)
{
	struct slub_cache *cache = make("left", 64), *other = make("busy", 64);
	std::vector<void *> objects(4000);
	int reader = slub_read_lock();

	for (int i = 0; i < 1000; i++)
		slub_free_deferred(slub_cache_alloc_flags(cache, 0));
	slub_read_unlock(reader);
	ASSERT_GE(slub_deferred_pending(), 1000u);
	for (int round = 0; round < 200 && slub_deferred_pending(); round++) {
		for (void *&object : objects)
			object = slub_cache_alloc_flags(other, 0);
		for (void *object : objects)
			slub_cache_free(other, object);
	}
	EXPECT_EQ(slub_deferred_pending(), 0u);
	check_cache(cache, {});
	end(cache);
	end(other);
}

/* ---- a thread that would wait for itself ---- */

TEST_F(deferred, a_reader_is_known)
{
	EXPECT_FALSE(srcu_is_inside());
	int outer = slub_read_lock(), inner = slub_srcu_read_lock(&slub_rcu_domain);
	EXPECT_TRUE(srcu_is_inside());
	slub_read_unlock(inner);
	EXPECT_TRUE(srcu_is_inside());
	/* By the functions in the library, as code without the inline ones does. */
	int third = (slub_srcu_read_lock)(&slub_rcu_domain);
	(slub_srcu_read_unlock)(&slub_rcu_domain, outer);
	EXPECT_TRUE(srcu_is_inside());
	(slub_srcu_read_unlock)(&slub_rcu_domain, third);
	EXPECT_FALSE(srcu_is_inside());

	static struct slub_srcu own = SLUB_SRCU_INIT;
	int index = slub_srcu_read_lock(&own);
	EXPECT_FALSE(srcu_is_inside()) << "another domain";
	slub_srcu_read_unlock(&own, index);
	slub_srcu_destroy(&own);
}

TEST_F(deferred, a_section_that_another_thread_leaves)
{
	int index = slub_read_lock();

	std::thread([&] {
		EXPECT_FALSE(srcu_is_inside());
		slub_read_unlock(index);
		int own = slub_read_lock();
		EXPECT_TRUE(srcu_is_inside()) << "not below 0";
		slub_read_unlock(own);
		EXPECT_FALSE(srcu_is_inside());
	}).join();
	EXPECT_FALSE(srcu_is_inside()) << "nobody is inside at all";
	EXPECT_EQ(slub_thread.self.sections, 0u);
}

TEST_F(deferred, a_barrier_of_a_reader_answers)
{
	struct slub_cache *cache = make("reader", 64);

	slub_free_deferred(slub_cache_alloc_flags(cache, 0));
	int reader = slub_read_lock();
	EXPECT_EQ(slub_deferred_barrier(), -EDEADLK);
	slub_read_unlock(reader);
	EXPECT_EQ(slub_deferred_barrier(), 0);
	slub_thread.locks_held++;
	EXPECT_EQ(slub_deferred_barrier(), -EDEADLK);
	slub_thread.locks_held--;
	end(cache);
}

/* It may not wait, and cannot keep the address in the object. */
TEST_F(deferred, a_reader_without_memory_gets_a_sheaf_all_the_same)
{
	if (SLUB_CONFIG_ASSERT)
		GTEST_SKIP() << "the library's own lock is asserted to be the only one";
	struct slub_cache *cache = make("none", 64);
	std::vector<void *> objects(500);

	ASSERT_EQ(slub_cache_alloc_bulk(cache, 0, 500, objects.data()), 500u);
	slub_deferred_barrier();
	slab_shrink_all();
	for (int round = 0; round < 3; round++) {
		int reader = slub_read_lock();

		/* What a thread gets that may take no lock. */
		slub_thread.locks_held++;
		for (int i = 0; i < 100; i++)
			slub_free_deferred(objects[(size_t)(round * 100 + i)]);
		slub_thread.locks_held--;
		EXPECT_EQ(slub_deferred_pending(), 100u);
		slub_read_unlock(reader);
		EXPECT_EQ(slub_deferred_barrier(), 0);
		EXPECT_EQ(slub_deferred_pending(), 0u);
	}
	slub_cache_free_bulk(cache, 200, objects.data() + 300);
	check_cache(cache, {});
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
	EXPECT_EQ(slub_deferred_pending(), 1u);
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
	EXPECT_EQ(deferred_drain(), 0u);
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
