/* SPDX-License-Identifier: MIT */
/* The system calls that a thread may be woken out of, and how each goes on. */
#ifndef SLUB_TOOL_WAKE_CALL_H
#define SLUB_TOOL_WAKE_CALL_H

#include "wake_thread.h"

/* The better comes first. */
enum call_kind {
	CALL_RESTARTS,		/* the kernel restarts it, with the time that is left */
	CALL_AGAIN,		/* it ends with EINTR: it is made again */
	CALL_TIMED,		/* likewise, with the time that is left in its 4th argument */
	CALL_NOT,		/* neither: it would be cut short */
};

/* @name: what the call is called, for messages; "" of one that is not known. */
enum call_kind call_kind(const struct wake_thread *thread, const char **name);

#endif
