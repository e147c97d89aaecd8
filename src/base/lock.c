/* SPDX-License-Identifier: MIT */
#include "base/lock.h"

#include <linux/futex.h>

#include "base/syscall.h"
#include "base/turn.h"

uint32_t turn_forks fork_writes;

/* The lock that this thread held when it began to fork. */
static __thread void *lock_kept
	__attribute__((tls_model("initial-exec")));

/*
 * Spinning pays only while the owner runs, that is for the few tens of
 * nanoseconds that a critical section lasts; then sleep, for the owner may
 * have been preempted.
 */
#define SPIN_TRIES 128

void lock_wait(struct lock *lock, uint32_t self)
{
	uint32_t old;

	for (int i = 0; i < SPIN_TRIES; i++) {
		old = __atomic_load_n(&lock->word, __ATOMIC_RELAXED);
		if (old == 0 &&
		    __atomic_compare_exchange_n(&lock->word, &old, self, false,
						__ATOMIC_ACQUIRE,
						__ATOMIC_RELAXED))
			return;
		cpu_relax();
	}
	for (;;) {
		old = __atomic_load_n(&lock->word, __ATOMIC_RELAXED);
		if (old == 0) {
			/*
			 * Others may sleep behind us: keep the mark, at the
			 * price of one wake-up too many.
			 */
			if (__atomic_compare_exchange_n(
				    &lock->word, &old, self | LOCK_WAITERS,
				    false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
				return;
			continue;
		}
		if (!(old & LOCK_WAITERS) &&
		    !__atomic_compare_exchange_n(&lock->word, &old,
						 old | LOCK_WAITERS, false,
						 __ATOMIC_RELAXED,
						 __ATOMIC_RELAXED))
			continue;
		sys_futex((uint32_t *)&lock->word, FUTEX_WAIT_PRIVATE,
			  old | LOCK_WAITERS);
	}
}

void lock_wake(struct lock *lock)
{
	sys_futex((uint32_t *)&lock->word, FUTEX_WAKE_PRIVATE, 1);
}

/*
 * A fork waits for all its locks together so many times 50 us, and the time that the kernel
 * adds: their holders may wait for what this fork has (lock.h).
 */
#define FORK_PATIENCE 200
#define FORK_TORN UINT8_MAX	/* this fork could not have one of the locks */
#define FORK_WAIT_NS 50000
#define FORK_PAUSE_DOUBLINGS 9	/* up to 26 ms */

void lock_fork_begin(void)
{
	slub_thread.fork_patience = FORK_PATIENCE;
}

void lock_fork_pause(unsigned int round)
{
	unsigned int doublings = round < FORK_PAUSE_DOUBLINGS ? round : FORK_PAUSE_DOUBLINGS;

	sys_sleep_ns((uint64_t)FORK_WAIT_NS << doublings);
}

bool lock_fork_is_whole(void)
{
	return slub_thread.fork_patience != FORK_TORN;
}

static bool lock_try(struct lock *lock)
{
	uint32_t old = 0;

	return __atomic_compare_exchange_n(&lock->word, &old, thread_self(),
					   false, __ATOMIC_ACQUIRE,
					   __ATOMIC_RELAXED);
}

/* False: the lock was not to be had in time. */
static bool lock_try_for_a_while(struct lock *lock)
{
	for (int tries = 0; !lock_try(lock); tries++) {
		if (tries < SPIN_TRIES) {
			cpu_relax();
			continue;
		}
		if (!lock_fork_is_whole())
			return false;
		if (--slub_thread.fork_patience == 0) {
			slub_thread.fork_patience = FORK_TORN;
			return false;
		}
		sys_sleep_ns(FORK_WAIT_NS);
	}
	return true;
}

void lock_acquire_for_fork(struct lock *lock)
{
	if (lock_is_mine(lock)) {
		lock_kept = lock;
		return;
	}
	slub_thread.locks_held++;
	compiler_barrier();
	if (!lock_try_for_a_while(lock))
		slub_thread.locks_held--;
}

void lock_release_after_fork(struct lock *lock, bool in_child)
{
	uint32_t old;

	if (lock == lock_kept) {
		lock_kept = NULL;
		return;
	}
	if (!lock_is_mine(lock))
		return;
	old = __atomic_exchange_n(&lock->word, 0, __ATOMIC_RELEASE);
	if (!in_child && (old & LOCK_WAITERS))
		lock_wake(lock);
	slub_thread.locks_held--;
}
