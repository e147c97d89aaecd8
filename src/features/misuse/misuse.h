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
 *   slub[PID]: WHAT: CALL(ADDRESS), WHERE, thread TID, called from PLACE; NEXT; ACTION
 *
 * WHAT is one of the words in misuse.c, for programs that read such lines.  NEXT is what the user
 * may do to learn more.  The call names the culprit only where the call itself was wrong.  Where
 * a write is found later, nobody knows who wrote:
 *
 *   slub[PID]: WHAT: ADDRESS, WHERE, thread TID, found in a call from PLACE; NEXT; ACTION
 *   slub[PID]: WHAT: ADDRESS, WHERE, found at exit; NEXT; ACTION
 *
 * A guarded block has ", allocated by thread TID from PLACE, freed by ..." before "; NEXT".
 * PLACE: as sink_describe() has it.
 *
 * What the core calls is declared in core/base/features.h, misuse_found() first.
 *
 * Tests: tests/unit/debug/test_misuse.cc, tests/unit/malloc/test_sized.cc, tests/misuse,
 * tests/core/twice_test.py.
 * Page: docs/operate/hardening.md.
 */
#ifndef SLUB_MISUSE_H
#define SLUB_MISUSE_H

#include "core/base/base.h"
#include "features/misuse/misuse_last.h"

struct track;
/* The allocation and the free of the block; each may be NULL, or say that there was none. */
struct misuse_known {
	const struct track *allocated, *freed;
};
cold void misuse_found_of(enum misuse what, const char *call, const void *address,
			  const char *where, struct misuse_known known);
bool misuse_is_exiting(void);
/* For other processes and core files: what was said last. */
extern struct misuse_last misuse_last SLUB_INTERNAL;
/* A line that ends with the process, and is not of misuse_found(). */
cold void misuse_keep(const char *what, const void *address, const char *where);
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
