/* SPDX-License-Identifier: MIT */
/*
 * Something long that one thread does at a time: making a cache, switching a
 * cache's debugging.  Unlike a lock (base/lock.h), the thread whose turn it is
 * may take locks, allocate and wait, so one that waits for it holds none, and gives up where
 * it would wait for itself: in a signal handler or a callback of the thread whose turn
 * it is.
 *
 * A thread that finds it taken must not write to it, not even under a lock that turn_end()
 * does not take: it would set again what was cleared in between, and never clear it.
 */
#ifndef SLUB_BASE_TURN_H
#define SLUB_BASE_TURN_H

#include "base/syscall.h"
#include "base/thread.h"

struct turn {
	uint32_t owner;		/* atomic; thread_self(), 0: nobody */
};

/* How often turn_wait() looks: some five seconds, or as long as it takes. */
#define TURN_TRIES 100000u
#define TURN_TRIES_ANY UINT32_MAX

/* The thread that has it now, or 0: this thread has just taken it. */
static inline uint32_t turn_ask(struct turn *turn)
{
	uint32_t owner = 0;

	/* acquire: pairs with the release in turn_end() */
	__atomic_compare_exchange_n(&turn->owner, &owner, thread_self(), false,
				    __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
	return owner;
}

/* False: somebody has it. */
static inline bool turn_try(struct turn *turn)
{
	return turn_ask(turn) == 0;
}

/* False: this thread has it and was interrupted, or it takes too long. */
static inline bool turn_wait(struct turn *turn, uint32_t tries)
{
	for (uint32_t i = 0; i < tries || tries == TURN_TRIES_ANY; i++) {
		uint32_t owner = turn_ask(turn);

		if (owner == 0)
			return true;
		if (owner == thread_self())
			return false;
		sys_wait(i);
	}
	return false;
}

static inline void turn_end(struct turn *turn)
{
	__atomic_store_n(&turn->owner, 0, __ATOMIC_RELEASE);
}

/*
 * In the child of a fork.  True: it was another thread's, which did not come along;
 * nobody has it now.  This thread's own goes on, when the handler that forked returns.
 */
static inline bool turn_after_fork(struct turn *turn)
{
	if (turn->owner == 0 || turn->owner == thread_self())
		return false;
	turn->owner = 0;
	return true;
}

#endif
