/* SPDX-License-Identifier: MIT */
/*
 * One thread is woken: it does what stands in the mailbox, and waits again (features/debug/wake.h).
 */
#ifndef SLUB_TOOL_WAKE_TRACE_H
#define SLUB_TOOL_WAKE_TRACE_H

#include "features/debug/mailbox.h"
#include "wake_call.h"

enum trace_end {
	TRACE_ANSWERED,		/* it ran the library */
	TRACE_MOVED,		/* it did not wait any more; another try may do */
	TRACE_INSIDE,		/* it is inside the library, or in a handler */
	TRACE_REFUSED,		/* errno of PTRACE_SEIZE in `error` */
	TRACE_STOPPED,		/* the process is stopped */
	TRACE_ENDED,		/* the thread, the process, or its program */
	TRACE_UNABLE,		/* `why` says why */
	TRACE_LATE,		/* it has not come back; it goes on by itself when it does */
};

struct trace {
	/* the asker's */
	struct wake_thread thread;
	enum call_kind kind;
	double since;		/* CALL_TIMED: when the call began, at the latest */
	int memory;		/* /proc/PID/mem */
	const struct debug_mailbox *box;
	uint64_t stack;		/* where the mapping that its stack is in begins */
	double seconds;		/* so long it may take */
	/* what came of it */
	enum trace_end end;
	int error;
	double ms;		/* from the stop until it waited again */
	char why[96];
};

/*
 * To be called by a process that ends right behind it: where a call was made again the
 * thread is let go by that, for any other way would end the call once more.
 */
void trace_wake(struct trace *trace);

#endif
