/* SPDX-License-Identifier: MIT */
/*
 * SRCU: a grace period ends when those who were inside have left, and not before.
 *
 * SLUB_TORTURE_SECONDS makes the torture last longer than its ten million reads.
 */
#include <slub/srcu.h>

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <memory>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <thread>
#include <unistd.h>
#include <vector>

#if __has_include(<sys/rseq.h>)
#include <sys/rseq.h>
#endif

#include "harness.h"

namespace {

/* This thread has restartable sequences no more. */
void unregister_rseq()
{
#if defined(SYS_rseq) && defined(RSEQ_SIG)
	char *area = (char *)__builtin_thread_pointer() + __rseq_offset;

	if (__rseq_size)
		syscall(SYS_rseq, area, 32, 1, RSEQ_SIG);
#endif
}

constexpr long LIVE = 0x11fe11fe11fe11fe;
constexpr int WORDS = 8;

struct Object {
	std::atomic<long> words[WORDS];
	void set(long value)
	{
		for (auto &word : words)
			word.store(value, std::memory_order_relaxed);
	}
};

/* Readers look at the object that an updater replaces and poisons. */
class Torture {
public:
	explicit Torture(slub_srcu *domain) : domain(domain)
	{
		objects[0].set(LIVE);
		current = &objects[0];
	}

	void read_once(int section_yields)
	{
		int index = slub_srcu_read_lock(domain);
		Object *object = current.load(std::memory_order_relaxed);
		long wrong = 0;

		for (auto &word : object->words)
			wrong += word.load(std::memory_order_relaxed) != LIVE;
		if (section_yields) {
			sched_yield();
			for (auto &word : object->words)
				wrong += word.load(std::memory_order_relaxed) != LIVE;
		}
		slub_srcu_read_unlock(domain, index);
		if (wrong)
			bad++;
	}

	/* Stays inside for as long as a grace period takes at least. */
	void read_for_a_while(int spins)
	{
		int index = slub_srcu_read_lock(domain);
		Object *object = current.load(std::memory_order_relaxed);
		long wrong = 0;

		for (volatile int i = 0; i < spins; i++)
			continue;
		for (auto &word : object->words)
			wrong += word.load(std::memory_order_relaxed) != LIVE;
		slub_srcu_read_unlock(domain, index);
		if (wrong)
			bad++;
	}

	void update_once(bool polls)
	{
		Object *old = current;
		Object *fresh = old == &objects[0] ? &objects[1] : &objects[0];

		fresh->set(LIVE);
		current.store(fresh, std::memory_order_release);
		if (polls) {
			uint64_t cookie = slub_srcu_start_poll(domain);

			while (!slub_srcu_poll(domain, cookie))
				sched_yield();
		} else {
			slub_srcu_synchronize(domain);
		}
		old->set(-1);
		updates++;
	}

	slub_srcu *domain;
	Object objects[2];
	std::atomic<Object *> current;
	std::atomic<long> bad{0}, reads{0}, updates{0};
};

long torture_seconds()
{
	const char *seconds = getenv("SLUB_TORTURE_SECONDS");

	return seconds ? atol(seconds) : 0;
}

void run_torture(Torture &torture, long reads_wanted, int nr_readers)
{
	time_t end = time(nullptr) + torture_seconds();
	std::atomic<bool> stop{false};
	std::vector<std::thread> readers;

	for (int i = 0; i < nr_readers; i++) {
		readers.emplace_back([&, i] {
			long n = 0;

			for (; !stop; n++) {
				torture.read_once(i % 2 && n % 1024 == 0);
				if (n % 4096 == 4095)
					torture.reads += 4096;
			}
		});
	}
	while (torture.reads < reads_wanted || time(nullptr) < end ||
	       torture.updates < 300)
		torture.update_once(torture.updates % 2);
	stop = true;
	for (auto &reader : readers)
		reader.join();
}

TEST(Srcu, ReadersNeverSeeWhatWasPoisoned)
{
	slub_srcu domain = SLUB_SRCU_INIT;

	ASSERT_EQ(slub_srcu_create(&domain), 0);
	{
		Torture torture(&domain);

		run_torture(torture, 10000000, 4);
		EXPECT_EQ(torture.bad, 0);
		printf("%ld reads, %ld updates\n", torture.reads.load(),
		       torture.updates.load());
	}
	slub_srcu_destroy(&domain);
}

void stay_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

/*
 * The order itself: a reader and a writer, each on a CPU of its own, meet as often as they can.
 * What a store buffer holds back shows here, if the writer's barrier is missing.
 */
TEST(Srcu, ReaderAndWriterOnTwoCpus)
{
	slub_srcu domain = SLUB_SRCU_INIT;
	Torture torture(&domain);
	std::atomic<bool> stop{false};
	std::thread reader([&] {
		stay_on(0);
		for (int i = 0; !stop; i++)
			torture.read_for_a_while(i % 512);
	});
	std::thread writer([&] {
		stay_on(1);
		for (int i = 0; i < 30000; i++)
			torture.update_once(false);
	});

	writer.join();
	stop = true;
	reader.join();
	EXPECT_EQ(torture.bad, 0);
	slub_srcu_destroy(&domain);
}

TEST(Srcu, TheSameWithThreadsTheKernelDoesNotKnow)
{
	static slub_srcu domain = SLUB_SRCU_INIT;
	Torture torture(&domain);
	std::atomic<bool> stop{false};
	std::thread unregistered([&] {
		unregister_rseq();
		while (!stop)
			torture.read_once(0);
	});

	run_torture(torture, 1000000, 1);
	stop = true;
	unregistered.join();
	EXPECT_EQ(torture.bad, 0);
	slub_srcu_destroy(&domain);
}

TEST(Srcu, APollSaysNoWhileAReaderIsInside)
{
	slub_srcu domain = SLUB_SRCU_INIT;
	int index = slub_srcu_read_lock(&domain);
	uint64_t cookie = slub_srcu_start_poll(&domain);

	for (int i = 0; i < 100; i++)
		EXPECT_FALSE(slub_srcu_poll(&domain, cookie));
	/* Who comes later is not waited for. */
	int later = slub_srcu_read_lock(&domain);
	slub_srcu_read_unlock(&domain, index);
	EXPECT_TRUE(slub_srcu_poll(&domain, cookie));
	EXPECT_TRUE(slub_srcu_poll(&domain, cookie));
	slub_srcu_read_unlock(&domain, later);
	slub_srcu_synchronize(&domain);
	slub_srcu_destroy(&domain);
}

TEST(Srcu, SectionsNestAndLaterCookiesAreLarger)
{
	slub_srcu domain = SLUB_SRCU_INIT;
	int outer = slub_srcu_read_lock(&domain);
	uint64_t first = slub_srcu_start_poll(&domain);

	EXPECT_NE(first, 0u);
	EXPECT_FALSE(slub_srcu_poll(&domain, first));
	int inner = slub_srcu_read_lock(&domain);
	uint64_t second = slub_srcu_start_poll(&domain);
	EXPECT_GT(second, first);
	slub_srcu_read_unlock(&domain, outer);
	while (!slub_srcu_poll(&domain, first))
		;
	EXPECT_FALSE(slub_srcu_poll(&domain, second));
	slub_srcu_read_unlock(&domain, inner);
	EXPECT_TRUE(slub_srcu_poll(&domain, second));
	slub_srcu_destroy(&domain);
}

/*
 * A reader that read the word before a grace period, was preempted, and counts itself in only after
 * it: in the phase that nobody is in any more.
 */
TEST(Srcu, AStragglerOfThePhaseBeforeIsWaitedFor)
{
	slub_srcu domain = SLUB_SRCU_INIT;

	slub_srcu_synchronize(&domain);
	uint32_t read_before = domain.reader;
	if (!(read_before & SLUB_SRCU_FAST)) {
		slub_srcu_destroy(&domain);
		GTEST_SKIP() << "no membarrier";
	}
	slub_srcu_synchronize(&domain);
	ASSERT_NE(domain.reader, read_before);
	slub_percpu_add(read_before - SLUB_SRCU_FAST, 1);
	uint64_t cookie = slub_srcu_start_poll(&domain);
	for (int i = 0; i < 10; i++)
		EXPECT_FALSE(slub_srcu_poll(&domain, cookie));
	slub_srcu_read_unlock(&domain, (int)read_before);
	EXPECT_TRUE(slub_srcu_poll(&domain, cookie));
	slub_srcu_destroy(&domain);
}

TEST(Srcu, OneDomainDoesNotWaitForAnother)
{
	slub_srcu domain = SLUB_SRCU_INIT, other = SLUB_SRCU_INIT;
	int index = slub_srcu_read_lock(&other);

	slub_srcu_synchronize(&domain);
	slub_srcu_read_unlock(&other, index);
	slub_srcu_destroy(&domain);
	slub_srcu_destroy(&other);
}

TEST(Srcu, AnotherThreadMayLeave)
{
	slub_srcu domain = SLUB_SRCU_INIT;

	for (int i = 0; i < 100; i++) {
		int index = slub_srcu_read_lock(&domain);
		uint64_t cookie = slub_srcu_start_poll(&domain);

		EXPECT_FALSE(slub_srcu_poll(&domain, cookie));
		std::thread([&] { slub_srcu_read_unlock(&domain, index); }).join();
		EXPECT_TRUE(slub_srcu_poll(&domain, cookie));
	}
	slub_srcu_destroy(&domain);
}

TEST(Srcu, SynchronizeSleepsUntilTheReaderLeaves)
{
	slub_srcu domain = SLUB_SRCU_INIT;
	std::atomic<bool> left{false};
	int index = slub_srcu_read_lock(&domain);
	std::vector<std::thread> writers;

	for (int i = 0; i < 4; i++) {
		writers.emplace_back([&] {
			slub_srcu_synchronize(&domain);
			EXPECT_TRUE(left);
		});
	}
	usleep(20000);
	left = true;
	slub_srcu_read_unlock(&domain, index);
	for (auto &writer : writers)
		writer.join();
	slub_srcu_destroy(&domain);
}

TEST(Srcu, TheLibrarysOwnDomain)
{
	int index = slub_read_lock();
	uint64_t cookie = slub_srcu_start_poll(&slub_rcu_domain);

	EXPECT_FALSE(slub_srcu_poll(&slub_rcu_domain, cookie));
	slub_read_unlock(index);
	slub_srcu_synchronize(&slub_rcu_domain);
	EXPECT_TRUE(slub_srcu_poll(&slub_rcu_domain, cookie));
}

TEST(Srcu, ADestroyedDomainCanBeUsedAnew)
{
	slub_srcu domain;

	for (int i = 0; i < 1000; i++) {
		ASSERT_EQ(slub_srcu_create(&domain), 0);
		slub_srcu_read_unlock(&domain, slub_srcu_read_lock(&domain));
		slub_srcu_synchronize(&domain);
		slub_srcu_destroy(&domain);
	}
	EXPECT_LT(slub_percpu_bytes(), 32u << 10);
	slub_srcu_read_unlock(&domain, slub_srcu_read_lock(&domain));
	slub_srcu_synchronize(&domain);
	slub_srcu_destroy(&domain);
}

slub_srcu handled = SLUB_SRCU_INIT;

std::atomic<int> signals{0};

void read_in_handler(int)
{
	signals++;
	slub_srcu_read_unlock(&handled, slub_srcu_read_lock(&handled));
}

TEST(Srcu, ReadersInSignalHandlers)
{
	struct sigaction action = {};
	struct itimerval every = { { 0, 500 }, { 0, 500 } }, never = {};

	action.sa_handler = read_in_handler;
	action.sa_flags = SA_RESTART;
	sigaction(SIGALRM, &action, nullptr);
	setitimer(ITIMER_REAL, &every, nullptr);
	for (int i = 0; signals < 300; i++) {
		int index = slub_srcu_read_lock(&handled);

		slub_srcu_read_unlock(&handled, index);
		if (i % 16 == 0)
			slub_srcu_synchronize(&handled);
	}
	setitimer(ITIMER_REAL, &never, nullptr);
	signal(SIGALRM, SIG_DFL);
	slub_srcu_synchronize(&handled);
}

/* Readers of other threads, and one of the forking thread, are forgotten. */
TEST(Srcu, AForkedChildStartsWithoutReaders)
{
	slub_srcu domain = SLUB_SRCU_INIT;
	std::atomic<int> inside{0};
	std::atomic<bool> stop{false};
	std::vector<std::thread> readers;

	for (int i = 0; i < 3; i++) {
		readers.emplace_back([&] {
			int index = slub_srcu_read_lock(&domain);

			inside++;
			while (!stop)
				usleep(1000);
			slub_srcu_read_unlock(&domain, index);
		});
	}
	while (inside < 3)
		usleep(100);
	int index = slub_srcu_read_lock(&domain);
	EXPECT_EQ(harness::in_child([&] {
		slub_srcu_read_unlock(&domain, index);
		slub_srcu_synchronize(&domain);
		int own = slub_srcu_read_lock(&domain);
		uint64_t cookie = slub_srcu_start_poll(&domain);
		bool early = slub_srcu_poll(&domain, cookie);
		slub_srcu_read_unlock(&domain, own);
		slub_srcu_synchronize(&domain);
		_exit(early ? 1 : 0);
	}), 0);
	slub_srcu_read_unlock(&domain, index);
	stop = true;
	for (auto &reader : readers)
		reader.join();
	slub_srcu_synchronize(&domain);
	slub_srcu_destroy(&domain);
}

/* The areas are full: a domain that has no counters gets none. */
void fill_areas()
{
	for (size_t bytes = 32 << 20; bytes >= 4; bytes /= 2) {
		while (slub_percpu_alloc(bytes, 4))
			continue;
	}
}

/* Readers are forgotten also where they are counted in the domain itself. */
TEST(Srcu, AForkedChildStartsWithoutReadersOfADomainWithoutCounters)
{
	EXPECT_EQ(harness::in_child([] {
		slub_srcu domain = SLUB_SRCU_INIT;
		std::atomic<int> inside{0};

		fill_areas();
		if (slub_srcu_create(&domain) != -ENOSPC)
			_exit(10);
		std::thread reader([&] {
			slub_srcu_read_lock(&domain);
			inside = 1;
			pause();
		});
		while (!inside)
			usleep(100);
		int index = slub_srcu_read_lock(&domain), fresh = 0;
		pid_t child = fork();
		if (child == 0) {
			alarm(10);
			slub_srcu_synchronize(&domain);
			slub_srcu_read_unlock(&domain, index);
			slub_srcu_synchronize(&domain);
			fresh = slub_srcu_read_lock(&domain);
			uint64_t cookie = slub_srcu_start_poll(&domain);
			if (slub_srcu_poll(&domain, cookie))
				_exit(1);
			slub_srcu_read_unlock(&domain, fresh);
			slub_srcu_synchronize(&domain);
			_exit(0);
		}
		_exit(harness::wait_for(child) == 0 ? 0 : 11);
	}), 0);
}

TEST(Srcu, WhatWasAskedForBeforeTheForkIsOver)
{
	slub_srcu domain = SLUB_SRCU_INIT;
	int index = slub_srcu_read_lock(&domain);
	uint64_t cookie = slub_srcu_start_poll(&domain);

	EXPECT_FALSE(slub_srcu_poll(&domain, cookie));
	uint64_t later = slub_srcu_start_poll(&domain);
	EXPECT_EQ(harness::in_child([&] {
		int own = slub_srcu_read_lock(&domain);

		if (!slub_srcu_poll(&domain, cookie) || !slub_srcu_poll(&domain, later))
			_exit(1);
		/* What is asked for now is not. */
		if (slub_srcu_poll(&domain, slub_srcu_start_poll(&domain)))
			_exit(2);
		slub_srcu_read_unlock(&domain, own);
		slub_srcu_synchronize(&domain);
		_exit(0);
	}), 0);
	slub_srcu_read_unlock(&domain, index);
	slub_srcu_synchronize(&domain);
	slub_srcu_destroy(&domain);
}

/* membarrier(2) fails from now on, as in a sandbox that does not know it. */
bool forbid_membarrier()
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { 4, filter };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
		       SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
}

TEST(Srcu, WithoutMembarrierReadersFence)
{
	EXPECT_EQ(harness::in_child([] {
		slub_srcu domain = SLUB_SRCU_INIT;
		Torture torture(&domain);

		run_torture(torture, 10000, 2);
		if (!forbid_membarrier())
			_exit(0);
		torture.reads = torture.updates = 0;
		run_torture(torture, 1000000, 2);
		_exit(torture.bad || domain.reader & SLUB_SRCU_FAST ? 1 : 0);
	}, nullptr, 60), 0);
}

} /* namespace */
