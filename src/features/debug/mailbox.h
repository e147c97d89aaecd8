/* SPDX-License-Identifier: MIT */
/*
 * How another process asks this one for something: `slub debug PID ...`.
 *
 * The asker opens /proc/PID/mem, finds the symbol slub_debug_mailbox as it finds
 * slub_abi_state, and reads and writes there by that one descriptor, which stands for the
 * memory that the process had then.  No signal, no thread: slow paths of the allocator see
 * `state` and do what was asked, a piece each.  The pressure thread, where there is one, looks
 * too, and the asker may wake a thread that waits (features/debug/wake.h).  The asker may withdraw.
 *
 *   asker                                     the process
 *   -----                                     -----------
 *   reads: magic, version known, request.id
 *   is 0, or that of an asker without a beat
 *   writes request, waits a moment,
 *   reads request.id: its own still?
 *   writes state = REQUEST | n                a slow path: REQUEST -> TAKEN
 *   writes beat, reads answered,              request is whole, its id has this n?
 *   over and over                             no: to IDLE, ends
 *                                             ... does a piece ...
 *                                             more to do: progress, to REQUEST
 *                                             all done: result, answered, to IDLE
 *   answered == id: reads result,
 *   writes request.id = 0
 *
 * MAILBOX-1: What is done was asked for.  n, the lowest bits of the id, is in the upper bits
 * of `state`, so a thread that was held up does not take the next request for its own; and
 * `check` is a sum over the request, so one written by two askers at once is none.
 * MAILBOX-2: Askers need not see each other, for they may be in other PID namespaces: each
 * is known by an id drawn at random, and lives as long as it changes `beat`.  Askers that
 * write over each other find an id that is not their own, and begin anew.  All operations
 * may be done twice.
 * MAILBOX-3: An asker that withdraws writes request.id = 0, then reads `state`; a slow path
 * writes TAKEN and then reads the id.  So either the asker sees TAKEN, or the request is
 * not done any further.
 *
 * A child begins with IDLE and no request.
 *
 * This header needs nothing but <stdint.h> and <stddef.h>, for the tools.
 */
#ifndef SLUB_DEBUG_MAILBOX_H
#define SLUB_DEBUG_MAILBOX_H

#include <stddef.h>
#include <stdint.h>

#define DEBUG_MAILBOX_MAGIC "SLUBMBOX"
#define DEBUG_MAILBOX_VERSION 3
#define DEBUG_MAILBOX_TEXT_MAX 255

/* The lower bits of a state. */
enum debug_mailbox_state {
	MAILBOX_IDLE,
	MAILBOX_REQUEST,
	MAILBOX_TAKEN,		/* a thread does a piece */
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
	/* text: an option, "retain=64M"; 0 or -errno of slub_option_set() */
	MAILBOX_SET,
	/*
	 * text: "start BYTES", 1 if the profile was on; "stop"; "write", a descriptor of
	 * the process's with the profile in it, until "close"; "trails", the address of a
	 * struct trail_ring (features/profile/profile_trail.h) or 0: there are none; "trails off";
	 * 0 or -errno
	 */
	MAILBOX_PROFILE,
	/* text: a node; bytes of free pages that went back, or -errno */
	MAILBOX_NODE,
};

enum debug_mailbox_flag {
	/* Threads that block a signal which is handled may answer too. */
	MAILBOX_BLOCKED_TOO = 1,
};

struct debug_request {
	uint64_t id;			/* random; 0: nobody asks */
	uint64_t check;			/* debug_request_check() */
	uint32_t operation;		/* enum debug_mailbox_operation */
	uint32_t flags;			/* enum debug_mailbox_flag */
	char text[DEBUG_MAILBOX_TEXT_MAX + 1];	/* ends with a NUL */
};

struct debug_mailbox {
	char magic[8];			/* DEBUG_MAILBOX_MAGIC, no NUL */
	uint32_t version;
	uint32_t size;			/* of this structure */
	uint32_t is_off;		/* SLUB_ATTACH=0: nobody is answered */
	uint32_t state;			/* and the number of the request */
	/* askers write */
	struct debug_request request;
	uint64_t beat;
	/* the process writes */
	uint64_t answered;		/* the id that `result` is for */
	int64_t result;
	uint64_t begun;			/* the id that the next two are for */
	uint64_t done, total;		/* in units that the operation chooses */
	uint64_t nr_refused;		/* slow paths that might be a handler's */
	/* features/debug/wake.h: the text for a thread that is woken; older libraries end here */
	uint64_t wake;			/* where it begins; 0: there is none */
	uint64_t wake_end;
};

/* Of the structure before the text was a part of it. */
#define DEBUG_MAILBOX_BYTES_MIN offsetof(struct debug_mailbox, wake)

/* FNV-1a of all but itself. */
static inline uint64_t debug_request_check(const struct debug_request *request)
{
	const unsigned char *bytes = (const unsigned char *)request;
	uint64_t sum = 0xcbf29ce484222325u;

	for (size_t i = 0; i < sizeof(*request); i++) {
		if (i >= offsetof(struct debug_request, check) &&
		    i < offsetof(struct debug_request, operation))
			continue;
		sum = (sum ^ bytes[i]) * 0x100000001b3u;
	}
	return sum;
}

#endif
