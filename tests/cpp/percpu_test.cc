/* SPDX-License-Identifier: MIT */
/* slub::percpu<T>, slub::read_guard and slub::free_deferred. */
#include <atomic>
#include <climits>
#include <gtest/gtest.h>
#include <thread>
#include <type_traits>
#include <vector>

#include <slub/slub.hpp>

namespace {

struct traffic {
	long packets;
	unsigned int errors;
	int drops;
	unsigned long bytes;
};

TEST(cpp_percpu, counts)
{
	slub::percpu<long> counter;

	EXPECT_EQ(counter.sum(), 0);
	counter += 5;
	++counter;
	--counter;
	counter -= 2;
	counter.add(10);
	EXPECT_EQ(counter.sum(), 13);
}

TEST(cpp_percpu, four_bytes)
{
	slub::percpu<unsigned int> counter;

	counter -= 1;
	EXPECT_EQ(counter.sum(), UINT_MAX);
	counter += 3;
	EXPECT_EQ(counter.sum(), 2u);
}

TEST(cpp_percpu, members_of_a_structure)
{
	slub::percpu<traffic> counted;

	counted.add(&traffic::packets, 3);
	counted.add(&traffic::bytes, 4500);
	counted.add(&traffic::drops, -1);
	counted.add(&traffic::errors, 2);
	EXPECT_EQ(counted.sum(&traffic::packets), 3);
	EXPECT_EQ(counted.sum(&traffic::bytes), 4500u);
	EXPECT_EQ(counted.sum(&traffic::drops), -1);
	EXPECT_EQ(counted.sum(&traffic::errors), 2u);
	long walked = 0;
	counted.for_each([&](int, const traffic &copy) { walked += copy.packets; });
	EXPECT_EQ(walked, 3);
}

TEST(cpp_percpu, threads)
{
	slub::percpu<long> counter;
	std::vector<std::thread> threads;

	for (int i = 0; i < 4; i++)
		threads.emplace_back([&] {
			for (int n = 0; n < 250000; n++)
				++counter;
		});
	for (std::thread &thread : threads)
		thread.join();
	EXPECT_EQ(counter.sum(), 1000000);
}

TEST(cpp_percpu, is_zero_again_when_reused)
{
	for (int i = 0; i < 100; i++) {
		slub::percpu<long> counter;

		ASSERT_EQ(counter.sum(), 0);
		counter += 99;
	}
}

TEST(cpp_percpu, moves_and_gives_back)
{
	size_t before = slub_percpu_bytes();
	{
		slub::percpu<long> first;
		first += 4;
		slub::percpu<long> second = std::move(first);
		EXPECT_EQ(first.offset(), 0u);
		EXPECT_EQ(second.sum(), 4);
		slub::percpu<long> third;
		third = std::move(second);
		EXPECT_EQ(third.sum(), 4);
		static_assert(!std::is_copy_constructible_v<slub::percpu<long>>);
	}
	EXPECT_EQ(slub_percpu_bytes(), before);
}

TEST(cpp_percpu, add_return)
{
	slub::percpu<long> counter;
	long last = counter.add_return(3);

	EXPECT_EQ(last, 3);
	EXPECT_EQ(counter.sum(), 3);
}

struct version {
	long number, twice;
};

TEST(cpp_rcu, readers_see_whole_versions)
{
	slub::cache<version> cache("cpp-version");
	std::atomic<version *> current{ cache.make(1, 2) };
	std::atomic<bool> stop{ false };
	std::atomic<long> torn{ 0 };
	std::vector<std::thread> readers;

	for (int i = 0; i < 2; i++)
		readers.emplace_back([&] {
			while (!stop) {
				slub::read_guard reading;
				const version *v = current.load(std::memory_order_acquire);
				long number = v->number;

				std::this_thread::yield();
				if (v->twice != 2 * number || v->number != number)
					torn++;
			}
		});
	for (long n = 2; n < 20000; n++)
		slub::free_deferred(current.exchange(cache.make(n, 2 * n)));
	stop = true;
	for (std::thread &reader : readers)
		reader.join();
	EXPECT_EQ(torn, 0);
	slub::free_deferred(current.load());
	slub::deferred_barrier();
	EXPECT_NO_THROW(cache.close());	// all of them have been freed
}

TEST(cpp_rcu, free_deferred_as_a_deleter)
{
	slub::cache<version> cache("cpp-deleter");
	{
		std::unique_ptr<version, slub::deferred_deleter> owned(cache.make(1, 2));
		slub::read_guard outer, inner;
		EXPECT_EQ(owned->twice, 2);
	}
	slub::free_deferred(static_cast<version *>(nullptr));
	slub::deferred_barrier();
	EXPECT_NO_THROW(cache.close());
}

} // namespace
