/* SPDX-License-Identifier: MIT */
/*
 * The pieces that the restartable sequences of aarch64 are made of, as assembler text, and those
 * for words.  Names and operands are as in <slub/arch/x86_64.h>; programs have none of it inline.
 *
 * Local labels: 1 start, 2 one past the commit, 3 descriptor, 4 abort.  %[rseq] and %[cid] are
 * addresses.  The branches to `failed` reach 1 MiB: they stay within their function, for gcc and
 * clang do not part one here.
 *
 * The order that loads are made in matters once: from the table of areas to what lies in one.
 * There it is by address (collect.c stores the entry with release), so nothing stronger is needed.
 * A test of the area's number (SLUB_SEQ_HERE) would need an acquire, and is not used here.
 */
#ifndef SLUB_ARCH_AARCH64_TEXT_H
#define SLUB_ARCH_AARCH64_TEXT_H

#define SLUB_SEQ_ENTER							\
	".pushsection __rseq_cs, \"aw?\"\n\t"				\
	".balign 32\n"							\
	"3:\n\t"							\
	".long 0, 0\n\t"						\
	".quad 1f, 2f - 1f, 4f\n\t"					\
	".popsection\n\t"						\
	"adrp %[t], 3b\n\t"						\
	"add %[t], %[t], :lo12:3b\n\t"					\
	"str %[t], [%[rseq], #8]\n"					\
	"1:\n\t"

#if SLUB_CONFIG_SMP
#define SLUB_SEQ_AREA							\
	"ldrsw %[t], [%[cid]]\n\t"					\
	"ldr %[t], [%[base], %[t], lsl #3]\n\t"
#else
#define SLUB_SEQ_AREA							\
	"ldr %[t], [%[base]]\n\t"
#endif
#define SLUB_SEQ_ADD_AREA						\
	SLUB_SEQ_AREA							\
	"add %[slot], %[offset], %[t]\n\t"

/* The area in %[t] must be a CPU's own, and not the dummy. */
#define SLUB_SEQ_LIVE							\
	"ldr %w[r], [%[t], #24]\n\t"					\
	"cbz %w[r], %l[failed]\n\t"

/* The last store is the one before this. */
#define SLUB_SEQ_LEAVE							\
	"\n2:\n\t"							\
	".pushsection .text.slub_abort, \"ax?\"\n\t"			\
	".inst 0xd428bc00\n"						\
	"4:\n\t"							\
	"b %l[aborted]\n\t"						\
	".popsection\n\t"

/* Words: @suffix_ is q for 8 bytes, l for 4; the assembler chooses the registers' size. */
#define SLUB_SEQ_SIZED(suffix_, eight_, four_)				\
	".ifc " suffix_ ",q\n\t"					\
	eight_ "\n\t"							\
	".else\n\t"							\
	four_ "\n\t"							\
	".endif\n\t"

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
