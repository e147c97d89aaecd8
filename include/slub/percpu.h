/* SPDX-License-Identifier: MIT */
/*
 * Per-CPU memory: one allocation, a copy of it for every CPU.
 *
 * An allocation is an *offset*, valid on every CPU.  Each CPU has an area; the
 * copy of CPU n lies at that offset in area n.  What belongs to one CPU is
 * packed without padding, since no other CPU touches it: 32 counters of four
 * bytes take 128 bytes per CPU, where an array of pointers would take 1,280.
 *
 *            offset
 *              |
 *   area 0  ---[==]---------
 *   area 1  ---[==]---------      slub_percpu_ptr(offset, 1)
 *   ...
 *   shared  ---[==]---------      for threads that have no CPU of their own
 *
 * "CPU" is a number, mostly below slub_percpu_cpus().  Where the kernel offers
 * it, it is the concurrency id (mm_cid): small numbers, one for each thread of
 * this process that runs at the same moment, so memory grows with these and not
 * with the machine.  With SLUB_FASTPATH=thread it is a thread's own number.
 *
 * The operations on this CPU's copy (add, fetch_add, cmpxchg, push, pop) are
 * restartable sequences: a handful of plain instructions that the kernel
 * restarts when it moves the thread in the middle, so they need no atomic
 * instruction.  A thread that the kernel has not registered, or whose CPU is
 * stopped for a moment, works on the shared area with atomic instructions
 * instead; sums and walks count that area like another CPU.
 *
 * A shared object that contains the inline functions must never be unloaded
 * (link it with -Wl,-z,nodelete, or compile it with -DSLUB_NO_INLINE): the
 * kernel may still look at the descriptor of its last sequence.
 *
 * From: the kernel's cpu_alloc proposal (alloc_percpu, this_cpu_add).
 */
#ifndef SLUB_INCLUDE_PERCPU_H
#define SLUB_INCLUDE_PERCPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <slub/compiler.h>

#ifdef __cplusplus
SLUB_C_BEGIN
extern "C" {
#endif

/*
 * slub_percpu_alloc - allocate @size bytes on every CPU, all zero.
 *
 * @align: a power of two up to 4096; 4 at the least.  No space is lost but for
 * this alignment.  The caller owns the allocation until slub_percpu_free().
 *
 * Returns the offset, never 0 for a success.  0, with errno set:
 *   EINVAL  size 0, or align not a power of two or above 4096;
 *   ENOSPC  the area is full (SLUB_PERCPU_BYTES says how large it is);
 *   ENOMEM  the system gave no memory, or the library could not start.
 *
 * Context: any thread; not from a signal handler; takes a lock, may call the
 * kernel.  Cost: a search in a bitmap; zeroing in every area if the space was
 * used before.  From: alloc_percpu().
 */
SLUB_API uintptr_t slub_percpu_alloc(size_t size, size_t align);

/*
 * slub_percpu_free - give an allocation back.
 *
 * Nobody may use the offset any more.  0 is allowed and does nothing.
 * Returns 0, or -EINVAL when @offset is none that slub_percpu_alloc() returned
 * and that is still allocated; nothing is changed then.
 * Context and cost: as slub_percpu_alloc().  From: free_percpu().
 */
SLUB_API int slub_percpu_free(uintptr_t offset);

/* The number of the shared area. */
#define SLUB_PERCPU_SHARED 0x7fffffff

/*
 * slub_percpu_ptr - the copy that belongs to CPU @cpu.
 *
 * Returns a pointer that stays valid until the offset is freed, aligned as
 * asked for; NULL when there is no such CPU, or its area could not be made.
 * The area of a CPU that has not run yet is made by this call.  SLUB_PERCPU_SHARED
 * names the shared area.
 * Reading or writing another CPU's copy races with that CPU: use atomic
 * loads, and the operations below for this CPU's own.
 * Context: any thread; the first time for a CPU it takes a lock and may call
 * the kernel, so not from a signal handler.  Errors: none but NULL; errno says
 * nothing.  From: per_cpu_ptr().
 */
SLUB_API void *slub_percpu_ptr(uintptr_t offset, unsigned int cpu);

/*
 * slub_percpu_cpus - one past the highest CPU number that is expected.
 *
 * Returns the possible CPUs of the machine, as far as the library knows.
 * Errors: none.  Context: anywhere; cost: a load.  From: nr_cpu_ids.
 */
SLUB_API unsigned int slub_percpu_cpus(void);

/*
 * slub_percpu_next - the next CPU behind @cpu whose area has been made.
 *
 * Start with -1.  A CPU that has never run has no area: its copy is zero.
 * Returns its number; SLUB_PERCPU_SHARED comes last, and -1 behind it.
 * Errors: none.
 * Context: anywhere.  Cost: a few loads.  From: for_each_possible_cpu().
 */
SLUB_API int slub_percpu_next(int cpu);

/*
 * slub_percpu_for_each - run the statement for every CPU number with an area.
 *
 * @cpu: the name of the int variable, which it declares.  SLUB_PERCPU_SHARED is
 * its last value.  Context: as slub_percpu_next().
 */
#define slub_percpu_for_each(cpu)					\
	for (int cpu = slub_percpu_next(-1); cpu >= 0;			\
	     cpu = slub_percpu_next(cpu))

/*
 * slub_percpu_bytes - bytes per CPU that are allocated by slub_percpu_alloc().
 *
 * Returns the sum of the sizes, each rounded up to 4 bytes.  Errors: none.
 * Context: anywhere.  Cost: a load.  From: the cpu_bytes counter of the cpu_alloc proposal.
 */
SLUB_API size_t slub_percpu_bytes(void);

/*
 * slub_percpu_sum, slub_percpu_sum32 - the sum of a word over all CPUs.
 *
 * Returns the sum; exact when nobody adds meanwhile; else some value the sum had,
 * or could have had with the adds in another order.
 * Errors: none.  Context: anywhere.  Cost: one cache miss per CPU.
 */
SLUB_API int64_t slub_percpu_sum(uintptr_t offset);
SLUB_API int32_t slub_percpu_sum32(uintptr_t offset);

/*
 * A list of objects per CPU, 32 bytes; allocate it with
 * slub_percpu_alloc(sizeof(struct slub_percpu_list), SLUB_PERCPU_LIST_ALIGN).
 * The objects are linked through their first word.
 */
struct slub_percpu_list {
	void *head;
	int32_t room;		/* minus the length, roughly */
	uint32_t reserved[5];
};
#define SLUB_PERCPU_LIST_ALIGN 32

/*
 * slub_percpu_list_drain - take the objects off the lists of all CPUs.
 *
 * Returns them as one chain, linked through their first words, NULL when there
 * are none; the caller owns them.  What is pushed meanwhile may be missed.
 * Errors: none; where another CPU cannot be stopped (no membarrier), its list
 * stays as it is.
 * Context: any thread, no lock of the library held; stops one CPU after the
 * other for a moment (a system call each).
 */
SLUB_API void *slub_percpu_list_drain(uintptr_t list);

/*
 * slub_percpu_add, slub_percpu_add32 - add @n to this CPU's word.
 *
 * The word is 8 (or 4) bytes, aligned to its size.  Safe against every other
 * thread and against signal handlers that do the same.  As with the kernel's, the
 * compiler may move other memory accesses past it: read a copy that this thread
 * adds to by an atomic load, or by slub_percpu_read().
 * Context: anywhere, a signal handler included.  Cost: 15 instructions, no
 * atomic one, two stores; a call where the thread has come to another CPU.
 * From: this_cpu_add().
 */
SLUB_API void slub_percpu_add(uintptr_t offset, int64_t n);
SLUB_API void slub_percpu_add32(uintptr_t offset, int32_t n);

/*
 * slub_percpu_fetch_add, slub_percpu_add_return - add @n to this CPU's 8-byte word.
 *
 * Return the value that the word of the CPU that was added to had before, or has now.
 * Errors: none.  Context and cost: as slub_percpu_add().  From: this_cpu_add_return().
 */
SLUB_API int64_t slub_percpu_fetch_add(uintptr_t offset, int64_t n);
SLUB_INLINE int64_t slub_percpu_add_return(uintptr_t offset, int64_t n);

/*
 * slub_percpu_cmpxchg, slub_percpu_cmpxchg32 - replace this CPU's word, of 8 (or
 * 4) bytes, by @value if it is @old.
 *
 * Returns what was found: the word was replaced if that equals @old.
 * Errors: none.  Context and cost: as slub_percpu_add().  From: this_cpu_cmpxchg().
 */
SLUB_API int64_t slub_percpu_cmpxchg(uintptr_t offset, int64_t old,
				     int64_t value);
SLUB_API int32_t slub_percpu_cmpxchg32(uintptr_t offset, int32_t old,
				       int32_t value);

/*
 * slub_percpu_read - this CPU's 8-byte word.
 *
 * Returns it; it may be another CPU's by the time you look at it.
 * Errors: none.  Context: anywhere.  From: this_cpu_read().
 */
SLUB_API int64_t slub_percpu_read(uintptr_t offset);

/*
 * slub_percpu_push - put @object in front of this CPU's list.
 *
 * @limit: how long the list may get (at most 2^30).  It may be exceeded, by one for
 * each pop that was interrupted since the list was last found empty.
 *
 * The first word of @object becomes the link.
 * Returns true; false, and leaves the object alone, when the list is full or this
 * CPU has none right now.  Errors: none but that.
 * Context: anywhere but a signal handler in a thread without a CPU.
 */
SLUB_API bool slub_percpu_push(uintptr_t list, void *object, uint32_t limit);

/*
 * slub_percpu_pop - take the first object off this CPU's list.
 *
 * Returns it, or NULL when the list is empty.  An object that was pushed may
 * still be read by a pop that is about to be restarted: its memory must stay
 * mapped (memory from this library does).
 * Errors: none.  Context: as slub_percpu_push().
 */
SLUB_API void *slub_percpu_pop(uintptr_t list);

/* ---- what follows is the fast path, inline where the CPU has one ---- */

/* This thread's entrance to the areas; fixed layout, changed by the library. */
struct slub_percpu_self {
	void **base;		/* base[cpu number]: that CPU's area */
	uintptr_t rseq;		/* from the thread pointer: the rseq area */
	uintptr_t cid;		/* from the thread pointer: the CPU number */
	uintptr_t map_base;	/* the page map, for cache.h */
	size_t map_pages;
	char *area;		/* of the CPU it was on in its last slow call */
	uint32_t owner;		/* that its allocations are charged to; 0: none */
	uint32_t sections;	/* of slub_rcu_domain that it is in (srcu.h) */
};

/*
 * slub_percpu_self - this thread's entrance, for the inline functions.
 *
 * Context: the inline functions and the library; leave it alone.
 */
extern SLUB_API __thread struct slub_percpu_self slub_percpu_self
	__attribute__((__tls_model__("initial-exec")));

#if defined(__x86_64__) && !defined(SLUB_NO_INLINE)
/* Defined where the inline functions have restartable sequences of their own. */
#define SLUB_HAVE_SEQUENCES 1
#include <slub/arch/x86_64.h>
#elif defined(__aarch64__) && defined(__AARCH64EL__) && !defined(SLUB_NO_INLINE)
#define SLUB_HAVE_SEQUENCES 1
#include <slub/arch/aarch64.h>
#endif

/*
 * slub_percpu_may_run - has this thread an entrance?  For the inline functions.
 *
 * Until this thread's first slow call its entrance is all zero, and nothing
 * inline may run.
 * Returns true if it has.  Errors: none.  Context: anywhere.
 */
#ifdef SLUB_SEQ_IS_OPEN
#define slub_percpu_may_run()						\
	__builtin_expect(SLUB_SEQ_IS_OPEN(slub_percpu_self), 1)
#else
#define slub_percpu_may_run()						\
	__builtin_expect(slub_percpu_self.rseq != 0, 1)
#endif

/*
 * slub_percpu_entrance - a copy of this thread's entrance, for the inline functions.
 *
 * The area is read once: a slow call in a signal handler may change it between two
 * reads, and a sequence would look at one area and write to another.
 * Returns it.  Errors: none.  Context: anywhere.
 */
SLUB_INLINE struct slub_percpu_self slub_percpu_entrance(void)
{
	struct slub_percpu_self self = slub_percpu_self;

	__asm__("" : "+r"(self.area));
	return self;
}

/*
 * slub_percpu_try_add, slub_percpu_try_add32 - the inline part of slub_percpu_add()
 * and slub_percpu_add32(): one attempt.
 *
 * The entrance is read before it is looked at: so the compiler may keep its words
 * from one addition to the next, up to a slow call (measured: 2.61 to 2.01 cycles).
 * Returns true; false, and nothing was added, where the thread has come to another
 * CPU or was interrupted.  Errors: none but that.
 * Context: as slub_percpu_add(), which calls it; use that.
 */
SLUB_INLINE bool slub_percpu_try_add(uintptr_t offset, int64_t n)
{
#ifdef SLUB_HAVE_SEQUENCES
	const struct slub_percpu_self self = slub_percpu_entrance();
	uintptr_t t;

	if (!slub_percpu_may_run())
		goto failed;
	SLUB_SEQ_ADD_HERE(self, "q", "", offset, n, t);
	return true;
failed:
aborted:
#endif
	(void)offset, (void)n;
	return false;
}

SLUB_INLINE bool slub_percpu_try_add32(uintptr_t offset, int32_t n)
{
#ifdef SLUB_HAVE_SEQUENCES
	const struct slub_percpu_self self = slub_percpu_entrance();
	uintptr_t t;

	if (!slub_percpu_may_run())
		goto failed;
	SLUB_SEQ_ADD_HERE(self, "l", "k", offset, n, t);
	return true;
failed:
aborted:
#endif
	(void)offset, (void)n;
	return false;
}

/* ---- the same inline, where the headers have sequences for the CPU ---- */

#ifdef SLUB_HAVE_SEQUENCES
SLUB_INLINE void slub_percpu_add_fast(uintptr_t offset, int64_t n)
{
	if (!slub_percpu_try_add(offset, n))
		(slub_percpu_add)(offset, n);
}
#define slub_percpu_add(...) slub_percpu_add_fast(__VA_ARGS__)

SLUB_INLINE void slub_percpu_add32_fast(uintptr_t offset, int32_t n)
{
	if (!slub_percpu_try_add32(offset, n))
		(slub_percpu_add32)(offset, n);
}
#define slub_percpu_add32(...) slub_percpu_add32_fast(__VA_ARGS__)

SLUB_INLINE int64_t slub_percpu_fetch_add_fast(uintptr_t offset, int64_t n)
{
	int64_t old = n;
	uintptr_t t;

	if (!slub_percpu_may_run())
		goto failed;
	SLUB_SEQ_FETCH_ADD(slub_percpu_self, "q", "", offset, old, t);
	return old;
failed:
aborted:
	return (slub_percpu_fetch_add)(offset, n);
}
#define slub_percpu_fetch_add(...) slub_percpu_fetch_add_fast(__VA_ARGS__)

SLUB_INLINE int64_t slub_percpu_cmpxchg_fast(uintptr_t offset, int64_t old,
				      int64_t value)
{
	int64_t found = old;
	uintptr_t t;

	if (!slub_percpu_may_run())
		goto failed;
	SLUB_SEQ_CMPXCHG(slub_percpu_self, "q", "", offset, found, value, t);
	return found;
failed:
aborted:
	return (slub_percpu_cmpxchg)(offset, old, value);
}
#define slub_percpu_cmpxchg(...) slub_percpu_cmpxchg_fast(__VA_ARGS__)

SLUB_INLINE int32_t slub_percpu_cmpxchg32_fast(uintptr_t offset, int32_t old,
					int32_t value)
{
	int32_t found = old;
	uintptr_t t;

	if (!slub_percpu_may_run())
		goto failed;
	SLUB_SEQ_CMPXCHG(slub_percpu_self, "l", "k", offset, found, value, t);
	return found;
failed:
aborted:
	return (slub_percpu_cmpxchg32)(offset, old, value);
}
#define slub_percpu_cmpxchg32(...) slub_percpu_cmpxchg32_fast(__VA_ARGS__)

SLUB_INLINE bool slub_percpu_push_fast(uintptr_t list, void *object, uint32_t limit)
{
	int32_t least = -(int32_t)limit;
	uintptr_t slot = list, t;

	if (!slub_percpu_may_run())
		goto failed;
	SLUB_SEQ_PUSH_BOUNDED(slub_percpu_self, object, slot, t, least);
	return true;
failed:
aborted:
	return (slub_percpu_push)(list, object, limit);
}
#define slub_percpu_push(...) slub_percpu_push_fast(__VA_ARGS__)

SLUB_INLINE void *slub_percpu_pop_fast(uintptr_t list)
{
	uintptr_t slot = list, t;
	void *object;

	if (!slub_percpu_may_run())
		goto failed;
	SLUB_SEQ_POP_LIVE(slub_percpu_self, object, slot, t);
	return object;
failed:
aborted:
	return (slub_percpu_pop)(list);
}
#define slub_percpu_pop(...) slub_percpu_pop_fast(__VA_ARGS__)
#endif

SLUB_INLINE int64_t slub_percpu_add_return(uintptr_t offset, int64_t n)
{
	return slub_percpu_fetch_add(offset, n) + n;
}

#ifdef __cplusplus
}
SLUB_C_END
#endif

#endif
