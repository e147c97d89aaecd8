/* SPDX-License-Identifier: MIT */
/*
 * What is certain to be corruption, and what becomes of the process: one policy for
 * every build and every layer above, chosen by SLUB_ON_ERROR.
 *
 *   abort    one line on standard error, then the process ends as by abort()
 *   report   the line, and the process goes on; the caller leaves the block alone
 *   ignore   no line; the caller leaves the block alone all the same
 *
 * The options of a set-user-ID program are not read, so it always ends.
 *
 *   slub[PID]: WHAT: CALL(ADDRESS), WHERE, thread TID, called from FILE+0x12; ACTION
 *
 * WHAT is one of the words in misuse.c, for programs that read such lines.
 */
#ifndef SLUB_MISUSE_H
#define SLUB_MISUSE_H

#include "base/base.h"

enum misuse {
	MISUSE_DOUBLE_FREE,	/* the block is free already */
	MISUSE_INSIDE,		/* the pointer is not where a block begins */
	MISUSE_NO_BLOCK,	/* the pointer is of no block at all */
	MISUSE_LIST,		/* a free block's link leads to what is none */
	MISUSE_FREE_WRITTEN,	/* a free block was written to */
	MISUSE_RED_ZONE,	/* the bytes around a block were written to */
	MISUSE_CANARY,
	MISUSE_SIZE,		/* a block is freed with a size that cannot be */
	MISUSE_CALL,		/* ... or by a call of another kind than its allocation */
	MISUSE_NR,
};

/*
 * Says that @what was found of @address, in one write(2), and ends the process or
 * returns.  @call: the public function that was called with it, or NULL; @where: the
 * name of a cache, "large block", or NULL.  Takes no lock and allocates nothing.  Callers let
 * go of locks first where they can: a handler of SIGABRT may be left by longjmp().
 */
cold void misuse_found(enum misuse what, const char *call, const void *address,
		       const char *where);
/*
 * foreign.c: the same of @ptr, given to @call, which is no block of this library and of
 * no cache, where it is certain to be nobody else's block either.  False: it may be.
 */
cold bool foreign_found(const char *call, const void *ptr);
/* How often it was called. */
uint64_t misuse_nr_found(void);

/*
 * Does a bug of a watched cache end the process?  Debugging reports and goes on unless
 * SLUB_ON_ERROR=abort asks for the end.
 */
bool misuse_ends_debugging(void);
/* abort(), without the C library's lock: see misuse.c. */
cold __attribute__((noreturn)) void misuse_end(void);

#endif
