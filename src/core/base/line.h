/* SPDX-License-Identifier: MIT */
/*
 * A turn that is waited for (core/base/turn.h): threads stand in a line, and the turn goes from
 * each to the next, in the order in which they came.  A thread that waits sleeps on a word of its
 * own until the turn is its own; nobody looks again and again.
 *
 *   LINE-1  while somebody stands in the line the turn is never free, so no thread that
 *           comes later takes it: the thread whose turn is over writes the next one's name;
 *   LINE-2  a thread may wait for something rather than for the turn, say that a cache is made;
 *           each end of a turn sends all home who have it then, in one go;
 *   LINE-3  a handler that interrupts a thread in the line stands in its place.  It may
 *           have the turn first, and its end leaves the turn to the thread;
 *   LINE-4  in the child of a fork the line is empty.  Its own thread may have stood there
 *           (a handler forked); it comes back from its sleep, for the handler ends that, and
 *           begins anew.
 *
 * Neither the kernel's refusal of futex(2) nor a wake-up that another thread's filter swallows
 * ends the wait for ever: then it is looked at again, every 50 us or every second.
 *
 * A thread that waits, or ends its turn, holds no lock.
 */
#ifndef SLUB_BASE_LINE_H
#define SLUB_BASE_LINE_H

#include "core/base/list.h"
#include "core/base/lock.h"
#include "core/base/turn.h"

/* All zero at first. */
struct line {
	struct turn turn;
	/* under line_lock */
	struct list waiters;
	uint32_t nr_unless;	/* waiters that something else would do for (LINE-2) */
	uint32_t forks;		/* turn_forks as of the last waiter */
};

enum line_answer {
	LINE_REFUSED,	/* it takes too long, a lock is held, or this thread has the turn */
	LINE_TAKEN,	/* line_end() is to follow */
	LINE_OVER,	/* what was waited for is there; the turn is another's */
};

/* What a thread waits for, in milliseconds. */
#define LINE_PATIENCE 5000u
#define LINE_PATIENCE_ANY UINT32_MAX

/* Under it the lines change; fork takes it like any other. */
extern struct lock line_lock;

/*
 * What line_wait() does when somebody has the turn.  @is_over may be NULL.  Others call it too,
 * under line_lock: it looks, and takes no lock.
 */
cold enum line_answer line_stand(struct line *line, uint32_t patience_ms,
				 bool (*is_over)(const void *arg), const void *arg);

/* False: somebody has it, or waits for it. */
static inline bool line_try(struct line *line)
{
	return turn_try(&line->turn);
}

static inline bool line_wait(struct line *line, uint32_t patience_ms)
{
	return line_try(line) || line_stand(line, patience_ms, NULL, NULL) == LINE_TAKEN;
}

void line_end(struct line *line);

/* In the child of a fork: see turn_is_left(). */
static inline bool line_is_left(const struct line *line)
{
	return turn_is_left(&line->turn);
}

#endif
