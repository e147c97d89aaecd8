/* SPDX-License-Identifier: MIT */
/* What the tracer and the tracee of single_step share. */
#ifndef SLUB_TESTS_FIRE_STEP_H
#define SLUB_TESTS_FIRE_STEP_H

#include "fire.h"

#include <semaphore.h>
#include <stdatomic.h>

/* What the rival, a second thread of the tracee, is asked to do. */
enum rival_task {
	RIVAL_ALLOCATE,	/* allocate and free on the tracee's CPU */
	RIVAL_TRIM,	/* malloc_trim(): empties every CPU's lists */
	RIVAL_FORK,	/* fork; the child allocates and frees */
	RIVAL_END,
};

struct step_shared {
	sem_t asked;
	sem_t done;
	enum rival_task task;
	int cpu;			/* where the rival is to run */
	atomic_uint rounds;
	atomic_uint handled;		/* signal handlers run to their end */
	atomic_uint forked;		/* children that ended well */
	atomic_ullong objects;		/* made by the tracee's main thread */
	atomic_ullong outstanding;	/* bytes malloc thinks are in use */
};

#define STEP_SIGNAL_MALLOC SIGUSR1
#define STEP_SIGNAL_FORK SIGUSR2

/* More than one chain of each size; what --bulk lessens. */
#define STEP_BULK 1200

/* The tracee: rounds of work, each ended by a breakpoint instruction. */
int step_tracee(int shared_fd) __attribute__((noreturn));

/* One critical section of the library under test. */
#define STEP_BOUNDARIES_MAX 64

struct sequence {
	uint64_t start, commit, abort;	/* offsets in the file's image */
	char name[80];			/* enclosing function */
	unsigned int count;		/* boundaries, the commit's end included */
	/*
	 * The first behind a store to rseq_cs in the sequence itself (RSEQ_ENTER_AGAIN); else 0.
	 * Before that nothing was read, and the kernel aborts only where the word names it already.
	 */
	unsigned int entered;
	uint64_t boundary[STEP_BOUNDARIES_MAX];
};

#define STEP_SEQUENCES_MAX 192

/*
 * Reads the descriptors from section __rseq_cs, which the loader relocated in
 * process `pid`, and the instruction boundaries from the disassembly of the
 * file.  Returns how many; `base` gets the address the file is mapped at.
 */
unsigned int step_sequences(pid_t pid, const char *library,
			    struct sequence *sequences, uint64_t *base);

#endif
