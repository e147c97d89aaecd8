/* SPDX-License-Identifier: MIT */
/* pressure: what its two files share; of this layer only. */
#ifndef SLUB_RECLAIM_PRESSURE_H
#define SLUB_RECLAIM_PRESSURE_H

#include "reclaim/reclaim_internal.h"

#include <slub/pressure.h>

/* How bad it is, and so what a first walk asks for. */
enum severity {
	SEVERITY_NONE,
	SEVERITY_SOME,		/* some threads wait for memory; low, high */
	SEVERITY_FULL,		/* all do; the limit is near */
	SEVERITY_LIMIT,		/* the limit is reached */
};

#define SOURCES_MAX 8
#define EVENT_COUNTS 5

struct source {
	enum slub_pressure_source kind;
	enum severity severity;
	uint32_t poll_events;
	int fd;
	int other_fd;		/* is kept open with it; -1: none */
	bool is_over;		/* it will tell nothing any more */
	uint64_t counts[EVENT_COUNTS];	/* memory.events, as last read */
};

/* Microseconds; stalled for so long within a window. */
struct pressure_options {
	uint32_t some_us;
	uint32_t full_us;
	uint32_t window_us;
	bool wants_thread;
};
extern struct pressure_options pressure_options;

/* source.c: opens what there is; returns how many. */
int sources_open(struct source *sources);
void sources_close(struct source *sources, int nr);
/*
 * Reads what made it ready, so that it becomes ready anew, or finds that it is
 * over.  @events: what epoll says of it.
 */
enum severity source_read(struct source *source, uint32_t events);

/* thread.c */
void pressure_thread_fork_child(void);
/* pressure.c: waits for an event, a wake-up, or @timeout_ms. */
void pressure_wait(int wake_fd, int timeout_ms);

static inline void close_fd(int fd)
{
	if (fd >= 0)
		sys_call4(SYS_close, fd, 0, 0, 0);
}

#endif
