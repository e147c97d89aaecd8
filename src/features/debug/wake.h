/* SPDX-License-Identifier: MIT */
/*
 * How the asker has a thread that waits in a system call do what is asked
 * (features/debug/mailbox.h).
 *
 * The asker traces that thread, writes a frame on its stack, and has it go on at the text that
 * the mailbox names (arch/<cpu>/wake.h).  The text calls the library once and says so in the
 * frame.  Then it waits, and the asker gives the thread back all that it had, its call too.
 *
 *     higher addresses    the thread's stack, 128 bytes below it that are the thread's too
 *                  jump   where the thread goes on, if the asker is no more
 *                 state   of the vector registers and the like, as XSAVE has it
 *     frame, 64 aligned   struct wake_frame
 *     lower addresses     the library's
 *
 * WAKE-1: At each moment the asker may die, and the kernel lets the thread go.  So the frame is
 * whole before the thread's registers are changed, and the text puts all back by itself where no
 * asker does.  The one loss there: a call that waits with an end may say EINTR.
 * WAKE-2: The mask of the thread is in the frame from then on; signals wait, in the kernel.
 *
 * This header needs nothing but <stdint.h> and <stddef.h>, for the tools.
 */
#ifndef SLUB_DEBUG_WAKE_H
#define SLUB_DEBUG_WAKE_H

#include <stddef.h>
#include <stdint.h>

/* What the library says in the frame. */
enum wake_answer {
	WAKE_NOTHING,		/* not yet */
	WAKE_ANSWERED,		/* there is no request any more */
	WAKE_LATER,		/* there is more of it than fits in one wake */
	WAKE_INSIDE,		/* this thread is inside the library: no answer */
	WAKE_ON_HANDLER_STACK,	/* or on the stack of a signal handler */
};

/* Numbers of the registers in a frame, in the order in which x86-64 counts them. */
#define WAKE_SP 4
#define WAKE_FLAGS 16
#define WAKE_NR 17

struct wake_frame {
	uint64_t is_done;		/* the text writes 1 */
	uint64_t answer;		/* enum wake_answer */
	uint64_t mask;			/* the signals that the thread blocks */
	uint64_t registers[WAKE_NR];	/* WAKE_SP: of `jump` */
	uint64_t unused[12];
};

/* The text knows these. */
_Static_assert(offsetof(struct wake_frame, answer) == 8, "");
_Static_assert(offsetof(struct wake_frame, mask) == 16, "");
_Static_assert(offsetof(struct wake_frame, registers) == 24, "");
_Static_assert(sizeof(struct wake_frame) == 256, "");

#endif
