/* SPDX-License-Identifier: MIT */
/*
 * Trails: where a sampled allocation came from, for a reader that unwinds stacks without frame
 * pointers.  Only tables of call frame information tell how, and these want an interpreter that
 * allocates; so the command `slub profile PID` unwinds, and the process leaves what that needs:
 * the registers, and a copy of the stack.
 *
 *   slots   +---------+---------+-----------------------------+---------+
 *           | trail 5 | trail 6 | trail 3: the next to go     | trail 4 |
 *           +---------+---------+-----------------------------+---------+
 *                               | state | registers | copy    |
 *                               +-------+-----------+---------+
 *
 * Trail n lies in slot n % nr_slots.  A thread that finds another one writing there, which is
 * as many trails behind, leaves none; so no thread waits, and a handler may interrupt one.
 *
 * TRAIL-1: What a reader takes is whole, while the ring stays on.  `state` is 2n + 1 while trail n
 * is written and 2n behind it; a reader that finds 2n before and after its copy has trail n.  A
 * ring that goes off loses the states.  When it is on again a thread may still write into a slot
 * that another one has claimed, so a reader trusts no trail further than its bounds.
 *
 * While the ring is off nothing is written, and the slots have no memory.  A forked child begins
 * with its ring off.  A reader says how far it is; far behind it is no more, and the ring goes off.
 *
 * The first half of this header needs nothing but <stdint.h>, for the command.
 */
#ifndef SLUB_PROFILE_TRAIL_H
#define SLUB_PROFILE_TRAIL_H

#include <stddef.h>
#include <stdint.h>

#define TRAIL_MAGIC "SLUBTRLS"
#define TRAIL_VERSION 1
#define TRAIL_SLOT_BYTES 32768
#define TRAIL_SLOTS 256
#define TRAIL_REGISTERS 32
/* So many trails behind nobody reads. */
#define TRAIL_BEHIND_MAX 65536

enum trail_flag {
	TRAIL_IS_WHOLE = 1,	/* the copy goes to the end of the stack */
};

struct profile_trail {
	uint64_t state;
	uint64_t weight, bytes;		/* as in the sums of its site */
	uint32_t site_stack;		/* the line "# stack" of the profile; 0: none */
	uint32_t flags;			/* enum trail_flag */
	uint64_t pc;
	uint64_t registers[TRAIL_REGISTERS];	/* by their numbers in DWARF */
	uint32_t known;			/* a bit for each that is */
	uint32_t sp;			/* the stack pointer's number */
	uint64_t copy_bytes;
	unsigned char copy[];		/* from the stack pointer on */
};

#define TRAIL_COPY_MAX (TRAIL_SLOT_BYTES - offsetof(struct profile_trail, copy))

struct trail_ring {
	char magic[8];			/* TRAIL_MAGIC, no NUL */
	uint32_t version;
	uint32_t is_on;
	uint32_t nr_slots;
	uint32_t slot_bytes;
	uint64_t slots;			/* their address; 0: there were never any */
	uint64_t drawn;			/* the number of the last trail, from 1 on */
	uint64_t read;			/* the reader writes: the last one that it looked at */
};

#if !defined(SLUB_TOOL_VERSION)
#include <stdbool.h>

extern struct trail_ring trail_ring __attribute__((visibility("hidden")));

static inline bool trails_are_on(void)
{
	return __atomic_load_n(&trail_ring.is_on, __ATOMIC_RELAXED);
}

/* Was there ever a trail?  Samples may have numbers. */
static inline bool trails_were_drawn(void)
{
	return __atomic_load_n(&trail_ring.drawn, __ATOMIC_RELAXED);
}

/* The ring, or NULL where there can be none. */
struct trail_ring *trails_begin(void);
void trails_end(void);
/* The number of a trail that is to be written; 0: the ring is off. */
uint64_t trail_draw(void);
/* Of this thread as it is now. */
void trail_write(uint64_t number, uint32_t site_stack, uint64_t weight, uint64_t bytes);
#endif

#endif
