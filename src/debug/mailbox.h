/* SPDX-License-Identifier: MIT */
/*
 * How another process asks this one for something: `slub debug PID ...`.
 *
 * The asker opens /proc/PID/mem, finds the symbol slub_debug_mailbox as it finds
 * slub_abi_state, and reads and writes there by that one descriptor.  It stands for
 * the memory that the process had when it was opened: who runs another program since,
 * or has a PID that was used again, is not written to.  No signal, no thread: the next
 * slow path of the allocator, by whatever thread, sees `state` and does what
 * was asked before it goes on.  A process that does not allocate does not
 * answer; the asker waits as long as it likes and may then withdraw.
 *
 *   asker                                     the process
 *   -----                                     -----------
 *   reads: magic, version known, state IDLE
 *   writes id, operation, text
 *   reads id: its own still?
 *   writes state = REQUEST | n                a slow path: REQUEST -> TAKEN
 *                                             withdrawn == n: to IDLE, ends
 *                                             state another: it was not for us
 *                                             ... does it ...
 *   reads state until DONE; IDLE: again       result, then DONE
 *   reads result, writes state = IDLE
 *
 * n, the number of the request, is in the upper bits of `state`, so that who
 * took one request and was held up does not take the next one for it.
 *
 * Withdrawing: the asker writes n to `withdrawn`, then reads state.  REQUEST: it
 * was not taken, and whoever takes it from now on sees `withdrawn`; so it will
 * not be done, and the asker writes IDLE.  Anything else: it was taken, and its
 * end shows whether that came first.
 *
 * A child begins with IDLE.  So who asks one that was forked a moment ago may
 * find IDLE where its request was, and writes REQUEST again.
 *
 * An asker that died leaves REQUEST or DONE: the next one may write IDLE if `id`
 * names a process that is no more.
 *
 * This header needs nothing but <stdint.h>, for the tools.
 */
#ifndef SLUB_DEBUG_MAILBOX_H
#define SLUB_DEBUG_MAILBOX_H

#include <stdint.h>

#define DEBUG_MAILBOX_MAGIC "SLUBMBOX"
#define DEBUG_MAILBOX_VERSION 2
#define DEBUG_MAILBOX_TEXT_MAX 255

/* The lower bits of a state. */
enum debug_mailbox_state {
	MAILBOX_IDLE,
	MAILBOX_REQUEST,
	MAILBOX_TAKEN,
	MAILBOX_DONE,
	MAILBOX_STATE = 3,	/* all of these */
};

/* The upper bits: a request's number, the lowest bits of its id. */
#define MAILBOX_NUMBER(id) ((uint32_t)(id) << 2)

/* What is asked, what `text` is, and what `result` then says. */
enum debug_mailbox_operation {
	/* text: as SLUB_DEBUG ("FZPU,malloc-64"); caches changed or -errno */
	MAILBOX_DEBUG = 1,
	/* text: a cache, its beginning and "*", or ""; bugs or -errno */
	MAILBOX_VALIDATE,
	/* the same; caches */
	MAILBOX_SHRINK,
	/* text: guard one object in so many, "0" for none; 0 or -errno */
	MAILBOX_GUARD = 5,
};

struct debug_mailbox {
	char magic[8];			/* DEBUG_MAILBOX_MAGIC, no NUL */
	uint32_t version;
	uint32_t size;			/* of this structure */
	uint32_t state;			/* and the number of the request */
	uint32_t operation;		/* enum debug_mailbox_operation */
	uint64_t id;			/* the asker's PID << 32, and a number */
	int64_t result;
	char text[DEBUG_MAILBOX_TEXT_MAX + 1];	/* ends with a NUL */
	uint32_t withdrawn;		/* a number, as in state */
	uint32_t unused;
};

#endif
