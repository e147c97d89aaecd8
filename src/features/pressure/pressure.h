/* SPDX-License-Identifier: MIT */
/*
 * pressure: what its files share; of this layer only.
 *
 * Tests: tests/unit/reclaim/test_pressure.cc, tests/unit/reclaim/test_sources.cc,
 * tests/unit/reclaim/test_reacts.cc, tests/unit/reclaim/test_watch.cc,
 * tests/reclaim/test_pressure*.cc.
 * Page: docs/internals/reclaim.md.
 */
#ifndef SLUB_RECLAIM_PRESSURE_H
#define SLUB_RECLAIM_PRESSURE_H

#include "features/pressure/descriptor.h"
#include "features/reclaim/reclaim_internal.h"

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
	int other_fd;		/* a trigger's twin, or is kept open with it; -1: none */
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
/* False: the program closed one of its descriptors. */
bool source_is_whole(const struct source *source);
/*
 * Takes what it has to tell, so that it becomes ready anew, or finds that it is over.
 *
 * Polling a descriptor that watches others, as programs and the thread poll epoll's, makes
 * the kernel look at a stall trigger, and a look takes the trigger's event.  So each
 * trigger has a twin, set before it and to the same, at which nobody looks but this.
 * To compare the time stalled instead misses events: docs/internals/reclaim.md.
 */
enum severity source_look(struct source *source);

#endif
