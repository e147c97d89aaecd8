/* SPDX-License-Identifier: MIT */
/*
 * A yardstick for many CPUs that needs none: the library runs in one thread of one process, and
 * the CPU that it believes to be on is pretended, and changes with each operation.
 *
 *   machine.c   what the library asks the kernel and the C library: CPU numbers, nodes, barriers,
 *               clocks, system calls; how long things take on the pretended machine
 *   shadow.c    who has which cache line, and what was counted at which line of the source
 *   entry.c     where the accesses come in: the compiler's calls for ThreadSanitizer
 *   work.c      the loops that are measured
 *   trace.c     or what a real program did, as record.c has written it down
 *   scale.c     threads on CPUs, step by step
 *   timed.c     or on CPUs that are there, by the clock
 *
 * The library is compiled as for ThreadSanitizer, whose calls come here, and whose own runtime is
 * left out.  So the library is the one that is shipped, backend rseq, with every branch of its
 * policy.  Its restartable sequences are assembly: those that are functions say where they work
 * (core/base/scale.h), and those of malloc() and free() this program knows (step_do()).
 *
 * Nothing runs at the same time: an operation ends before the next one begins.  The next one is
 * that of the CPU whose clock is the earliest.  So a run depends on its arguments alone, and a
 * lock is never found taken; who would have waited follows from the clocks (lock_take()).
 */
#ifndef BENCH_SCALE_H
#define BENCH_SCALE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CPUS_MAX 256
#define NODES_MAX 8

/* What is counted. */
enum event {
	EVENT_OPERATIONS,
	EVENT_RMW,		/* atomic read-modify-writes */
	EVENT_RMW_SHARED,	/* ... of a word that another CPU has written, too */
	EVENT_STORE_SHARED,	/* stores to such words; none of objects */
	EVENT_TRANSFER,		/* a line of the library's was in another CPU's cache */
	EVENT_TRANSFER_OBJECT,	/* the library looked at an object that was */
	EVENT_TRANSFER_PROGRAM,	/* the program did */
	EVENT_LOCK,		/* locks taken */
	EVENT_LOCK_MOVED,	/* ... that another CPU had last */
	EVENT_LOCK_WAIT,	/* ... and still had, by the clocks */
	EVENT_BARRIER,		/* membarrier(2) */
	EVENT_STOP,		/* CPUs that such a call interrupts, or one that unmaps */
	EVENT_MADVISE,
	EVENT_MAP,		/* mmap, munmap, mremap, mprotect, mbind */
	EVENT_CALL,		/* other system calls */
	EVENT_WAIT_NS,		/* for locks, and for lines that others wait for */
	EVENT_REMOTE_NS,	/* the same, transfers, stops of all CPUs, and system calls */
	EVENT_NS,		/* time of the CPUs, added up */
	EVENT_NR,
};
extern const char *const event_names[EVENT_NR];

/* ---- machine.c ---- */

struct machine {
	uint32_t nr_cpus, nr_nodes;
	uint32_t nr_active;	/* CPUs that run a thread of the process */
	uint32_t cpu;		/* the one that the operation in hand is on */
	double clock_ns[CPUS_MAX];
};
extern struct machine machine;

/*
 * Round figures of a server of two sockets; they order the rows of a table and
 * decide who waits, and no more depends on them.
 */
#define NS_ACCESS 0.5
#define NS_RMW 5
#define NS_TRANSFER 60
#define NS_TRANSFER_FAR 130	/* from another node */
#define NS_CALL 200
#define NS_CALL_MAP 1000	/* of those that change mappings */
#define NS_STOP 500		/* for the one that is interrupted, and to wait for it */
#define NS_PROGRAM 20		/* between two operations, on average */

static inline double *machine_clock(void)
{
	return &machine.clock_ns[machine.cpu];
}

static inline uint32_t machine_node(uint32_t cpu)
{
	return (uint32_t)((uint64_t)cpu * machine.nr_nodes / machine.nr_cpus);
}

/* Memory of this program's own, zeroed, that is not the machine's. */
void *own_memory(size_t bytes);
/* From here on the library is on @cpu. */
void machine_enter(uint32_t cpu);

/* ---- shadow.c ---- */

/* Between these everything is counted. */
extern bool shadow_is_on;

/* The functions that are being executed, by where they return to. */
#define FRAMES_MAX 64
#define FRAMES_KEPT 4
extern uintptr_t shadow_frames[FRAMES_MAX];
extern uint32_t shadow_depth;

enum access {
	ACCESS_READ,
	ACCESS_WRITE,
	ACCESS_RMW,
};

void shadow_init(void);
void shadow_access(uintptr_t address, size_t bytes, enum access access, uintptr_t pc);
void lock_take(uintptr_t lock, uintptr_t pc);
void lock_give(uintptr_t lock);
/* Adds @n to what happened at @pc; 0: in the program. */
void shadow_count(enum event event, double n, uintptr_t pc);
/* So long the CPU is busy with it; not to be called for an access of its own. */
void shadow_spend(double ns, uintptr_t pc);
/* The program itself reads and writes the first bytes of its object. */
void shadow_object(const void *object, size_t bytes);
/* All that was counted is forgotten; who has which line is not. */
void shadow_reset(void);
double shadow_total(enum event event);
void shadow_sites_print(void);

/* ---- work.c and trace.c ---- */

enum step_kind {
	STEP_NOTHING,		/* it waits for another thread */
	STEP_ALLOC,
	STEP_RESIZE,
	STEP_FREE,
	STEP_END,
};

/* One operation of a thread. */
struct step {
	enum step_kind kind;
	uint32_t place;		/* which of its objects */
	uint32_t to;		/* STEP_RESIZE: which it is from then on */
	size_t bytes;
};

struct thread {
	uint32_t number;
	uint32_t cpu;
	uint64_t seed;
	uint64_t steps;		/* that it has done */
	uint64_t state[4];	/* the workload's own */
};

struct work {
	const char *name;
	uint32_t nr_threads;	/* 0: as many as there are CPUs */
	uint32_t moves_every;	/* a thread goes to another CPU each so many steps; 0: by default */
	bool shares;		/* objects pass from thread to thread */
	bool (*begin)(uint32_t nr_threads);
	/* May thread @number begin?  Asked in the order of the numbers; NULL: all begin at once. */
	bool (*starts)(uint32_t number);
	void (*next)(struct thread *thread, struct step *step);
};

extern const struct work works[];
extern void **objects;		/* by place */
extern uint32_t nr_threads;	/* that run, all in all */

const struct work *work_find(const char *name);
uint64_t random_next(uint64_t *seed);

/* What record.c has written, of at most @nr_steps for each thread. */
bool trace_read(const char *path, uint64_t nr_steps);
uint64_t trace_operations(void);
extern const struct work work_trace;

#endif
