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

/* As in <slub/arch/x86_64.h>. */
static always_inline void *slub_seq_end(void *result)
{
	__asm__ volatile("" : "+r"(result));
	return result;
}

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
	"add %[slot], %[slot], %[t]\n\t"

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

#define SLUB_SEQ_POP_LIVE(entrance_, object_, slot_, t_)		\
	do {								\
		uintptr_t r_;						\
		__asm__ volatile goto(					\
			SLUB_SEQ_ENTER					\
			SLUB_SEQ_AREA					\
			SLUB_SEQ_LIVE					\
			"add %[slot], %[slot], %[t]\n\t"		\
			"ldr %[object], [%[slot]]\n\t"			\
			"cbz %[object], %l[failed]\n\t"			\
			"ldr %[t], [%[object]]\n\t"			\
			"ldr %w[r], [%[slot], #8]\n\t"			\
			"add %w[r], %w[r], #1\n\t"			\
			"str %w[r], [%[slot], #8]\n\t"			\
			"str %[t], [%[slot]]"				\
			SLUB_SEQ_LEAVE					\
			: [object] "=&r"(object_), [t] "=&r"(t_),	\
			  [r] "=&r"(r_), [slot] "+&r"(slot_)		\
			: SLUB_SEQ_INPUTS(entrance_)			\
			: "memory", "cc"				\
			: failed, aborted);				\
	} while (0)

#define SLUB_SEQ_PUSH_BOUNDED(entrance_, object_, slot_, t_, least_)	\
	do {								\
		uintptr_t r_;						\
		__asm__ volatile goto(					\
			SLUB_SEQ_ENTER					\
			SLUB_SEQ_AREA					\
			SLUB_SEQ_LIVE					\
			"add %[slot], %[slot], %[t]\n\t"		\
			"ldr %w[r], [%[slot], #8]\n\t"			\
			"cmp %w[r], %w[least]\n\t"			\
			"b.le %l[failed]\n\t"				\
			"ldr %[t], [%[slot]]\n\t"			\
			"str %[t], [%[object]]\n\t"			\
			"sub %w[r], %w[r], #1\n\t"			\
			"str %w[r], [%[slot], #8]\n\t"			\
			"str %[object], [%[slot]]"			\
			SLUB_SEQ_LEAVE					\
			: [t] "=&r"(t_), [r] "=&r"(r_),			\
			  [slot] "+&r"(slot_)				\
			: SLUB_SEQ_INPUTS(entrance_),			\
			  [object] "r"(object_), [least] "r"(least_)	\
			: "memory", "cc"				\
			: failed, aborted);				\
	} while (0)

/* Words: @suffix_ is q for 8 bytes, l for 4; the assembler chooses the registers' size. */
#define SLUB_SEQ_SIZED(suffix_, eight_, four_)				\
	".ifc " suffix_ ",q\n\t"					\
	eight_ "\n\t"							\
	".else\n\t"							\
	four_ "\n\t"							\
	".endif\n\t"

#define SLUB_SEQ_ADD(entrance_, suffix_, modifier_, offset_, n_, t_)	\
	do {								\
		uintptr_t r_;						\
		__asm__ volatile goto(					\
			SLUB_SEQ_ENTER					\
			SLUB_SEQ_AREA					\
			SLUB_SEQ_LIVE					\
			"add %[t], %[t], %[offset]\n\t"			\
			SLUB_SEQ_SIZED(suffix_, "ldr %x[r], [%[t]]",	\
				       "ldr %w[r], [%[t]]")		\
			"add %x[r], %x[r], %x[n]\n\t"			\
			SLUB_SEQ_SIZED(suffix_, "str %x[r], [%[t]]",	\
				       "str %w[r], [%[t]]")		\
			SLUB_SEQ_LEAVE					\
			: [t] "=&r"(t_), [r] "=&r"(r_)			\
			: SLUB_SEQ_INPUTS(entrance_),			\
			  [offset] "r"(offset_), [n] "r"(n_)		\
			: "memory", "cc"				\
			: failed, aborted);				\
	} while (0)

/* Leaves in @n_ what the word was before, behind the commit. */
#define SLUB_SEQ_FETCH_ADD(entrance_, suffix_, modifier_, offset_, n_, t_) \
	do {								\
		uintptr_t r_;						\
		__asm__ volatile goto(					\
			SLUB_SEQ_ENTER					\
			SLUB_SEQ_AREA					\
			SLUB_SEQ_LIVE					\
			"add %[t], %[t], %[offset]\n\t"			\
			SLUB_SEQ_SIZED(suffix_, "ldr %x[r], [%[t]]",	\
				       "ldr %w[r], [%[t]]")		\
			"add %x[n], %x[n], %x[r]\n\t"			\
			SLUB_SEQ_SIZED(suffix_, "str %x[n], [%[t]]",	\
				       "str %w[n], [%[t]]")		\
			SLUB_SEQ_LEAVE					\
			"mov %x[n], %x[r]\n\t"				\
			: [t] "=&r"(t_), [r] "=&r"(r_), [n] "+&r"(n_)	\
			: SLUB_SEQ_INPUTS(entrance_),			\
			  [offset] "r"(offset_)				\
			: "memory", "cc"				\
			: failed, aborted);				\
	} while (0)

/* @old_ becomes what was found, behind the end; where that differs nothing is stored. */
#define SLUB_SEQ_CMPXCHG(entrance_, suffix_, modifier_, offset_, old_, new_, t_) \
	do {								\
		uintptr_t r_;						\
		__asm__ volatile goto(					\
			SLUB_SEQ_ENTER					\
			SLUB_SEQ_AREA					\
			SLUB_SEQ_LIVE					\
			"add %[t], %[t], %[offset]\n\t"			\
			SLUB_SEQ_SIZED(suffix_, "ldr %x[r], [%[t]]",	\
				       "ldr %w[r], [%[t]]")		\
			SLUB_SEQ_SIZED(suffix_, "cmp %x[r], %x[old]",	\
				       "cmp %w[r], %w[old]")		\
			"b.ne 2f\n\t"					\
			SLUB_SEQ_SIZED(suffix_, "str %x[value], [%[t]]", \
				       "str %w[value], [%[t]]")		\
			SLUB_SEQ_LEAVE					\
			"mov %x[old], %x[r]\n\t"			\
			: [t] "=&r"(t_), [r] "=&r"(r_),			\
			  [old] "+&r"(old_)				\
			: SLUB_SEQ_INPUTS(entrance_),			\
			  [offset] "r"(offset_), [value] "r"(new_)	\
			: "memory", "cc"				\
			: failed, aborted);				\
	} while (0)

#endif
