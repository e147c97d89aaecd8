/* SPDX-License-Identifier: MIT */
/*
 * Promise: a signal handler that interrupted malloc or free may allocate and free itself; nothing
 * hangs, no block is handed out twice, and every block keeps its contents.  A small block comes
 * always; a large one may be refused, with ENOMEM, where the library was in the middle of its own
 * work.  The interrupted code is never refused.
 */
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <gtest/gtest.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "harness.h"

static std::atomic<uint64_t> handled, damaged, wrong_errno;

/* Up to this size the handler's blocks must come too. */
static const size_t always_served = 1024;

/* Blocks in a ring: the oldest is checked, freed and replaced at each step. */
struct Ring {
	static const int places = 24;
	void *blocks[places] = {};
	size_t bytes[places] = {};
	uint64_t seeds[places] = {};
	harness::Random random;
	size_t least, most;
	int at = 0;
	uint64_t refused = 0;

	Ring(uint64_t seed, size_t least, size_t most) : random(seed), least(least), most(most) {}

	/* Checks and fills a large block in its first and last kilobytes only. */
	bool whole(int i) const
	{
		auto *start = static_cast<char *>(blocks[i]);
		if (bytes[i] <= 4096)
			return harness::intact(start, bytes[i], seeds[i]);
		return harness::intact(start, 1024, seeds[i]) &&
		       harness::intact(start + bytes[i] - 1024, 1024, seeds[i]);
	}
	void mark(int i)
	{
		auto *start = static_cast<char *>(blocks[i]);
		if (bytes[i] <= 4096) {
			harness::fill(start, bytes[i], seeds[i]);
			return;
		}
		harness::fill(start, 1024, seeds[i]);
		harness::fill(start + bytes[i] - 1024, 1024, seeds[i]);
	}
	void step()
	{
		at = (at + 1) % places;
		if (blocks[at] && !whole(at))
			damaged++;
		free(blocks[at]);
		bytes[at] = least + random.below(most - least + 1);
		seeds[at] = random.next();
		errno = 0;
		blocks[at] = malloc(bytes[at]);
		if (blocks[at]) {
			mark(at);
			return;
		}
		refused++;
		wrong_errno += errno != ENOMEM;
	}
	void release()
	{
		for (void *&block : blocks) {
			free(block);
			block = nullptr;
		}
	}
};

static thread_local Ring *ring_of_handler;

static void handler(int)
{
	int saved = errno;

	for (int i = 0; i < 4 && ring_of_handler; i++)
		ring_of_handler->step();
	handled++;
	errno = saved;
}

static void catch_alarms(void (*action_of)(int))
{
	struct sigaction action = {};

	action.sa_handler = action_of;
	action.sa_flags = SA_RESTART;
	sigaction(SIGALRM, &action, nullptr);
}

static void set_timer(long microseconds)
{
	struct itimerval timer = {{0, microseconds}, {0, microseconds}};

	setitimer(ITIMER_REAL, &timer, nullptr);
}

static double now()
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return double(time.tv_sec) + double(time.tv_nsec) * 1e-9;
}

struct Span {
	const char *name;
	size_t least, most;
};

class Signal : public testing::TestWithParam<Span> {};

TEST_P(Signal, InterruptsAndAllocates)
{
	Ring ring(1, GetParam().least, GetParam().most);
	Ring other(2, GetParam().least, GetParam().most);
	double until = now() + 2;

	handled = damaged = wrong_errno = 0;
	ring_of_handler = &other;
	catch_alarms(handler);
	set_timer(500);
	while (now() < until || handled < 200)
		for (int i = 0; i < 100; i++)
			ring.step();
	set_timer(0);
	catch_alarms(SIG_IGN);
	ring_of_handler = nullptr;
	EXPECT_EQ(damaged, 0u);
	EXPECT_EQ(wrong_errno, 0u);
	EXPECT_EQ(ring.refused, 0u) << "in the interrupted code";
	if (GetParam().most <= always_served) {
		EXPECT_EQ(other.refused, 0u) << "in the handler";
	}
	ring.release();
	other.release();
}

INSTANTIATE_TEST_SUITE_P(Sizes, Signal,
			 testing::Values(Span{"small", 1, 1024}, Span{"middle", 1000, 40000},
					 Span{"around_100_KiB", 90 << 10, 110 << 10},
					 Span{"around_3_MiB", 3 << 20, (3 << 20) + 9000}),
			 [](auto &info) { return info.param.name; });

/* Each thread has a timer of its own, aimed at it alone. */
static void thread_body(std::atomic<bool> *stop, uint64_t seed)
{
	Ring ring(seed, 1, always_served), other(~seed, 1, always_served);
	struct sigevent event = {};
	struct itimerspec every = {{0, 700000}, {0, 700000}};
	timer_t timer;

	event.sigev_notify = SIGEV_THREAD_ID;
	event.sigev_signo = SIGALRM;
	event._sigev_un._tid = static_cast<int>(syscall(SYS_gettid));
	ring_of_handler = &other;
	ASSERT_EQ(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
	timer_settime(timer, 0, &every, nullptr);
	while (!*stop)
		ring.step();
	timer_delete(timer);
	sigset_t alarms;
	sigemptyset(&alarms);
	sigaddset(&alarms, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &alarms, nullptr);
	ring_of_handler = nullptr;
	EXPECT_EQ(ring.refused + other.refused, 0u);
	ring.release();
	other.release();
}

TEST(SignalThreads, EachInterruptedByItsOwnTimer)
{
	std::atomic<bool> stop{false};
	std::vector<std::thread> threads;

	handled = damaged = wrong_errno = 0;
	catch_alarms(handler);
	for (uint64_t seed = 1; seed <= 4; seed++)
		threads.emplace_back(thread_body, &stop, seed);
	double until = now() + 2;
	while (now() < until || handled < 400)
		usleep(10000);
	stop = true;
	for (auto &thread : threads)
		thread.join();
	catch_alarms(SIG_IGN);
	EXPECT_EQ(damaged, 0u);
}

/* The other calls with locks of their own: realloc, calloc, aligned_alloc, trim and counts. */
static void call_everything(int)
{
	int saved = errno;
	void *block = calloc(1, 2000);
	void *longer = realloc(block, 30000);

	block = longer ? longer : block;
	free(aligned_alloc(4096, 5000));
	malloc_usable_size(block);
	mallinfo2();
	free(block);
	if (handled % 16 == 0)
		malloc_trim(0);
	handled++;
	errno = saved;
}

TEST(SignalCalls, EveryCallInterruptsEveryOther)
{
	double until = now() + 2;
	void *block = nullptr;

	handled = 0;
	catch_alarms(call_everything);
	set_timer(500);
	for (size_t n = 1; now() < until || handled < 200; n = n * 5 % 1000003) {
		block = realloc(block, n + 1);
		ASSERT_NE(block, nullptr);
		harness::fill(block, std::min<size_t>(n, 4096), n);
		free(calloc(3, n % 5000));
		free(aligned_alloc(64, n % 70000));
		mallinfo2();
		if (n % 32 == 0)
			malloc_trim(0);
		ASSERT_TRUE(harness::intact(block, std::min<size_t>(n, 4096), n));
	}
	set_timer(0);
	catch_alarms(SIG_IGN);
	free(block);
}
