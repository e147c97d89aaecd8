/* SPDX-License-Identifier: MIT */
/*
 * What the library keeps per thread: one small structure in static TLS, so
 * that it needs no allocation, no destructor, and is there from a thread's
 * first instruction to its last.
 *
 * Everything here is touched by its own thread only (a signal handler runs as
 * its thread); `busy` is also read by a thread that drains (backend thread).
 */
#ifndef SLUB_BASE_THREAD_H
#define SLUB_BASE_THREAD_H

#include "core/base/compiler.h"

/* Where the rseq area is: malloc() may be called before this thread has an entrance. */
#if SLUB_CPU_AARCH64
/* As addresses: no operand there has the thread pointer in it (struct thread_entrance). */
#define SLUB_SEQ_INPUTS(entrance_)					\
	[rseq] "r"((entrance_).rseq), [cid] "r"((entrance_).cid),	\
	[base] "r"((entrance_).base)
#if !SLUB_CONFIG_SMP
#define SLUB_SEQ_UNIPROCESSOR 1
#endif
#elif SLUB_CONFIG_SMP
#define SLUB_SEQ_INPUTS(entrance_)					\
	[rseq] "r"(slub_rseq_offset()), [cid] "r"(slub_cid_offset()),	\
	[base] "r"((entrance_).base)
#else
#define SLUB_SEQ_UNIPROCESSOR 1
#define SLUB_SEQ_INPUTS(entrance_)					\
	[rseq] "r"(slub_rseq_offset()),					\
	[base] "r"((entrance_).base)
#endif
/*
 * Set once, offsets from the thread pointer: of the rseq area (the low half), and of the CPU
 * number in use (mm_cid or cpu_id; the high one).  Both lie in slub_thread.scratch where there
 * is no rseq.  In one word, for loads are what a pair of malloc and free waits for.
 */
extern int64_t slub_seq_offsets SLUB_INTERNAL;

static always_inline intptr_t slub_rseq_offset(void)
{
	return (int32_t)slub_seq_offsets;
}

static always_inline intptr_t slub_cid_offset(void)
{
	return slub_seq_offsets >> 32;
}

static always_inline char *slub_thread_pointer(void)
{
	return (char *)__builtin_thread_pointer();
}

#include <slub/percpu.h>

enum thread_flag {
	THREAD_CHECKED = 1 << 0,	/* registration was looked at */
	THREAD_IN_STATS = 1 << 1,	/* writes the statistics file */
	THREAD_IN_RECLAIM = 1 << 2,	/* do not start reclaim again */
	THREAD_IN_INIT = 1 << 3,	/* is starting the library */
	THREAD_FORKING = 1 << 4,	/* keeps collectors out for its fork */
	THREAD_RESERVE = 1 << 5,	/* may have objects of the reserve */
	THREAD_IN_DEFRAG = 1 << 6,	/* moves objects of a cache */
	THREAD_SIGNALS_WAIT = 1 << 7,	/* from fork's first lock to its last */
	THREAD_REFUSED = 1 << 8,	/* its request fails on purpose */
	THREAD_IN_ABORT = 1 << 9,		/* ends the process for what it found */
	THREAD_RESERVE_ONCE = 1 << 10,	/* from here up: how often it has entered the reserve */
};

/*
 * May the request in hand make the heap grow (core/page/superblock.c)?  A growth that the kernel
 * has refused is not asked for again at each of its tries, but after all of the reclaim.
 */
enum thread_growth {
	THREAD_GROWTH_FREE,	/* there is no such request */
	THREAD_GROWTH_ONCE,	/* until it is refused */
	THREAD_GROWTH_NONE,	/* it was */
	THREAD_GROWTH_WALLED,	/* it was, for addresses, which no reclaim brings */
	THREAD_GROWTH_QUIET,	/* nor may a shrinker be called: no code of the program */
};

#if SLUB_CPU_AARCH64
/* The same, where addresses are wanted; of a thread that has slub_thread.self for its table. */
struct thread_entrance {
	void **base;
	char *rseq;
	char *cid;
};

#define SLUB_SEQ_SELF thread_entrance()
#else
#define SLUB_SEQ_SELF slub_thread.self
#endif

struct thread_state {
	/*
	 * The entrance that programs use inline.  self.base is the table of
	 * CPU areas that sequences index, but for malloc's and free's.  It names
	 * the dummy table until the slow path has seen that the kernel has
	 * registered this thread: one that is not registered never leaves it.
	 */
	struct slub_percpu_self self;
	/*
	 * Sizes from here on are not for malloc's fast path, and places from here
	 * on not for free's (core/malloc/fast.c).  Both 0 until the slow path has seen
	 * that this thread may use them; the first also while it is in a group
	 * (features/groups/enter.c): then all sizes go slow.
	 */
#if SLUB_CPU_AARCH64
	/*
	 * With all else that the two look up first, for each pair is one load there, and
	 * all are in one line of the cache.  It is there before the limits are, and stays.
	 */
	struct {
		size_t malloc_limit;
		uintptr_t front_sizes;	/* slots by size_index() */
		size_t free_limit;
		uintptr_t front_start;	/* of the table before the page map */
		void **front_base;	/* the table of areas there */
		uintptr_t front_map;	/* by pages, counted from front_start */
		char *front_rseq;	/* as addresses */
		char *front_cid;
	} align_to(64);
#else
	size_t malloc_limit;
	size_t free_limit;
#endif
	uint32_t locks_held;	/* > 0: no lock may be taken in a handler */
	uint16_t flags;		/* enum thread_flag */
	uint8_t fork_patience;	/* waits left for locks, see lock.c */
	uint8_t growth : 4;	/* enum thread_growth */
	uint8_t visits_refused : 4;	/* a count (core/page/budget.c) */
	uint32_t number;	/* backend thread: own slot number + 1 */
	_Atomic uint32_t busy;	/* backend thread: inside a sequence */
#if SLUB_CONFIG_LAYOUT == 2
	void *slab_locked;	/* layout lock56: whose lock bit it holds */
	void *place;		/* where it waits in a line, the latest one (line.c) */
#else
	union {			/* static TLS is dear */
		void *slab_locked;	/* not used */
		void *place;
	};
#endif
	/*
	 * Where the fast path writes its rseq_cs pointer (at +8) and reads its
	 * CPU number (at +24), 0 for ever, when there is no rseq area to use;
	 * what would be the kernel's CPU number (at +4) is none.
	 */
	uint64_t scratch[4] align_to(32);
};

/* In self.sections, beside their number: frees what waited for readers. */
#define THREAD_DRAINING (1u << 31)

extern __thread struct thread_state slub_thread
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

#if SLUB_CPU_AARCH64
static always_inline struct thread_entrance thread_entrance(void)
{
	struct thread_entrance entrance = {
		slub_thread.self.base,
		slub_thread_pointer() + slub_rseq_offset(),
		slub_thread_pointer() + slub_cid_offset(),
	};

	return entrance;
}
#endif

/* Begins a request that tries more than once, or ends it, with what this returned before. */
static inline uint8_t thread_growth_set(uint8_t growth)
{
	uint8_t before = slub_thread.growth;

	slub_thread.growth = growth;
	return before;
}

/* The owner of the group that this thread entered last, 0: none (features/groups). */
static inline uint32_t group_current(void)
{
	return slub_thread.self.owner;
}

/*
 * Names a living thread: stable across fork, never 0, bit 0 clear.  Thread
 * control blocks lie a stack apart, so the page number tells them apart; it
 * is unique within 8 TiB, and only fork's "is this lock mine" relies on it.
 */
static inline uint32_t thread_self(void)
{
	return (uint32_t)((uintptr_t)&slub_thread >> 12) << 1;
}

#endif
