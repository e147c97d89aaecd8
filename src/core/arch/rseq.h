/* SPDX-License-Identifier: MIT */
/*
 * The restartable sequences: their contract, for every CPU.
 *
 * A sequence runs on the area of the CPU that the thread is on.  The kernel
 * sends a thread that it preempts, moves or signals in the middle of one to
 * the abort handler, before anything else runs on that CPU: a sequence has
 * either made its last store (the commit) or has made no store that matters.
 *
 *   RSEQ-1  the rseq_cs store comes first, the CPU number is read after it;
 *   RSEQ-2  straight line, no call, one commit, and it is the last instruction;
 *   RSEQ-3  the only store before the commit is to `room` or `limit` (see slot.h) or to
 *           the link and the check word (slot.h) of the object being pushed, which
 *           nobody else owns yet;
 *   RSEQ-4  the test that fails on a dummy area comes before any store to the
 *           slot: the dummy area is read-only memory;
 *   RSEQ-5  the four bytes before the abort address are RSEQ_SIGNATURE;
 *   RSEQ-6  a link is read from an object that was the head: the object may
 *           have been popped by another thread since, but then the commit does
 *           not happen.  Its memory is never unmapped (PAGE-4), so the
 *           read cannot fault.
 *
 * The plain-C twins in fallback/sequence.h are the specification.  take and put are given the
 * offset of a half: main or spare.  All return an enum sequence_result or, where an object is
 * returned, NULL for a failure and SEQUENCE_ABORTED for an abort; an abort is an ordinary
 * result, the caller decides whether to try again.  rseq_function.h has the functions, and
 * what a CPU has to bring for them.
 */
#ifndef SLUB_ARCH_RSEQ_H
#define SLUB_ARCH_RSEQ_H

#include "core/arch/slot.h"

enum sequence_result {
	SEQUENCE_DONE,
	SEQUENCE_FAILED,
	SEQUENCE_RESTART,
};

#define SEQUENCE_ABORTED ((void *)1)

/* What glibc registers with. */
#if defined(__aarch64__)
#define RSEQ_SIGNATURE 0xd428bc00
#else
#define RSEQ_SIGNATURE 0x53053053
#endif

/* Offsets within the kernel's struct rseq. */
#define RSEQ_CPU_ID_START 0
#define RSEQ_CPU_ID 4
#define RSEQ_CS 8
#define RSEQ_NODE_ID 20
#define RSEQ_MM_CID 24
#define RSEQ_BYTES_MM_CID 28

/*
 * What a function returns from the labels of a sequence, where it is a constant: made behind the
 * label, and not known as one.  <slub/arch/end.h> says why, of slub_seq_end().
 */
static always_inline void *sequence_end(void *result)
{
	__asm__ volatile("" : "+r"(result));
	return result;
}

#if ARCH_HAS_RSEQ && SLUB_CPU_X86_64
#include "core/arch/x86_64/rseq.h"
#elif ARCH_HAS_RSEQ
#include "core/arch/aarch64/rseq.h"
#else
#include "core/arch/fallback/rseq.h"
#endif

#include "core/arch/rseq_function.h"

/* Has free() a sequence for the local lists of slabs (core/slab/local.h)? */
#if ARCH_HAS_RSEQ && SLUB_CPU_X86_64 && SLUB_CONFIG_SMP && SLUB_CONFIG_LAYOUT == 0 && \
	SLUB_CONFIG_CHECKS && !SLUB_CONFIG_HARDENED
#define ARCH_HAS_LOCAL 1
#else
#define ARCH_HAS_LOCAL 0
#endif

#endif
