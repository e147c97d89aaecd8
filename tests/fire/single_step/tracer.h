/* SPDX-License-Identifier: MIT */
/*
 * A traced thread and its breakpoints.
 *
 * True on Linux 6.18 (tried; rseq(2) promises no less): every ptrace stop is a
 * schedule, so a thread that stops with its instruction pointer in a critical
 * section resumes at the abort address, PTRACE_SINGLESTEP included.  Stepping
 * therefore never gets past the first instruction of a sequence; each boundary
 * needs a breakpoint of its own, which the thread meets at full speed.
 *
 * Debug registers are used where they work: they belong to one thread, so that
 * others may run the sequence meanwhile.  Else a breakpoint instruction, which
 * is in place only while nothing but the traced thread can meet it.
 */
#ifndef SLUB_TESTS_FIRE_TRACER_H
#define SLUB_TESTS_FIRE_TRACER_H

#include "fire.h"

enum stop {
	STOP_BREAKPOINT,	/* at the address that was armed */
	STOP_ROUND,		/* the tracee ended a round of its work */
	STOP_END,		/* the tracee is gone; see status */
};

struct tracer {
	pid_t pid;
	int status;
	bool hardware;
	uint64_t armed;		/* 0: no breakpoint */
	long original;		/* what a breakpoint instruction replaced */
};

/* Takes hold of a process that waits; its exec and its end are seen. */
void tracer_attach(struct tracer *tracer, pid_t pid);
/* Whether debug registers can be set; chooses the kind of breakpoint. */
void tracer_choose(struct tracer *tracer, const char *kind);
void tracer_arm(struct tracer *tracer, uint64_t address);
void tracer_disarm(struct tracer *tracer);
/* Goes on, delivering `signal` if not 0, to the next stop that counts. */
enum stop tracer_run(struct tracer *tracer, int signal);
/* SIGSTOP, and SIGCONT once it stands; runs on to the next stop. */
enum stop tracer_stop_and_continue(struct tracer *tracer);

#endif
