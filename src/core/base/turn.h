/* SPDX-License-Identifier: MIT */
/*
 * Something long that one thread does at a time, and that others leave alone meanwhile:
 * reading a file, changing an option.  Unlike a lock (core/base/lock.h), the thread whose turn it
 * is may take locks, allocate and wait.  What others wait for is a line (core/base/line.h).
 */
#ifndef SLUB_BASE_TURN_H
#define SLUB_BASE_TURN_H

#include "core/base/thread.h"

/*
 * In the child of a fork the turns of all other threads are over.  Nobody has to be told: each
 * turn says in which process it was taken, by how many forks that one came of.  The child's
 * own turn goes on, when the handler that forked returns.
 */
struct turn {
	uint64_t owner;		/* atomic; forks << 32 | thread_self() | TURN_WAITED, 0: nobody */
};

/* lock.c: how many forks this process came of. */
extern uint32_t turn_forks SLUB_INTERNAL;

/* Somebody waits for it (core/base/line.h): beside the owner, whose bit 0 is clear. */
#define TURN_WAITED 1u

static inline uint32_t turn_owner_self(uint64_t owner)
{
	return (uint32_t)owner & ~TURN_WAITED;
}

static inline bool turn_owner_is_gone(uint64_t owner)
{
	return owner >> 32 != turn_forks && turn_owner_self(owner) != thread_self();
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
			return turn_owner_self(owner);
	}
	return 0;
}

/* False: somebody has it. */
static inline bool turn_try(struct turn *turn)
{
	return turn_ask(turn) == 0;
}

static inline void turn_end(struct turn *turn)
{
	__atomic_store_n(&turn->owner, 0, __ATOMIC_RELEASE);
}

#endif
