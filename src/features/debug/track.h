/* SPDX-License-Identifier: MIT */
/* The thread and the stack of an allocation or a free.  For the tools: needs <stdint.h> alone. */
#ifndef SLUB_DEBUG_TRACK_H
#define SLUB_DEBUG_TRACK_H

#include <stdint.h>

struct track {
	uint64_t caller;	/* 0: never */
	uint64_t when_ns;	/* os_clock_ns() */
	uint32_t stack;		/* stack_store(); 0: none */
	uint32_t thread;
	uint16_t cpu;
	uint16_t sum;		/* of what is above, in an object's place; else 0 */
	uint16_t call;		/* enum alloc_call */
	uint16_t is_freed;	/* of an allocation: its free waits, for readers or a lock */
};

/* A stack that is stored. */
struct stack_record {
	uint32_t next;		/* in its bucket; 0: the last */
	uint32_t hash;
	uint32_t nr;		/* of return addresses, the innermost first */
	uint32_t unused;
	uintptr_t frames[];
};

#endif
