/* SPDX-License-Identifier: MIT */
/* Promise: who waits for an element of a pool gets one, whoever frees it. */
#include <gtest/gtest.h>
#include <csignal>
#include <pthread.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "harness.h"
#include "source.h"

namespace {

void wait_until_waiting(slub_mempool *pool, size_t nr)
{
	while (stats_of(pool).waiters < nr)
		usleep(100);
}

TEST(MempoolWait, AFreeWakesAWaiter)
{
	Source source;
	slub_mempool *pool = source.pool(1);
	void *got = nullptr;

	source.left = 0;
	void *element = slub_mempool_alloc(pool, SLUB_POOL_WAIT);
	std::thread waiter([&] { got = slub_mempool_alloc(pool, SLUB_POOL_WAIT); });
	wait_until_waiting(pool, 1);
	EXPECT_EQ(slub_mempool_destroy(pool), -EBUSY);
	slub_mempool_free(pool, element);
	waiter.join();
	EXPECT_EQ(got, element);
	EXPECT_EQ(stats_of(pool).waiters, 0u);
	EXPECT_EQ(stats_of(pool).timeouts, 0u);
	slub_mempool_free(pool, got);
	EXPECT_EQ(slub_mempool_destroy(pool), 0);
}

TEST(MempoolWait, TheFunctionIsAskedAgain)
{
	Source source;
	slub_mempool *pool = source.pool(1);
	void *got = nullptr;

	source.left = 0;
	void *element = slub_mempool_alloc(pool, 0);
	std::thread waiter([&] {
		sigset_t all;

		/* One that came would end the sleep before its time. */
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, nullptr);
		got = slub_mempool_alloc(pool, SLUB_POOL_WAIT);
	});
	while (!stats_of(pool).waits)
		usleep(100);
	source.left = 1;	/* nobody tells the waiter; it looks by itself */
	waiter.join();
	EXPECT_EQ(stats_of(pool).timeouts, 1u);
	EXPECT_NE(got, nullptr);
	EXPECT_NE(got, element);
	slub_mempool_free(pool, element);
	slub_mempool_free(pool, got);
	EXPECT_EQ(slub_mempool_destroy(pool), 0);
}

/* One element at a time: while it is given back its user is asked for another in vain. */
struct Slow {
	std::atomic<int> stage{0}, asked{0};
	std::atomic<bool> has{true};
	int things[2];

	void wait_for(int wanted)
	{
		while (stage < wanted)
			usleep(100);
	}
	static void *alloc(unsigned int, void *data)
	{
		auto *slow = static_cast<Slow *>(data);

		/* The second time in vain: the last look before it waits. */
		if (slow->stage == 1 && ++slow->asked == 4) {
			slow->stage = 2;
			slow->wait_for(3);
			return nullptr;
		}
		return slow->has.exchange(false) ? &slow->things[1] : nullptr;
	}
	static void free_one(void *, void *data)
	{
		auto *slow = static_cast<Slow *>(data);

		if (slow->stage == 0) {
			slow->stage = 1;
			slow->wait_for(2);
			slow->has = true;
		}
	}
};

TEST(MempoolWait, WhatIsGivenBackBeforeOneSleepsIsNotSleptThrough)
{
	Slow slow;
	slub_mempool *pool = slub_mempool_create(1, Slow::alloc, Slow::free_one, &slow);

	slow.has = true;
	void *extra = slub_mempool_alloc(pool, 0);
	std::thread other([&] {
		/* The reserve is full: it goes to free_fn(), and nobody waits yet. */
		slub_mempool_free(pool, extra);
		slow.stage = 3;
	});
	slow.wait_for(1);
	void *first = slub_mempool_alloc(pool, 0);	/* asks once, then the reserve */
	slow.asked = 2;
	void *second = slub_mempool_alloc(pool, SLUB_POOL_WAIT);
	other.join();
	EXPECT_TRUE(first && second);
	EXPECT_EQ(stats_of(pool).timeouts, 0u);
	slub_mempool_free(pool, first);
	slub_mempool_free(pool, second);
	EXPECT_EQ(slub_mempool_destroy(pool), 0);
}

TEST(MempoolWait, EachOfManyGetsOne)
{
	constexpr int threads = 12, rounds = 300;
	Source source;
	slub_mempool_args args = source.args(3);

	args.reset_fn = Source::reset;
	slub_mempool *pool = slub_mempool_create_args(&args);
	std::atomic<int> users{0}, most{0}, done{0};
	std::vector<std::thread> all;

	source.left = 0;
	for (int t = 0; t < threads; t++) {
		all.emplace_back([&] {
			for (int i = 0; i < rounds; i++) {
				auto *e = static_cast<Element *>(
					slub_mempool_alloc(pool, SLUB_POOL_WAIT));
				int now = ++users, seen = most;

				while (seen < now && !most.compare_exchange_weak(seen, now))
					;
				/* Nobody else has it. */
				if (__atomic_fetch_add(&e->uses, 1, __ATOMIC_RELAXED) == 0)
					done++;
				if (i % 7 == 0)
					sched_yield();
				users--;
				slub_mempool_free(pool, e);
			}
		});
	}
	for (auto &thread : all)
		thread.join();
	EXPECT_EQ(done, threads * rounds);
	EXPECT_EQ(stats_of(pool).timeouts, 0u) << "a wake-up was lost";
	EXPECT_LE(most, 3);
	EXPECT_EQ(stats_of(pool).available, 3u);
	EXPECT_EQ(slub_mempool_destroy(pool), 0);
}

/* Waiters for one and for several together: no wake-up is lost on the wrong one. */
TEST(MempoolWait, BulkAndSingleTogether)
{
	constexpr int rounds = 300;
	Source source;
	slub_mempool *pool = source.pool(4);
	std::vector<std::thread> all;
	std::atomic<int> done{0};

	source.left = 0;
	for (size_t nr : { 1, 4, 1, 3, 2, 1 }) {
		all.emplace_back([&, nr] {
			for (int i = 0; i < rounds; i++) {
				void *elements[4];

				if (slub_mempool_alloc_bulk(pool, SLUB_POOL_WAIT, nr, elements)
				    == nr)
					done++;
				if (i % 5 == 0)
					sched_yield();
				slub_mempool_free_bulk(pool, nr, elements);
			}
		});
	}
	for (auto &thread : all)
		thread.join();
	EXPECT_EQ(done, 6 * rounds);
	EXPECT_EQ(stats_of(pool).timeouts, 0u) << "a wake-up was lost";
	EXPECT_EQ(stats_of(pool).available, 4u);
	EXPECT_EQ(slub_mempool_destroy(pool), 0);
}

/* Who was there first waits for two: one element must not wake him alone. */
TEST(MempoolWait, OneElementGoesToWhomItIsEnoughFor)
{
	Source source;
	slub_mempool *pool = source.pool(2);
	void *both[2], *one = nullptr;
	size_t got = 0;

	source.left = 0;
	void *first = slub_mempool_alloc(pool, 0), *second = slub_mempool_alloc(pool, 0);
	std::thread bulk([&] { got = slub_mempool_alloc_bulk(pool, SLUB_POOL_WAIT, 2, both); });
	wait_until_waiting(pool, 1);
	std::thread single([&] { one = slub_mempool_alloc(pool, SLUB_POOL_WAIT); });
	wait_until_waiting(pool, 2);
	usleep(10000);	/* both are asleep, most likely */
	slub_mempool_free(pool, first);
	single.join();
	EXPECT_EQ(one, first);
	EXPECT_EQ(got, 0u);
	slub_mempool_free(pool, one);
	slub_mempool_free(pool, second);
	bulk.join();
	EXPECT_EQ(got, 2u);
	EXPECT_EQ(stats_of(pool).timeouts, 0u) << "a wake-up was lost";
	slub_mempool_free_bulk(pool, 2, both);
	EXPECT_EQ(slub_mempool_destroy(pool), 0);
}

/* Allocated by some threads, freed by another, with resizing all the while. */
TEST(MempoolWait, FreedByOthersWhileItIsResized)
{
	constexpr int rounds = 3000;
	Source source;
	slub_mempool *pool = source.pool(8);
	std::atomic<void *> box[16] = {};
	std::atomic<int> makers{2};
	std::vector<std::thread> all;

	source.left = 20;
	for (int t = 0; t < 2; t++) {
		all.emplace_back([&, t] {
			for (int i = 0; i < rounds; i++) {
				void *e = slub_mempool_alloc(pool, SLUB_POOL_WAIT);
				void *none = nullptr;

				while (!box[(i * 2 + t) % 16].compare_exchange_weak(none, e)) {
					none = nullptr;
					sched_yield();
				}
			}
			makers--;
		});
	}
	all.emplace_back([&] {
		for (bool last = false; !last;) {
			last = makers == 0;
			for (auto &place : box)
				slub_mempool_free(pool, place.exchange(nullptr));
			sched_yield();
		}
	});
	for (size_t i = 0; makers; i++) {
		int err = slub_mempool_resize(pool, 1 + i % 40);

		ASSERT_TRUE(err == 0 || err == -ENOMEM) << err;
		usleep(50);
	}
	for (auto &thread : all)
		thread.join();
	EXPECT_EQ(source.out(), (long)stats_of(pool).min_nr);
	EXPECT_EQ(slub_mempool_destroy(pool), 0);
	EXPECT_EQ(source.out(), 0);
}

/* A resize that is refused leaves no trace, however close the other one's end was. */
TEST(MempoolWait, ResizesAtOnceLeaveNoneBehind)
{
	Source source;
	slub_mempool *pool = source.pool(4);
	std::atomic<int> wrong{ 0 };
	std::vector<std::thread> all;

	for (int t = 0; t < 2; t++) {
		all.emplace_back([&, t] {
			for (int i = 0; i < 1000000; i++) {
				int err = slub_mempool_resize(pool, 2 + t);

				wrong += err && err != -EBUSY;
			}
		});
	}
	for (auto &thread : all)
		thread.join();
	EXPECT_EQ(wrong, 0);
	EXPECT_EQ(slub_mempool_resize(pool, 4), 0) << "nobody resizes it";
	EXPECT_EQ(slub_mempool_destroy(pool), 0);
}

void do_nothing(int) {}

TEST(MempoolWait, SignalsDoNotEndTheWait)
{
	Source source;
	slub_mempool *pool = source.pool(1);
	struct sigaction act = {}, old;
	void *got = nullptr;

	act.sa_handler = do_nothing;
	sigaction(SIGUSR1, &act, &old);
	source.left = 0;
	void *element = slub_mempool_alloc(pool, 0);
	std::thread waiter([&] { got = slub_mempool_alloc(pool, SLUB_POOL_WAIT); });
	for (int i = 0; i < 20; i++) {
		wait_until_waiting(pool, 1);
		pthread_kill(waiter.native_handle(), SIGUSR1);
		usleep(200);
	}
	EXPECT_EQ(got, nullptr);
	slub_mempool_free(pool, element);
	waiter.join();
	EXPECT_EQ(got, element);
	sigaction(SIGUSR1, &old, nullptr);
	slub_mempool_free(pool, got);
	EXPECT_EQ(slub_mempool_destroy(pool), 0);
}

TEST(MempoolWait, AChildHasNoWaiters)
{
	Source source;
	slub_mempool *pool = source.pool(1);

	source.left = 0;
	void *element = slub_mempool_alloc(pool, 0);
	std::thread waiter([&] {
		slub_mempool_free(pool, slub_mempool_alloc(pool, SLUB_POOL_WAIT));
	});
	wait_until_waiting(pool, 1);
	int status = harness::in_child([&] {
		bool none = stats_of(pool).waiters == 0;

		slub_mempool_free(pool, element);
		_exit(none && slub_mempool_destroy(pool) == 0 ? 0 : 1);
	});
	EXPECT_EQ(harness::describe_status(status), "exit 0");
	slub_mempool_free(pool, element);
	waiter.join();
	EXPECT_EQ(slub_mempool_destroy(pool), 0);
}

} /* namespace */
