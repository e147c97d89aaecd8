/* SPDX-License-Identifier: MIT */
/*
 * The restartable sequences of core/arch/rseq.h for aarch64, of words, from the pieces in
 * <slub/arch/aarch64.h>.
 *
 * The branches to `failed` reach 1 MiB: they stay within their function, for gcc and clang do not
 * part one here.  Programs go another way there.
 */
#ifndef SLUB_ARCH_AARCH64_TEXT_H
#define SLUB_ARCH_AARCH64_TEXT_H

#include <slub/arch/aarch64.h>

/* Straight to the label. */
#define SLUB_SEQ_LIVE SLUB_SEQ_LIVE_OR("%l[failed]")

/* @middle_ finds the word in %[r], and its address in %[t]; @outputs_ are more than these. */
#define RSEQ_WORD(suffix_, offset_, t_, middle_, behind_, outputs_, ...)	\
	do {								\
		uintptr_t r_;						\
		__asm__ volatile goto(					\
			SLUB_SEQ_ENTER					\
			SLUB_SEQ_AREA					\
			SLUB_SEQ_LIVE					\
			"add %[t], %[t], %[offset]\n\t"			\
			SLUB_SEQ_SIZED(suffix_, "ldr %x[r], [%[t]]",	\
				       "ldr %w[r], [%[t]]")		\
			middle_						\
			SLUB_SEQ_LEAVE					\
			behind_						\
			: outputs_, [t] "=&r"(t_), [r] "=&r"(r_)	\
			: SLUB_SEQ_INPUTS(SLUB_SEQ_SELF),		\
			  [offset] "r"(offset_), ## __VA_ARGS__		\
			: "memory", "cc"				\
			: failed, aborted);				\
	} while (0)

/* Leaves in @n_ what the word was before, behind the commit. */
#define RSEQ_FETCH_ADD(suffix_, modifier_, offset_, n_, t_)		\
	RSEQ_WORD(suffix_, offset_, t_,					\
		  "add %x[n], %x[n], %x[r]\n\t"				\
		  SLUB_SEQ_SIZED(suffix_, "str %x[n], [%[t]]",		\
				 "str %w[n], [%[t]]"),			\
		  "mov %x[n], %x[r]\n\t", [n] "+&r"(n_))

#define RSEQ_ADD(suffix_, modifier_, offset_, n_, t_)			\
	do {								\
		__typeof__(n_) sum_ = n_;				\
		RSEQ_FETCH_ADD(suffix_, modifier_, offset_, sum_, t_);	\
	} while (0)

/* @old_ becomes what was found, behind the end; where that differs nothing is stored. */
#define RSEQ_CMPXCHG(suffix_, modifier_, offset_, old_, new_, t_)	\
	RSEQ_WORD(suffix_, offset_, t_,					\
		  SLUB_SEQ_SIZED(suffix_, "cmp %x[r], %x[old]",		\
				 "cmp %w[r], %w[old]")			\
		  "b.ne 2f\n\t"						\
		  SLUB_SEQ_SIZED(suffix_, "str %x[value], [%[t]]",	\
				 "str %w[value], [%[t]]"),		\
		  "mov %x[old], %x[r]\n\t",				\
		  [old] "+&r"(old_), [value] "r"(new_))

#endif
