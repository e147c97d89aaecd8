/* SPDX-License-Identifier: MIT */
/* What the supervisor and the workload of sweep share. */
#ifndef SLUB_TESTS_FIRE_SWEEP_H
#define SLUB_TESTS_FIRE_SWEEP_H

#include "fire.h"

/* prctl(SWEEP_MAGIC, command): the workload speaks to its supervisor. */
#define SWEEP_MAGIC 0x51ab0001

enum sweep_command {
	SWEEP_BEGIN,	/* failures from here on */
	SWEEP_END,	/* and none any more */
	SWEEP_MORE,	/* returns 1 while a storm is to go on */
	SWEEP_REQUEST,	/* the caller's next calls are one request's ... */
	SWEEP_ANSWER,	/* ... up to here */
};

/*
 * The workload; `storm`: over and over until the supervisor has enough; `counted`: it tells of each
 * request.
 */
int sweep_workload(bool storm, bool counted, uint64_t seed) __attribute__((noreturn));

enum from {
	FROM_MARK,	/* all calls between SWEEP_BEGIN and SWEEP_END */
	FROM_LIBRARY,	/* those of the library, from its first one on */
};

/* Which of a call's refusals happen. */
enum turn {
	TURN_NONE,	/* none: the calls are counted */
	TURN_ALWAYS,
	TURN_SECOND,	/* every second one */
	TURN_FROM,	/* all from the k-th on, mostly a third of those of an undisturbed run */
	TURNS,
};

/* A call that is refused, and the errors that its manual page names. */
struct refusable {
	long number;
	const char *name;
	int errors[6];	/* up to the first 0 */
};

struct plan {
	enum from from;
	unsigned long which;		/* the call to fail; 0: by chance */
	unsigned int variant;		/* which of a call's errors */
	double chance;
	unsigned long failures_wanted;	/* of a storm */
	uint64_t rng;
	const struct refusable *call;	/* a cell: this call, of the library, after SWEEP_BEGIN */
	enum turn turn;
	unsigned long turn_from;
	int error;
};

struct outcome {
	unsigned long calls;		/* that could have failed */
	unsigned long failures;
	unsigned long most;		/* calls that one request made for one place */
	int status;			/* as of waitpid() */
	char failed[64];		/* the last call that was failed */
};

/* Runs the workload once, with the library preloaded, under the plan. */
void supervise(const char *library, struct plan *plan, struct outcome *outcome);

/* refusals.c: the cells, every error of a call or its first; how many went wrong. */
unsigned long refusals(const char *library, bool all);

#endif
