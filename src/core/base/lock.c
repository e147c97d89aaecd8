/* SPDX-License-Identifier: MIT */
#include "core/base/lock.h"

#include <linux/futex.h>

#include "core/base/syscall.h"
#include "core/base/turn.h"

uint32_t turn_forks fork_writes;

/*
 * The only thread that has taken a lock so far (thread_self()); LOCK_ALONE_NOT: there are more.
 * That thread's fork takes none, for nobody else can hold one: in the child and in its parent each
 * lock costs a page fault, where it lies on a page of its own.  A thread that takes its first one
 * waits until such a fork is over (lock_join()).
 */
static uint32_t lock_alone fork_writes;
#define LOCK_ALONE_NOT 1u	/* no thread is named so: bit 0 is clear */
/* A thread has seen that it is not alone, and waits until no fork relies on it. */
#define LOCK_ALONE_ENDS 3u
/* The thread that forks without locks, for it is alone. */
static uint32_t forks_alone fork_writes;

/* The lock that this thread held when it began to fork. */
static __thread void *lock_kept
	__attribute__((tls_model("initial-exec")));

/*
 * Spinning pays only while the owner runs, that is for the few tens of
 * nanoseconds that a critical section lasts; then sleep, for the owner may
 * have been preempted.
 */
#define SPIN_TRIES 128

static cold void lock_wait(struct lock *lock, uint32_t self)
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

/*
 * Either this thread sees the fork, or the fork sees this store: seq_cst, all four.  Others that
 * come meanwhile wait as well, for the fork may have begun before that store.
 */
static cold void lock_join(uint32_t self)
{
	uint32_t alone = 0, ends = LOCK_ALONE_ENDS;

	if (__atomic_compare_exchange_n(&lock_alone, &alone, self, false, __ATOMIC_RELAXED,
					__ATOMIC_RELAXED) || alone == LOCK_ALONE_NOT)
		return;
	if (alone != LOCK_ALONE_ENDS)
		__atomic_compare_exchange_n(&lock_alone, &alone, LOCK_ALONE_ENDS, false,
					    __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
	for (unsigned int i = 0; __atomic_load_n(&forks_alone, __ATOMIC_SEQ_CST); i++)
		sys_wait(i);
	__atomic_compare_exchange_n(&lock_alone, &ends, LOCK_ALONE_NOT, false, __ATOMIC_RELEASE,
				    __ATOMIC_RELAXED);
}

/* Before a thread's first lock. */
static always_inline void lock_join_first(uint32_t self)
{
	uint32_t alone = __atomic_load_n(&lock_alone, __ATOMIC_RELAXED);

	if (unlikely(alone != self && alone != LOCK_ALONE_NOT))
		lock_join(self);
}

void lock_acquire_counted(struct lock *lock)
{
	uint32_t self = thread_self();
	uint32_t old = 0;

	slub_thread.locks_held++;	/* LOCK-2 */
	compiler_barrier();
	lock_join_first(self);
	/* acquire: pairs with the release in lock_release() */
	if (unlikely(!__atomic_compare_exchange_n(&lock->word, &old, self,
						  false, __ATOMIC_ACQUIRE,
						  __ATOMIC_RELAXED)))
		lock_wait(lock, self);
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
#define FORK_UNDECIDED (UINT8_MAX - 1)	/* it has asked for none: decide() */
#define FORK_WAIT_NS 50000
#define FORK_PAUSE_DOUBLINGS 9	/* up to 26 ms */

bool lock_fork_is_alone(void)
{
	return __atomic_load_n(&forks_alone, __ATOMIC_RELAXED) == thread_self();
}

void lock_fork_begin(void)
{
	slub_thread.fork_patience = FORK_PATIENCE;
}

void lock_fork_begin_alone(void)
{
	slub_thread.fork_patience = FORK_UNDECIDED;
}

static void decide(void)
{
	uint32_t self = thread_self();

	slub_thread.fork_patience = FORK_PATIENCE;
	lock_join_first(self);
	if (__atomic_load_n(&lock_alone, __ATOMIC_RELAXED) != self)
		return;
	/* seq_cst: pairs with lock_join() */
	__atomic_store_n(&forks_alone, self, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&lock_alone, __ATOMIC_SEQ_CST) == self)
		slub_thread.locks_held++;	/* as if it had taken one: LOCK-2 */
	else
		__atomic_store_n(&forks_alone, 0, __ATOMIC_RELEASE);
}

void lock_fork_release_begin(void)
{
	if (lock_fork_is_alone())
		slub_thread.locks_held--;
}

/* The child is alone, whatever its parent was. */
void lock_fork_release_end(bool in_child)
{
	if (in_child)
		__atomic_store_n(&lock_alone, thread_self(), __ATOMIC_RELAXED);
	if (in_child || lock_fork_is_alone())
		__atomic_store_n(&forks_alone, 0, __ATOMIC_RELEASE);
}

bool lock_fork_has(const struct lock *lock)
{
	return lock_fork_is_alone() || lock_is_mine(lock);
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
	if (slub_thread.fork_patience == FORK_UNDECIDED)
		decide();
	if (lock_fork_is_alone())
		return;
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

	if (lock_fork_is_alone())
		return;
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
