/* SPDX-License-Identifier: MIT */
/*
 * What the library keeps per thread: one small structure in static TLS, so
 * that it needs no allocation, no destructor, and is there from a thread's
 * first instruction to its last.
 *
 * Everything here is touched by its own thread only (a signal handler runs as
 * its thread); `busy` is also read by a thread that drains (backend thread).
 */
#ifndef SLUB_BASE_THREAD_H
#define SLUB_BASE_THREAD_H

#include "base/compiler.h"

enum thread_flag {
	THREAD_CHECKED = 1 << 0,	/* registration was looked at */
	THREAD_IN_RECLAIM = 1 << 2,	/* do not start reclaim again */
	THREAD_IN_INIT = 1 << 3,	/* is starting the library */
	THREAD_FORKING = 1 << 4,	/* keeps collectors out for its fork */
};

struct thread_state {
	/*
	 * The table of CPU areas that the fast path indexes.  It names the
	 * dummy table until the slow path has seen that the kernel has
	 * registered this thread: a thread that is not registered never
	 * leaves it.
	 */
	void **cpu_base;
	uint32_t locks_held;	/* > 0: no lock may be taken in a handler */
	uint32_t flags;		/* enum thread_flag */
	uint32_t number;	/* backend thread: own slot number + 1 */
	_Atomic uint32_t busy;	/* backend thread: inside a sequence */
	void *slab_locked;	/* layout lock56: whose lock bit it holds */
	void *lock_kept;	/* the lock it held when it began to fork */
	uint32_t fork_patience;	/* waits left for locks, see lock.c */
	/*
	 * Where the fast path writes its rseq_cs pointer (at +8) and reads its
	 * CPU number (at +24), 0 for ever, when there is no rseq area to use.
	 */
	uint64_t scratch[4] align_to(32);
};

extern __thread struct thread_state slub_thread
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/*
 * Names a living thread: stable across fork, never 0, bit 0 clear.  Thread
 * control blocks lie a stack apart, so the page number tells them apart; it
 * is unique within 8 TiB, and only fork's "is this lock mine" relies on it.
 */
static inline uint32_t thread_self(void)
{
	return (uint32_t)((uintptr_t)&slub_thread >> 12) << 1;
}

#endif
