/* SPDX-License-Identifier: MIT */
/*
 * The library's only lock.
 *
 * The discipline that makes signal handlers and fork safe (docs/internals/locking.md):
 *
 *   LOCK-1  a thread holds at most one lock at a time and calls nothing that
 *           may take another, so one that waits for a lock holds none; but for a node's
 *           lock below area_lock, where CPUs are stopped (lock_acquire_below());
 *   LOCK-2  a thread that holds a lock has locks_held > 0 from before the
 *           acquisition until after the release, so a signal handler that
 *           interrupted it knows that it may take none;
 *   LOCK-3  the lock word names its owner in the instruction that acquires
 *           it, so fork can tell its own lock from another thread's.
 *
 * Only the fork handler takes several, in the order of their list, where area_lock is in front
 * of node locks.  By LOCK-1 nobody it waits for is waiting for it, with one exception: a signal
 * handler that interrupted the holder of a lock and forks, while another thread
 * forks too.  So each waits for a while only.  The fork in such a handler then
 * goes on without the lock, for its holder cannot let go of the one that it has.
 * Any other fork lets go of all that it has, the C library's list of streams too,
 * pauses, and begins anew, until it has all of them.
 *
 *   LOCK-4  the child of a fork that went on without a lock keeps all locks of its fork for ever:
 *           like a handler, it takes none (LOCK-2), and looks at nothing that
 *           a lock protects (docs/internals/locking.md).
 */
#ifndef SLUB_BASE_LOCK_H
#define SLUB_BASE_LOCK_H

#include "core/base/assert.h"
#include "core/base/compiler.h"
#include "core/base/thread.h"

/*
 *  31                            1   0
 * +-------------------------------+---+
 * |      owner, thread_self()     | W |   W: somebody waits (futex)
 * +-------------------------------+---+   0: free
 */
struct lock {
	_Atomic uint32_t word;
};

#define LOCK_INIT { 0 }
#define LOCK_WAITERS 1u

cold void lock_wake(struct lock *lock);

/* One function: what the inlined calls would take is more than the first windows have room for. */
void lock_acquire_counted(struct lock *lock);

static inline void lock_acquire(struct lock *lock)
{
	slub_assert(slub_thread.locks_held == 0);
	lock_acquire_counted(lock);
}

/* LOCK-1: with one held that comes before @lock in each order, a fork's too. */
static inline void lock_acquire_below(struct lock *lock)
{
	slub_assert(slub_thread.locks_held == 1);
	lock_acquire_counted(lock);
}

static inline void lock_release(struct lock *lock)
{
	uint32_t old;

	/* release: pairs with the acquire in lock_acquire() */
	old = __atomic_exchange_n(&lock->word, 0, __ATOMIC_RELEASE);
	slub_assert((old & ~LOCK_WAITERS) == thread_self());
	if (unlikely(old & LOCK_WAITERS))
		lock_wake(lock);
	compiler_barrier();
	slub_thread.locks_held--;
}

static inline bool lock_is_mine(const struct lock *lock)
{
	return (__atomic_load_n(&lock->word, __ATOMIC_RELAXED) &
		~LOCK_WAITERS) == thread_self();
}

/* To be called before the first lock_acquire_for_fork() of a fork. */
void lock_fork_begin(void);
/* The same for one that takes no lock where this thread is alone; the first decides that. */
void lock_fork_begin_alone(void);
/* From there on: is it, so that nobody else holds one? */
bool lock_fork_is_alone(void);
/* To be called before the first lock_release_after_fork(), and behind the last. */
void lock_fork_release_begin(void);
void lock_fork_release_end(bool in_child);
/* In between: nobody else changes what @lock protects. */
bool lock_fork_has(const struct lock *lock);
/*
 * For fork only: takes @lock, unless this thread already holds it or cannot have it in
 * time: some hundredths of a second are for all locks of a fork.
 */
void lock_acquire_for_fork(struct lock *lock);
/* From there on: were all of them to be had?  If not, a child would be one of LOCK-4. */
bool lock_fork_is_whole(void);
/* With none of them held: the @round-th wait of a fork that begins anew. */
void lock_fork_pause(unsigned int round);
/*
 * After fork: releases what lock_acquire_for_fork() took; a lock that the code
 * interrupted by a handler that forks holds stays held.
 */
void lock_release_after_fork(struct lock *lock, bool in_child);

/* Where a fork is. */
enum fork_step {
	FORK_BEGINS,
	FORK_PARENT,	/* it is over, in the parent */
	FORK_CHILD,	/* ... in the child */
};

static inline enum fork_step fork_end(bool in_child)
{
	return in_child ? FORK_CHILD : FORK_PARENT;
}

/* Takes @lock for a fork, or releases it. */
static inline void lock_fork(struct lock *lock, enum fork_step step)
{
	if (step == FORK_BEGINS)
		lock_acquire_for_fork(lock);
	else
		lock_release_after_fork(lock, step == FORK_CHILD);
}

#endif
