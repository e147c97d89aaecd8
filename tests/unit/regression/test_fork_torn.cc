/* SPDX-License-Identifier: MIT */
/*
 * A handler that interrupted the holder of a lock forks, and cannot have another of the library's
 * locks: in the child malloc works or says no (LOCK-4).  Any other fork begins anew until it has
 * all of them.
 */
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sched.h>
#include <semaphore.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "harness.h"
#include "slub.h"

#define _Static_assert static_assert
extern "C" {
#include "core/percpu/percpu.h"
#include "core/slab/slab_internal.h"

extern void _IO_list_lock(void) __attribute__((weak));
extern void _IO_list_unlock(void) __attribute__((weak));
}
#undef _Static_assert

namespace {

void *inherited[3];
const size_t inherited_bytes[3] = { 100, 9000, 1 << 20 };

/* 0, or what went wrong. */
int use_malloc()
{
	for (size_t n = 1; n < 300000; n = n * 3 / 2 + 1) {
		void *block = malloc(n), *other = calloc(1, n);

		if (n <= 1024 && (!block || !other))
			return 10;
		if (block)
			harness::fill(block, n, n);
		if (other && harness::first_nonzero(other, n) != n)
			return 11;
		if (block && !harness::intact(block, n, n))
			return 12;
		free(block);
		free(other);
	}
	return 0;
}

int use_until_refused()
{
	for (int i = 0; i < 100000; i++) {
		errno = 0;
		if (!malloc(64 << 10))
			return errno == ENOMEM ? 0 : 20;
	}
	return 21;
}

/* The child of such a child is one, too. */
int be_grandchild()
{
	int status = slub_thread.locks_held ? use_malloc() : 30;

	return status ? status : use_until_refused();
}

int be_child()
{
	int status;
	pid_t pid;

	alarm(60);
	for (int i = 0; i < 3; i++) {
		if (!harness::intact(inherited[i], inherited_bytes[i], i))
			return 31;
		free(inherited[i]);
	}
	malloc_trim(0);
	pid = fork();
	if (!pid)
		_exit(be_grandchild());
	status = harness::wait_for(pid);
	return status ? 40 + (status >> 8) : be_grandchild();
}

class fork_torn : public testing::TestWithParam<struct lock *> {};

TEST_P(fork_torn, the_child_takes_no_lock)
{
	sem_t held, over;

	for (int i = 0; i < 3; i++) {
		inherited[i] = malloc(inherited_bytes[i]);
		harness::fill(inherited[i], inherited_bytes[i], i);
	}
	sem_init(&held, 0, 0);
	sem_init(&over, 0, 0);
	std::thread holder([&] {
		lock_acquire(GetParam());
		sem_post(&held);
		while (sem_wait(&over))
			continue;
		lock_release(GetParam());
	});
	while (sem_wait(&held))
		continue;
	struct lock own = LOCK_INIT;
	lock_acquire(&own);
	pid_t pid = fork();
	if (!pid) {
		int status = be_child();

		/* What runs at exit has to do without, too. */
		exit(status);
	}
	lock_release(&own);
	sem_post(&over);
	holder.join();
	int status = harness::wait_for(pid);
	EXPECT_EQ(status, 0) << harness::describe_status(status);
	/* The parent is as it was. */
	EXPECT_EQ(slub_thread.locks_held, 0u);
	for (void *block : inherited)
		free(block);
	EXPECT_EQ(use_malloc(), 0);
	pid = fork();
	if (!pid)
		_exit(slub_thread.locks_held ? 50 : use_malloc());
	EXPECT_EQ(harness::wait_for(pid), 0);
}

/*
 * The holder waits for the list of streams before it lets go, as a fork in a handler that
 * interrupted it does.  The fork that took that list first has to let go of it.
 */
TEST_P(fork_torn, an_ordinary_fork_waits_and_its_child_is_whole)
{
	struct lock *lock = GetParam();
	std::atomic<bool> held{false}, over{false};
	std::thread holder([&] {
		lock_acquire(lock);
		held = true;
		while (!__atomic_load_n((uint32_t *)&area_lock.word, __ATOMIC_RELAXED) && !over)
			sched_yield();
		if (_IO_list_lock) {
			_IO_list_lock();
			_IO_list_unlock();
		}
		lock_release(lock);
	});
	while (!held)
		sched_yield();
	alarm(60);
	pid_t pid = fork();
	if (!pid)
		_exit(slub_thread.locks_held ? 60 : use_malloc());
	over = true;
	holder.join();
	alarm(0);
	int status = harness::wait_for(pid);
	EXPECT_EQ(status, 0) << harness::describe_status(status);
	EXPECT_EQ(slub_thread.locks_held, 0u);
}

INSTANTIATE_TEST_SUITE_P(locks, fork_torn, testing::Values(&superblock_lock, &cache_lock));

} /* namespace */
