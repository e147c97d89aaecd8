/* SPDX-License-Identifier: MIT */
/* pressure: what its two files share; of this layer only. */
#ifndef SLUB_RECLAIM_PRESSURE_H
#define SLUB_RECLAIM_PRESSURE_H

#include "reclaim/descriptor.h"
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

/* What a stall trigger was told: so long in a window. */
struct stall {
	const char *word;	/* its line; NULL: this is no trigger */
	uint32_t stall_us;
	uint32_t window_us;
	uint64_t total_us;	/* as of the look at since_ns */
	uint64_t since_ns;
};

struct source {
	enum slub_pressure_source kind;
	enum severity severity;
	uint32_t poll_events;
	int fd;
	int other_fd;		/* is kept open with it; -1: none */
	bool is_over;		/* it will tell nothing any more */
	uint64_t counts[EVENT_COUNTS];	/* memory.events, as last read */
	struct stall stall;
	struct identity identity, other_identity;
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
/* False: the program closed one of its descriptors. */
bool source_is_whole(const struct source *source);
/*
 * Reads what made it ready, so that it becomes ready anew, or finds that it is
 * over.  @events: what epoll says of it.
 */
enum severity source_read(struct source *source, uint32_t events);
/*
 * What a trigger would have said: its event may be gone.  Who polls a descriptor
 * that watches others, as programs and the thread poll epoll's, has the kernel look
 * at the trigger, and a look takes the event; epoll then looks once more, and finds
 * none.  So it is the time stalled that tells.
 */
enum severity source_look(struct source *source);

/* thread.c */
void pressure_thread_fork_child(void);
/*
 * pressure.c: waits for a wake-up (@wake_fd; -1: none), an event of the sources, if it is
 * @for_events, or @timeout_ms, which it says by false.
 */
bool pressure_wait(int wake_fd, bool for_events, int timeout_ms);

#endif
