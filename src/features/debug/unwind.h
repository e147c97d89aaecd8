/* SPDX-License-Identifier: MIT */
/*
 * One step up a call stack by the tables of call frame information (.eh_frame), which compilers
 * write for each function, with frame pointers or without.
 *
 *   place   where a thread stands: an instruction, its stack pointer and frame pointer
 *   rule    how the caller's place comes from it; the same at an instruction for ever
 *
 *      caller's sp = (sp or fp) + cfa        its pc lies below that, its fp where the rule says
 *
 * Rules are looked up once and kept by a hash of the instruction's address, each in one word, so
 * no lock is needed and a handler may interrupt.  A word of another instruction passes for this
 * one's once in 2^36 times; so do those of a plugin that has gone and another one in its place.
 * Then the stack that is found is wrong, but no address outside the stack is read.
 *
 * The C library names the tables of an address without a lock (_dl_find_object(), glibc 2.35).
 * Without it, on other processors, or for code without tables, frame pointers must do.
 */
#ifndef SLUB_UNWIND_H
#define SLUB_UNWIND_H

#include "core/base/base.h"

struct place {
	uintptr_t pc;		/* an address that is returned to */
	uintptr_t sp, fp;
};

/* Asks the loader for what it has; called by the constructor.  Until then there are no tables. */
void unwind_start(void);
/* Goes to the caller.  False: there is none, or it is not known.  @end: where the stack ends. */
bool unwind_step(struct place *at, uintptr_t end);

#endif
