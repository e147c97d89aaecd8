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

/*
 * In the child of a fork the turns of all other threads are over.  Nobody has to be told: each
 * turn says in which process it was taken, by how many forks that one came of.  The child's
 * own turn goes on, when the handler that forked returns.
 */
struct turn {
	uint64_t owner;		/* atomic; forks << 32 | thread_self(), 0: nobody */
};

/* lock.c: how many forks this process came of. */
extern uint32_t turn_forks SLUB_INTERNAL;

/* How often turn_wait() looks: some five seconds, or as long as it takes. */
#define TURN_TRIES 100000u
#define TURN_TRIES_ANY UINT32_MAX

static inline bool turn_owner_is_gone(uint64_t owner)
{
	return owner >> 32 != turn_forks && (uint32_t)owner != thread_self();
}

/* In the child of a fork: is it that of a thread that did not come along? */
static inline bool turn_is_left(const struct turn *turn)
{
	uint64_t owner = __atomic_load_n(&turn->owner, __ATOMIC_RELAXED);

	return owner && turn_owner_is_gone(owner);
}

/* The thread that has it now, or 0: this thread has just taken it. */
static inline uint32_t turn_ask(struct turn *turn)
{
	uint64_t mine = (uint64_t)turn_forks << 32 | thread_self(), owner = 0;

	/* acquire: pairs with the release in turn_end() */
	while (!__atomic_compare_exchange_n(&turn->owner, &owner, mine, false,
					    __ATOMIC_ACQUIRE,
					    __ATOMIC_RELAXED)) {
		if (!turn_owner_is_gone(owner))
			return (uint32_t)owner;
	}
	return 0;
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

#endif
