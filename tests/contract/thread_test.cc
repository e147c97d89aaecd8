/* SPDX-License-Identifier: MIT */
/*
 * Promise: malloc works in every corner of a thread's and a process's life: TLS destructors,
 * atexit handlers, detached and cancelled threads, and blocks may be freed by any thread.
 */
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <mutex>
#include <pthread.h>
#include <sched.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <vector>

#include "harness.h"
#include "features/inspect/abi.h"

static std::atomic<int> damaged;

/* Fifty stacks of the usual 8 MiB are more than a limit of the address space may leave. */
[[gnu::constructor]] static void small_stacks()
{
	pthread_attr_t attributes;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 1 << 20);
	pthread_setattr_default_np(&attributes);
	pthread_attr_destroy(&attributes);
}

static void allocate_some(uint64_t seed)
{
	void *blocks[60];
	size_t n = 1;

	for (void *&block : blocks) {
		block = malloc(n);
		harness::fill(block, n, seed);
		n += n / 5 + 1;
	}
	n = 1;
	for (void *block : blocks) {
		damaged += !harness::intact(block, n, seed);
		free(block);
		n += n / 5 + 1;
	}
}

struct AllocatesAtThreadEnd {
	void *kept = nullptr;
	~AllocatesAtThreadEnd()
	{
		allocate_some(1);
		free(kept);
	}
};

static thread_local AllocatesAtThreadEnd at_thread_end;

TEST(Thread, ThreadLocalDestructors)
{
	for (int i = 0; i < 100; i++)
		std::thread([] { at_thread_end.kept = malloc(1000); }).join();
	EXPECT_EQ(damaged, 0);
}

static pthread_key_t key;
static std::atomic<int> destructor_calls;

/* Sets its key again, so that pthread calls it PTHREAD_DESTRUCTOR_ITERATIONS times. */
static void key_destructor(void *value)
{
	destructor_calls++;
	allocate_some(2);
	free(value);
	pthread_setspecific(key, malloc(300));
	if (destructor_calls % 4 == 0) {
		free(pthread_getspecific(key));
		pthread_setspecific(key, nullptr);
	}
}

TEST(Thread, KeyDestructorsThatRepeat)
{
	ASSERT_EQ(pthread_key_create(&key, key_destructor), 0);
	for (int i = 0; i < 50; i++)
		std::thread([] { pthread_setspecific(key, malloc(300)); }).join();
	EXPECT_GE(destructor_calls, 200);
	EXPECT_EQ(damaged, 0);
	pthread_key_delete(key);
}

static void *cancelled_body(void *ready)
{
	void *block = malloc(5000);

	harness::fill(block, 5000, 9);
	pthread_cleanup_push([](void *held) {
		damaged += !harness::intact(held, 5000, 9);
		allocate_some(3);
		free(held);
	}, block);
	static_cast<std::atomic<int> *>(ready)->fetch_add(1);
	for (;;) {
		allocate_some(4);
		pthread_testcancel();
	}
	pthread_cleanup_pop(0);
	return nullptr;
}

TEST(Thread, CancelledWithCleanupHandlers)
{
	for (int round = 0; round < 25; round++) {
		pthread_t threads[4];
		std::atomic<int> ready{0};

		for (pthread_t &thread : threads)
			ASSERT_EQ(pthread_create(&thread, nullptr, cancelled_body, &ready), 0);
		while (ready < 4)
			sched_yield();
		for (pthread_t thread : threads)
			pthread_cancel(thread);
		for (pthread_t thread : threads) {
			void *result = nullptr;
			pthread_join(thread, &result);
			EXPECT_EQ(result, PTHREAD_CANCELED);
		}
	}
	EXPECT_EQ(damaged, 0);
}

/* As many as there is address space for: a limit may leave no room for fifty stacks. */
TEST(Thread, Detached)
{
	static std::atomic<int> running;
	int started = 0;

	for (; started < 50; started++) {
		running++;
		try {
			std::thread([] {
				allocate_some(5);
				at_thread_end.kept = malloc(40);
				allocate_some(6);
				running--;
			}).detach();
		} catch (const std::system_error &) {
			running--;
			break;
		}
	}
	EXPECT_GT(started, 0);
	while (running)
		sched_yield();
	allocate_some(7);
	EXPECT_EQ(damaged, 0);
}

/* What each thread leaves in caches must come back: 3,000 threads free 1 MiB each. */
TEST(Thread, ManyShortLivedOnes)
{
	size_t before = harness::resident_bytes();

	for (int i = 0; i < 3000; i++)
		std::thread([] {
			void *blocks[256];
			for (void *&block : blocks)
				block = memset(malloc(4000), 1, 4000);
			for (void *block : blocks)
				free(block);
		}).join();
	EXPECT_LT(harness::resident_bytes(), before + (64u << 20));
}

struct Parcel {
	void *block;
	size_t bytes;
};

class Channel {
public:
	void put(Parcel parcel)
	{
		std::unique_lock<std::mutex> lock(mutex);
		space.wait(lock, [this] { return parcels.size() < 2000; });
		parcels.push_back(parcel);
		arrived.notify_one();
	}
	Parcel take()
	{
		std::unique_lock<std::mutex> lock(mutex);
		arrived.wait(lock, [this] { return !parcels.empty(); });
		Parcel parcel = parcels.front();
		parcels.pop_front();
		space.notify_one();
		return parcel;
	}

private:
	std::mutex mutex;
	std::condition_variable arrived, space;
	std::deque<Parcel> parcels;
};

/* 2 x 100,000 blocks, about 800 MB in all, never more than 2,000 of them alive. */
TEST(Thread, BlocksFreedByAnotherThread)
{
	Channel channel;
	std::vector<std::thread> threads;
	size_t before = harness::resident_bytes();

	for (uint64_t seed = 0; seed < 2; seed++)
		threads.emplace_back([&channel, seed] {
			harness::Random random(seed);
			for (int i = 0; i < 100000; i++) {
				size_t n = 1 + random.below(size_t{1} << random.below(15));
				void *block = malloc(n);
				harness::fill(block, n, n);
				channel.put({block, n});
			}
			channel.put({nullptr, 0});
		});
	for (int i = 0; i < 2; i++)
		threads.emplace_back([&channel] {
			for (Parcel it = channel.take(); it.block; it = channel.take()) {
				damaged += !harness::intact(it.block, it.bytes, it.bytes);
				free(it.block);
			}
		});
	for (auto &thread : threads)
		thread.join();
	EXPECT_EQ(damaged, 0);
	EXPECT_LT(harness::resident_bytes(), before + (100u << 20));
}

/* A uniprocessor build stays on the CPU that it chose at its start; moving it off is no test. */
static bool may_move()
{
	auto *state = static_cast<struct slub_abi *>(dlsym(RTLD_DEFAULT, SLUB_ABI_SYMBOL));

	return !state || state->smp;
}

static void pin_at_random(harness::Random &random)
{
	cpu_set_t set;
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	CPU_ZERO(&set);
	CPU_SET(random.below(cpus), &set);
	sched_setaffinity(0, sizeof(set), &set);
}

/* Sixteen threads share 4,096 places: each takes what is there, checks it and frees it. */
TEST(Thread, SixteenMovedBetweenCpus)
{
	static std::atomic<uint64_t *> places[4096];
	std::vector<std::thread> threads;
	bool moving = may_move();

	for (uint64_t seed = 0; seed < 16; seed++)
		threads.emplace_back([seed, moving] {
			harness::Random random(seed);
			for (int i = 0; i < 60000; i++) {
				size_t words = 2 + random.below(60);
				auto *block = static_cast<uint64_t *>(malloc(words * 8));
				block[0] = words * 8;
				harness::fill(block + 1, words * 8 - 8, words);
				block = places[random.below(4096)].exchange(block);
				if (block) {
					size_t bytes = block[0];
					damaged += bytes > 62 * 8 || bytes < 16 ||
						!harness::intact(block + 1, bytes - 8, bytes / 8);
					block[0] = 0;
				}
				free(block);
				if (i % 64 == 0 && moving)
					pin_at_random(random);
			}
		});
	for (auto &thread : threads)
		thread.join();
	for (auto &place : places)
		free(place.exchange(nullptr));
	EXPECT_EQ(damaged, 0);
}

static void allocate_at_exit()
{
	allocate_some(8);
	void *large = malloc(5 << 20);
	memset(large, 1, 5 << 20);
	free(large);
	if (damaged)
		_exit(81);
}

struct AllocatesAtProcessEnd {
	std::vector<int> numbers = std::vector<int>(1000, 1);
	~AllocatesAtProcessEnd() { allocate_at_exit(); }
};

TEST(Thread, AtexitHandlersAndStaticDestructors)
{
	int status = harness::in_child([] {
		static AllocatesAtProcessEnd at_process_end;
		atexit(allocate_at_exit);
		std::thread([] { at_thread_end.kept = malloc(100); }).detach();
		exit(0);
	});
	EXPECT_EQ(status, 0) << harness::describe_status(status);
}

/* In a program of its own: the end of main's thread must not unwind through GoogleTest. */
extern "C" int act_instead(int argc, char **argv)
{
	if (argc != 2 || strcmp(argv[1], "--act") != 0)
		return -1;
	std::thread([] {
		usleep(50000);
		allocate_some(9);
		exit(damaged ? 82 : 0);
	}).detach();
	at_thread_end.kept = malloc(100);
	pthread_exit(nullptr);
}

TEST(Thread, MainEndsBeforeItsThreads)
{
	int status = harness::in_child([] {
		execl("/proc/self/exe", "thread_test", "--act", nullptr);
		_exit(83);
	});
	EXPECT_EQ(status, 0) << harness::describe_status(status);
}

TEST(Thread, QuickExitWhileOthersAllocate)
{
	for (int i = 0; i < 20; i++) {
		int status = harness::in_child([] {
			for (int j = 0; j < 4; j++)
				std::thread([] {
					for (;;)
						allocate_some(10);
				}).detach();
			usleep(3000);
			exit(0);
		});
		ASSERT_EQ(status, 0) << harness::describe_status(status);
	}
}
