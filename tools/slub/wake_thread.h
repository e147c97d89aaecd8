/* SPDX-License-Identifier: MIT */
/* A thread of another process as /proc shows it: the call that it waits in, its signals. */
#ifndef SLUB_TOOL_WAKE_THREAD_H
#define SLUB_TOOL_WAKE_THREAD_H

#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct wake_thread {
	pid_t process, id;
	char name[32];
	char state;			/* 'S': it waits, and a signal would end that */
	int cpu;			/* the one that it ran on last */
	uint64_t blocked, handled, ignored;	/* signals */
	uint64_t switches;		/* how often it has begun to wait */
	pid_t tracer;			/* 0: nobody */
	bool has_shadow_stack;
	/* the call that it is in */
	bool is_in_call;
	uint64_t call, arguments[6], sp, pc;
};

/* False: it has ended, or cannot be looked at. */
bool wake_thread_read(struct wake_thread *thread, pid_t process, pid_t id);
/* How often it has begun to wait, now. */
uint64_t wake_thread_switches(const struct wake_thread *thread);
/*
 * When it has begun to wait, at the latest, by CLOCK_MONOTONIC; 0 where the kernel does not tell.
 * Runs on the CPU that the thread ran on, for each has a clock of its own.
 */
double wake_thread_since(const struct wake_thread *thread);

/* @id becomes the next thread in a folder /proc/PID/task.  False: there is none. */
bool wake_thread_next(DIR *folder, pid_t *id);

static inline bool signal_is_in(uint64_t set, int number)
{
	return set >> (number - 1) & 1;
}

#endif
