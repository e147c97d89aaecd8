/* SPDX-License-Identifier: MIT */
/* core/base/lock.c: exclusion, waking, ownership, fork. */
#include <algorithm>
#include <atomic>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "harness.h"
#include "slub.h"

namespace {

uint32_t word_of(struct lock *lock)
{
	return __atomic_load_n(&lock->word, __ATOMIC_RELAXED);
}

void yield_until(const std::function<bool()> &done)
{
	while (!done())
		std::this_thread::yield();
}

TEST(lock, names_its_owner)
{
	struct lock lock = LOCK_INIT;

	EXPECT_EQ(slub_thread.locks_held, 0u);
	EXPECT_FALSE(lock_is_mine(&lock));
	lock_acquire(&lock);
	EXPECT_EQ(slub_thread.locks_held, 1u);
	EXPECT_EQ(word_of(&lock), thread_self());
	EXPECT_TRUE(lock_is_mine(&lock));
	std::thread([&] { EXPECT_FALSE(lock_is_mine(&lock)); }).join();
	lock_release(&lock);
	EXPECT_EQ(word_of(&lock), 0u);
	EXPECT_EQ(slub_thread.locks_held, 0u);
}

TEST(lock, threads_have_names_of_their_own)
{
	const size_t nr = 100;
	std::vector<uint32_t> names(nr);
	std::vector<std::thread> threads;
	std::atomic<size_t> there{0};

	for (size_t i = 0; i < nr; i++)
		threads.emplace_back([&, i] {
			names[i] = thread_self();
			there++;
			yield_until([&] { return there == nr; });
		});
	for (auto &thread : threads)
		thread.join();
	names.push_back(thread_self());
	for (uint32_t name : names) {
		EXPECT_NE(name, 0u);
		EXPECT_EQ(name & LOCK_WAITERS, 0u);
	}
	std::sort(names.begin(), names.end());
	EXPECT_EQ(std::unique(names.begin(), names.end()), names.end());
}

TEST(lock, excludes)
{
	static struct lock lock = LOCK_INIT;
	const int nr_threads = 4, nr_rounds = 40000;
	/* Plain on purpose: only the lock keeps additions from getting lost. */
	volatile long sum = 0;
	std::atomic<int> inside{0};
	std::atomic<bool> two_inside{false};
	std::vector<std::thread> threads;

	for (int t = 0; t < nr_threads; t++)
		threads.emplace_back([&] {
			for (int i = 0; i < nr_rounds; i++) {
				lock_acquire(&lock);
				if (inside.fetch_add(1) != 0)
					two_inside = true;
				long was = sum;
				if (i % 256 == 0)
					sched_yield();
				sum = was + 1;
				inside--;
				lock_release(&lock);
			}
		});
	for (auto &thread : threads)
		thread.join();
	EXPECT_FALSE(two_inside);
	EXPECT_EQ(sum, (long)nr_threads * nr_rounds);
	EXPECT_EQ(word_of(&lock), 0u);
}

TEST(lock, every_sleeper_is_woken)
{
	static struct lock lock = LOCK_INIT;
	const int nr = 8;
	std::atomic<int> served{0}, asking{0};
	std::vector<std::thread> threads;

	lock_acquire(&lock);
	for (int t = 0; t < nr; t++)
		threads.emplace_back([&] {
			asking++;
			lock_acquire(&lock);
			served++;
			lock_release(&lock);
		});
	yield_until([&] { return asking == nr && (word_of(&lock) & LOCK_WAITERS); });
	EXPECT_EQ(word_of(&lock) & ~LOCK_WAITERS, thread_self());
	/* They sleep by now, or at least most of them do. */
	usleep(20000);
	EXPECT_EQ(served, 0);
	EXPECT_TRUE(lock_is_mine(&lock));
	lock_release(&lock);
	for (auto &thread : threads)
		thread.join();
	EXPECT_EQ(served, nr);
	EXPECT_EQ(word_of(&lock), 0u);
}

TEST(lock_fork, free_lock_is_taken_and_let_go)
{
	struct lock lock = LOCK_INIT;

	lock_fork_begin();
	lock_acquire_for_fork(&lock);
	EXPECT_TRUE(lock_is_mine(&lock));
	EXPECT_EQ(slub_thread.locks_held, 1u);
	lock_release_after_fork(&lock, false);
	EXPECT_EQ(word_of(&lock), 0u);
	EXPECT_EQ(slub_thread.locks_held, 0u);
}

/* fork in a signal handler that interrupted the holder of a lock. */
TEST(lock_fork, own_lock_stays_with_the_interrupted_code)
{
	struct lock own = LOCK_INIT, other = LOCK_INIT;

	lock_acquire(&own);
	lock_acquire_for_fork(&own);
	lock_acquire_for_fork(&other);
	EXPECT_EQ(slub_thread.locks_held, 2u);
	lock_release_after_fork(&other, false);
	lock_release_after_fork(&own, false);
	EXPECT_TRUE(lock_is_mine(&own));
	EXPECT_FALSE(lock_is_mine(&other));
	EXPECT_EQ(slub_thread.locks_held, 1u);
	lock_release(&own);
	/* The next fork is an ordinary one again. */
	lock_acquire_for_fork(&own);
	EXPECT_TRUE(lock_is_mine(&own));
	lock_release_after_fork(&own, false);
	EXPECT_EQ(word_of(&own), 0u);
	EXPECT_EQ(slub_thread.locks_held, 0u);
}

/* Takes and holds a lock while it lives; the constructor returns when it is held. */
class holder {
public:
	explicit holder(struct lock *lock) : thread([this, lock] {
		lock_acquire(lock);
		held = true;
		yield_until([this] { return let_go.load(); });
		lock_release(lock);
	})
	{
		yield_until([this] { return held.load(); });
	}
	~holder()
	{
		let_go = true;
		thread.join();
	}
	std::atomic<bool> held{false}, let_go{false};
	std::thread thread;
};

/* It waits for a while only, so a slow machine gets more than one try. */
TEST(lock_fork, waits_for_another_holder)
{
	static struct lock lock = LOCK_INIT;
	bool taken = false;

	for (int i = 0; i < 50 && !taken; i++) {
		holder other(&lock);
		std::thread later([&] {
			usleep(1000);
			other.let_go = true;
		});

		lock_fork_begin();
		lock_acquire_for_fork(&lock);
		taken = lock_is_mine(&lock);
		EXPECT_EQ(slub_thread.locks_held, taken ? 1u : 0u);
		EXPECT_EQ(lock_fork_is_whole(), taken);
		lock_release_after_fork(&lock, false);
		later.join();
	}
	EXPECT_TRUE(taken);
	EXPECT_EQ(slub_thread.locks_held, 0u);
	EXPECT_EQ(word_of(&lock), 0u);
}

TEST(lock_fork, gives_up_a_lock_that_cannot_be_had)
{
	static struct lock lock = LOCK_INIT;
	holder other(&lock);

	uint32_t owner = word_of(&lock);
	lock_fork_begin();
	lock_acquire_for_fork(&lock);
	EXPECT_FALSE(lock_is_mine(&lock));
	EXPECT_EQ(slub_thread.locks_held, 0u);
	EXPECT_EQ(word_of(&lock), owner);
	EXPECT_FALSE(lock_fork_is_whole());
	/* In the parent its holder goes on as if nothing had been. */
	lock_release_after_fork(&lock, false);
	EXPECT_EQ(word_of(&lock), owner);
	lock_fork_begin();
	EXPECT_TRUE(lock_fork_is_whole());
}

/* The parent's waiters are no concern of the child, but are woken in the parent. */
TEST(lock_fork, waiters_belong_to_the_parent)
{
	static struct lock lock = LOCK_INIT;
	std::atomic<bool> served{false};

	lock_acquire_for_fork(&lock);
	std::thread waiter([&] {
		lock_acquire(&lock);
		served = true;
		lock_release(&lock);
	});
	yield_until([] { return word_of(&lock) & LOCK_WAITERS; });
	pid_t child = fork();
	if (child == 0) {
		lock_release_after_fork(&lock, true);
		bool good = word_of(&lock) == 0 && slub_thread.locks_held == 0;
		lock_acquire(&lock);
		good = good && word_of(&lock) == thread_self();
		_exit(good ? 0 : 1);
	}
	int status = harness::wait_for(child);
	EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
		<< harness::describe_status(status);
	EXPECT_FALSE(served);
	lock_release_after_fork(&lock, false);
	waiter.join();
	EXPECT_TRUE(served);
}

} /* namespace */
