/* SPDX-License-Identifier: MIT */
/*
 * Memory pressure: giving memory back before somebody takes the process.
 *
 * The library watches what the kernel offers:
 *
 *   $MEMORY_PRESSURE_WATCH  systemd's protocol; if it is set, only this
 *   memory.pressure         stall triggers of the process's own cgroup (v2)
 *   /proc/pressure/memory   of the machine, where those cannot be set
 *   memory.events           of the cgroup (v2): low, high, max, oom; works where
 *                           the cgroup's files are read-only
 *   memory.pressure_level,  cgroup v1: medium pressure; seven eighths of the
 *   memory.usage_in_bytes   limit
 *
 * Nothing is watched until it is asked for, in one of two ways.  From a loop of
 * your own:
 *
 *   struct pollfd p = { slub_pressure_fd(), POLLIN, 0 };
 *   ... poll(&p, ...) says that it is readable: slub_pressure_handle();
 *
 * or by a thread: slub_pressure_start_thread(), or SLUB_PRESSURE=thread in the
 * environment.  Each event empties the lists of the CPUs, gives free memory back
 * to the system, and walks over the shrinkers once, with more pressure the
 * longer it lasts, and for a bounded time.  What shrinkers share with the rest of the
 * program needs a lock even where only such a loop asks them: malloc() does, too, when
 * memory is short (SHARED DATA in slub/shrinker.h).
 */
#ifndef SLUB_INCLUDE_PRESSURE_H
#define SLUB_INCLUDE_PRESSURE_H

#include <slub/percpu.h>

#ifdef __cplusplus
SLUB_C_BEGIN
extern "C" {
#endif

/*
 * slub_pressure_fd - a descriptor that is readable when memory is short.
 *
 * The first call opens the sources.  The descriptor belongs to the library: do
 * not read it and do not close it.  A forked child must call this again; what it
 * inherited is its parent's.
 * A program that closes descriptors that it does not know, as daemons close all from
 * 3 up, should do so before the first call.  Else the library finds, before it uses
 * or closes one, that it is closed or another's; leaves it alone; says so once, with
 * SLUB_VERBOSE=1; and opens its sources anew, in the next call of this or of
 * slub_pressure_handle(), under the old number if that is free.
 * Returns the descriptor, or
 *   -ENOENT  there is nothing to watch; with SLUB_VERBOSE=1 a message says what
 *            was tried;
 *   -EMFILE, -ENOMEM and other errors of epoll_create(2);
 *   -EAGAIN  the library could not start, or another thread is opening;
 *   -EDEADLK called by a signal handler that interrupted the allocator.
 * Context: any thread, not from a signal handler.
 */
SLUB_API int slub_pressure_fd(void);

/*
 * slub_pressure_handle - react to what slub_pressure_fd() shows.
 *
 * Does nothing if there is nothing.  At most one walk, of 100 ms or a little
 * more, and one in 50 ms: events in between are counted and taken together.
 * Returns the number of events, 0: none, or
 *   -EINVAL  nothing is watched;
 *   -EDEADLK called by a signal handler that interrupted the allocator;
 *   -EBADF   the program closed the descriptor, and what has been opened anew has
 *            another number: ask slub_pressure_fd().
 * Context: any thread, not from a signal handler; calls shrinkers.
 */
SLUB_API int slub_pressure_handle(void);

/*
 * slub_pressure_start_thread, slub_pressure_stop_thread - react in a thread.
 *
 * The thread sleeps until there is an event; three times a second it looks
 * whether the heap is at rest, and what lies free then goes back to the system.
 * All signals are blocked in it.  It does not come along into a forked child.
 * Return 0, or
 *   -EEXIST  start: it runs;
 *   -EAGAIN  start: no thread can be made;
 *   -ESRCH   stop: it does not run;
 *   -EDEADLK stop: called by that thread, in a shrinker, and the thread goes on; or by
 *            a signal handler that interrupted the allocator;
 * and start the errors of slub_pressure_fd() but -ENOENT (then it only returns
 * memory of a heap at rest).
 * Context: any thread, not from a signal handler; stop waits for the walk that the
 * thread may be in.
 */
SLUB_API int slub_pressure_start_thread(void);
SLUB_API int slub_pressure_stop_thread(void);

enum slub_pressure_source {
	SLUB_PRESSURE_WATCH = 1 << 0,	/* $MEMORY_PRESSURE_WATCH */
	SLUB_PRESSURE_PSI_CGROUP = 1 << 1,
	SLUB_PRESSURE_PSI_MACHINE = 1 << 2,
	SLUB_PRESSURE_EVENTS = 1 << 3,	/* memory.events */
	SLUB_PRESSURE_V1_LEVEL = 1 << 4,
	SLUB_PRESSURE_V1_USAGE = 1 << 5,
};

struct slub_pressure_stats {
	unsigned int sources;	/* enum slub_pressure_source, what is watched */
	int priority;		/* of the last walk */
	uint64_t events;	/* seen */
	uint64_t merged;	/* of these, taken together with an earlier one */
	uint64_t walks;
	uint64_t cut_short;	/* walks that ran out of time */
	uint64_t objects;	/* that shrinkers said they freed, in all walks */
	uint64_t bytes;		/* that the library gave back, in all walks */
	uint64_t reserved[4];	/* 0 */
};

/*
 * slub_pressure_stats - what was seen and done, into *@stats.
 *
 * Returns 0, or -EINVAL: @stats is NULL.  Context: anywhere.  Cost: a few loads.
 */
SLUB_API int slub_pressure_stats(struct slub_pressure_stats *stats);

#ifdef __cplusplus
}
SLUB_C_END
#endif

#endif
