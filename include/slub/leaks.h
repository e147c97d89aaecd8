/* SPDX-License-Identifier: MIT */
/*
 * Leaks: the objects of this process that nothing leads to any more.
 *
 * A test that ends with
 *
 *	assert(slub_leaks_find(NULL, NULL) == 0);
 *
 * fails when its program has lost memory.  No option is needed, no other build, and not the end
 * of the program.  docs/operate/leaks.md says what a leak is and what a search cannot know;
 * `slub leaks PID` does the same from outside.
 */
#ifndef SLUB_INCLUDE_LEAKS_H
#define SLUB_INCLUDE_LEAKS_H

#include <stddef.h>
#include <stdint.h>

#include <slub/compiler.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A leak that no other leads to; of a ring, the object with the lowest address. */
struct slub_leak {
	const void *object;
	size_t bytes;			/* that its user may use */
	size_t beneath;			/* leaks that this one leads to */
	size_t beneath_bytes;
	const char *cache;		/* its name: "malloc-64"; "malloc-large" */
	const uintptr_t *frames;	/* who allocated it, the innermost first; NULL: not known */
	uint32_t nr_frames;
	uint32_t is_ring;		/* it leads to itself, by others */
	uint64_t reserved[4];		/* 0 */
};

/* Leaks that are visited at the most; all are counted. */
#define SLUB_LEAKS_VISITED_MAX (SLUB_SIZE(1) << 16)

/*
 * slub_leaks_find - search this process for objects that nothing leads to.
 *
 * Calls @visit, which may be NULL, for each leak that no other leads to, in the order of their
 * addresses, until it returns non-zero.  Objects and names are valid during the call, and the
 * stack is known where letter U of SLUB_DEBUG, the guard or the heap profile saw the object
 * allocated.  @visit may allocate and free, leaks too.
 * The caller chooses a quiet moment: each other thread waits in a system call, or else keeps each
 * pointer in memory and not in a register alone; and no thread is amid a call of the allocator.
 * Where that does not hold, an object on its way is called a leak.  What calls have left on the
 * stack of a running thread hides leaks, and makes none.
 * A child without a thread of the program's searches, in a copy of the memory as of one moment:
 * no lock of the program matters, no signal is sent, and no handler runs, neither at SIGCHLD nor
 * of pthread_atfork(3).
 * Returns how many leaks there are, those beneath others included: 0, none.  Errors: -ENOTSUP, in
 * the hardened library, which hides the links of free objects; -EBUSY, another thread searches,
 * or @visit does; -EDEADLK, in a signal handler that interrupted the allocator; -ENOMEM, -EAGAIN,
 * -EPERM or the like, the kernel refused memory or the child; -ENOENT or the like, it shows no
 * /proc/self/maps; -EIO, the child was killed.
 * Nobody leaves it by longjmp(3) or an exception, neither @visit nor a handler of a signal that
 * comes meanwhile: the search would stay begun, and each one after it is -EBUSY.
 * Context: any thread, not from a signal handler; @visit is called without locks.  Cost: a fork,
 * which copies the page tables; a second of CPU time for 1 GiB of small objects that lead to each
 * other in order, ten in random order, more where they are leaks; a thirtieth of the heap in memory
 * until it returns, and what other threads write meanwhile, which the kernel copies.
 * From: __lsan_do_recoverable_leak_check().
 */
SLUB_API long slub_leaks_find(int (*visit)(const struct slub_leak *leak, void *arg), void *arg);

#ifdef __cplusplus
}
#endif

#endif
