/* SPDX-License-Identifier: MIT */
/*
 * The restartable sequences for x86-64, as assembler text: what the library's
 * own fast path is made of, and what the inline functions of percpu.h and
 * cache.h put into your program.  Not an interface by itself.
 *
 * Register use is the compiler's choice.  Local labels: 1 start, 2 one past
 * the commit, 3 descriptor, 4 abort.  The abort handler lies out of line,
 * behind an instruction (ud1 with the signature as its displacement) that
 * disassemblers read as one.  Both go into the group of the function they belong
 * to ("?"), and the handlers into a section of their own, not the compiler's,
 * which counts its bytes for the exception tables.  The contract (RSEQ-1 to
 * RSEQ-6) is in the library's src/core/arch/rseq.h and docs/internals/rseq.md.
 *
 * A statement that uses one of these has labels `failed` and `aborted` around
 * it: failed means the area says no (an empty list, a full one, no area),
 * aborted that the kernel moved the thread in the middle of it.
 */
#ifndef SLUB_INCLUDE_ARCH_X86_64_H
#define SLUB_INCLUDE_ARCH_X86_64_H

#include <slub/arch/end.h>

/*
 * The rseq area of a thread and the CPU number in it, as @entrance_ says.  The area begins at a
 * multiple of 32, and the number lies within 32 bytes, so one word tells both: a pair of
 * slub_cache_alloc() and slub_cache_free() waits for its loads and stores.
 */
#define SLUB_SEQ_IS_OPEN(entrance_) ((entrance_).cid != 0)
#define SLUB_SEQ_OFFSETS(entrance_)					\
	[rseq] "r"((entrance_).cid & ~(uintptr_t)31), [cid] "r"((entrance_).cid)

/* Defines the descriptor; its address is in %[t]. */
#define SLUB_SEQ_DESCRIPTOR						\
	".pushsection __rseq_cs, \"aw?\"\n\t"			\
	".balign 32\n"							\
	"3:\n\t"							\
	".long 0, 0\n\t"						\
	".quad 1f, 2f - 1f, 4f\n\t"					\
	".popsection\n\t"						\
	"leaq 3b(%%rip), %[t]\n\t"

/* Makes it the thread's current one (RSEQ-1). */
#define SLUB_SEQ_ENTER							\
	SLUB_SEQ_DESCRIPTOR						\
	"movq %[t], %%fs:8(%[rseq])\n"					\
	"1:\n\t"

/*
 * Leaves the address of this CPU's area in %[t], or adds it to a register.  With its
 * sign: the kernel's CPU number is below 0 in a thread that is not registered, and
 * each table has entries for that.
 */
#ifndef SLUB_SEQ_UNIPROCESSOR
#define SLUB_SEQ_AREA							\
	"movslq %%fs:(%[cid]), %[t]\n\t"				\
	"movq (%[base], %[t], 8), %[t]\n\t"
#define SLUB_SEQ_ADD_AREA(reg)						\
	"movslq %%fs:(%[cid]), %[t]\n\t"				\
	"addq (%[base], %[t], 8), " reg "\n\t"
#ifndef SLUB_SEQ_INPUTS
#define SLUB_SEQ_INPUTS(entrance_)						\
	SLUB_SEQ_OFFSETS(entrance_), [base] "r"((entrance_).base)
#endif
#else
/* One area; preemption is what a sequence guards against. */
#define SLUB_SEQ_AREA							\
	"movq (%[base]), %[t]\n\t"
#define SLUB_SEQ_ADD_AREA(reg)						\
	"addq (%[base]), " reg "\n\t"
#ifndef SLUB_SEQ_INPUTS
#define SLUB_SEQ_INPUTS(entrance_)						\
	[rseq] "r"((entrance_).cid & ~(uintptr_t)31), [base] "r"((entrance_).base)
#endif
#endif

/* The area in %[t] must be a CPU's own, and not the dummy. */
#define SLUB_SEQ_LIVE							\
	"cmpl $0, 24(%[t])\n\t"						\
	"je %l[failed]\n\t"

/*
 * The sequences of programs work in the area that the entrance remembers, if it
 * is this CPU's and not stopped: an area has its CPU's number at 28, or one that is
 * none.  Number and word must be of one area, so @entrance_ is what
 * slub_percpu_entrance() returned.
 *
 * The word has its address in one register, computed before.  A processor knows a
 * word again by the text of its address and forwards a store to the next load at
 * once: a Sapphire Rapids only without an index (a pair of alloc and free 5.6 -> 4.0
 * ns, a counter 2.4 -> 1.1), a Zen 5 only where no register of the address is written
 * in between (6.1 -> 3.4).
 */
#define SLUB_SEQ_HERE							\
	"movl %%fs:(%[cid]), %k[t]\n\t"					\
	"cmpl %k[t], 28(%[area])\n\t"					\
	"jne %l[failed]\n\t"
#define SLUB_SEQ_HERE_INPUTS(entrance_)				\
	SLUB_SEQ_OFFSETS(entrance_), [area] "r"((entrance_).area)

#define SLUB_SEQ_LEAVE							\
	"\n2:\n\t"							\
	".pushsection .text.slub_abort, \"ax?\"\n\t"		\
	".byte 0x0f, 0xb9, 0x3d\n\t"					\
	".long 0x53053053\n"						\
	"4:\n\t"							\
	"jmp %l[aborted]\n\t"						\
	".popsection\n\t"

/* Stands where one more input may stand: ISO C has no list that may be empty. */
#define SLUB_SEQ_NO_INPUT [none] "i"(0)

/* Has the first object of the list at %[slot] in %[object]; without one it goes to failed. */
#define SLUB_SEQ_FIRST							\
	SLUB_SEQ_ENTER							\
	SLUB_SEQ_ADD_AREA("%[slot]")					\
	"movq (%[slot]), %[object]\n\t"					\
	"testq %[object], %[object]\n\t"				\
	"jz %l[failed]\n\t"

/*
 * Takes the first object of the list at @slot_, which enters as the offset and
 * is clobbered.  @link_ is where the object keeps its link, an assembler
 * operand: "(%[object])", with SLUB_SEQ_NO_INPUT, or "(%[object], %[link])", with
 * the input for that.
 *
 * The next object is fetched ahead: the next pop reads its link, and its user
 * writes to it.  One instruction, which costs nothing where the list is in the
 * first-level cache; where what was freed lies about, each pop would wait for
 * memory (100,000 objects freed in random order: 365 to 165 ns for allocating and
 * freeing one; in the order of allocation 188 to 156).
 */
#define SLUB_SEQ_POP_AT(entrance_, object_, slot_, t_, link_, input_)	\
	__asm__ volatile goto(						\
		SLUB_SEQ_FIRST						\
		"movq " link_ ", %[t]\n\t"				\
		"prefetchw (%[t])\n\t"					\
		"addl $1, 8(%[slot])\n\t"				\
		"movq %[t], (%[slot])"					\
		SLUB_SEQ_LEAVE						\
		: [object] "=&a"(object_), [t] "=&r"(t_),		\
		  [slot] "+&r"(slot_)					\
		: SLUB_SEQ_INPUTS(entrance_), input_				\
		: "memory", "cc"					\
		: failed, aborted)
#define SLUB_SEQ_POP(entrance_, object_, slot_, t_)				\
	SLUB_SEQ_POP_AT(entrance_, object_, slot_, t_, "(%[object])",	\
			SLUB_SEQ_NO_INPUT)
#define SLUB_SEQ_POP_LINK(entrance_, object_, slot_, t_, offset_)		\
	SLUB_SEQ_POP_AT(entrance_, object_, slot_, t_, "(%[object], %[link])", \
			[link] "r"(offset_))

/*
 * The same for a list of slub_percpu_alloc(), which the dummy area is too small
 * to have.
 */
#define SLUB_SEQ_POP_LIVE(entrance_, object_, slot_, t_)		\
	__asm__ volatile goto(						\
		SLUB_SEQ_ENTER						\
		SLUB_SEQ_AREA						\
		SLUB_SEQ_LIVE						\
		"addq %[t], %[slot]\n\t"				\
		"movq (%[slot]), %[object]\n\t"				\
		"testq %[object], %[object]\n\t"			\
		"jz %l[failed]\n\t"					\
		"movq (%[object]), %[t]\n\t"				\
		"addl $1, 8(%[slot])\n\t"				\
		"movq %[t], (%[slot])"					\
		SLUB_SEQ_LEAVE						\
		: [object] "=&a"(object_), [t] "=&r"(t_),		\
		  [slot] "+&r"(slot_)					\
		: SLUB_SEQ_INPUTS(entrance_)				\
		: "memory", "cc"					\
		: failed, aborted)

/* Puts @object_ in front of the list at @slot_ if there is room. */
#define SLUB_SEQ_PUSH_AT(entrance_, object_, slot_, t_, link_, input_)	\
	__asm__ volatile goto(						\
		SLUB_SEQ_ENTER						\
		SLUB_SEQ_ADD_AREA("%[slot]")				\
		"cmpl $0, 8(%[slot])\n\t"				\
		"jle %l[failed]\n\t"					\
		"movq (%[slot]), %[t]\n\t"				\
		"movq %[t], " link_ "\n\t"				\
		"subl $1, 8(%[slot])\n\t"				\
		"movq %[object], (%[slot])"				\
		SLUB_SEQ_LEAVE						\
		: [t] "=&r"(t_), [slot] "+&r"(slot_)			\
		: SLUB_SEQ_INPUTS(entrance_), [object] "r"(object_),		\
		  input_						\
		: "memory", "cc"					\
		: failed, aborted)
#define SLUB_SEQ_PUSH(entrance_, object_, slot_, t_)				\
	SLUB_SEQ_PUSH_AT(entrance_, object_, slot_, t_, "(%[object])",	\
			 SLUB_SEQ_NO_INPUT)

/* As PUSH, on a list that may get as long as its owner says: room counts
 * down from 0, @least_ is minus the limit. */
#define SLUB_SEQ_PUSH_BOUNDED(entrance_, object_, slot_, t_, least_)		\
	__asm__ volatile goto(						\
		SLUB_SEQ_ENTER						\
		SLUB_SEQ_AREA						\
		SLUB_SEQ_LIVE						\
		"addq %[t], %[slot]\n\t"				\
		"cmpl %[least], 8(%[slot])\n\t"				\
		"jle %l[failed]\n\t"					\
		"movq (%[slot]), %[t]\n\t"				\
		"movq %[t], (%[object])\n\t"				\
		"subl $1, 8(%[slot])\n\t"				\
		"movq %[object], (%[slot])"				\
		SLUB_SEQ_LEAVE						\
		: [t] "=&r"(t_), [slot] "+&r"(slot_)			\
		: SLUB_SEQ_INPUTS(entrance_), [object] "r"(object_),		\
		  [least] "r"(least_)					\
		: "memory", "cc"					\
		: failed, aborted)

/* Words: @suffix_ is q or l; @offset_ is the word's. */
#define SLUB_SEQ_ADD(entrance_, suffix_, modifier_, offset_, n_, t_)		\
	__asm__ volatile goto(						\
		SLUB_SEQ_ENTER						\
		SLUB_SEQ_AREA						\
		SLUB_SEQ_LIVE						\
		"addq %[offset], %[t]\n\t"				\
		"add" suffix_ " %" modifier_ "[n], (%[t])"	\
		SLUB_SEQ_LEAVE						\
		: [t] "=&r"(t_)						\
		: SLUB_SEQ_INPUTS(entrance_), [offset] "r"(offset_),		\
		  [n] "re"(n_)						\
		: "memory", "cc"					\
		: failed, aborted)

/* Adds @n_ and leaves in it what the word was before. */
#define SLUB_SEQ_FETCH_ADD(entrance_, suffix_, modifier_, offset_, n_, t_)	\
	__asm__ volatile goto(						\
		SLUB_SEQ_ENTER						\
		SLUB_SEQ_AREA						\
		SLUB_SEQ_LIVE						\
		"addq %[offset], %[t]\n\t"				\
		"xadd" suffix_ " %" modifier_ "[n], (%[t])"	\
		SLUB_SEQ_LEAVE						\
		: [t] "=&r"(t_), [n] "+&r"(n_)				\
		: SLUB_SEQ_INPUTS(entrance_), [offset] "r"(offset_)		\
		: "memory", "cc"					\
		: failed, aborted)

/* @old_, in rax, is what was found. */
#define SLUB_SEQ_CMPXCHG(entrance_, suffix_, modifier_, offset_, old_, new_, t_) \
	__asm__ volatile goto(						\
		SLUB_SEQ_ENTER						\
		SLUB_SEQ_AREA						\
		SLUB_SEQ_LIVE						\
		"addq %[offset], %[t]\n\t"				\
		"cmpxchg" suffix_ " %" modifier_ "[value], (%[t])" \
		SLUB_SEQ_LEAVE						\
		: [t] "=&r"(t_), [old] "+&a"(old_)			\
		: SLUB_SEQ_INPUTS(entrance_), [offset] "r"(offset_),		\
		  [value] "r"(new_)					\
		: "memory", "cc"					\
		: failed, aborted)

/*
 * Goes to failed if no object begins at @object_: (address & start_[0]) * start_[1] is below
 * start_[1] where one does.  As text, for compilers take an instruction more; both by one load.
 */
#define SLUB_SEQ_START(object_, start_, t_)				\
	do {								\
		uintptr_t factor_;					\
		__asm__ volatile goto(					\
			"movq %[start], %[factor]\n\t"			\
			"movl %k[object], %k[t]\n\t"			\
			"andl %k[factor], %k[t]\n\t"			\
			"shrq $32, %[factor]\n\t"			\
			"imull %k[factor], %k[t]\n\t"			\
			"cmpl %k[factor], %k[t]\n\t"			\
			"jae %l[failed]"				\
			: [t] "=&r"(t_), [factor] "=&r"(factor_)	\
			: [object] "r"(object_),			\
			  [start] "m"(*(const uint32_t(*)[2])(start_))	\
			: "cc"						\
			: failed);					\
	} while (0)

/* ---- in the area that the entrance remembers ---- */

/*
 * Takes the first object of a typed cache's list, and fetches the next ahead as
 * SLUB_SEQ_POP_AT does (100,000 objects of 64 bytes freed in random order: 65 to 36
 * ns for freeing and allocating one; in reuse the one instruction is some 3 %).
 * @next_ leaves the link in %[t], and may fail; @more_ is one more output.
 */
#define SLUB_SEQ_POP_HERE_BY(entrance_, object_, slot_, t_, next_, more_,	\
			     input_)					\
	__asm__ volatile goto(						\
		SLUB_SEQ_ENTER						\
		SLUB_SEQ_HERE						\
		"movq (%[slot]), %[object]\n\t"				\
		"testq %[object], %[object]\n\t"			\
		"jz %l[failed]\n\t"					\
		next_							\
		"addl $1, 8(%[slot])\n\t"				\
		"movq %[t], (%[slot])"					\
		SLUB_SEQ_LEAVE						\
		: [object] "=&a"(object_), more_ [t] "=&r"(t_)		\
		: SLUB_SEQ_HERE_INPUTS(entrance_),		\
		  [slot] "r"((entrance_).area + (slot_)), input_			\
		: "memory", "cc"					\
		: failed, aborted)
#define SLUB_SEQ_MORE(output_) output_,
#define SLUB_SEQ_NO_MORE
/* With the link @offset_ bytes into the object, and no check word. */
#define SLUB_SEQ_POP_HERE(entrance_, object_, slot_, t_, offset_)	\
	SLUB_SEQ_POP_HERE_BY(entrance_, object_, slot_, t_,		\
			     "movq (%[object], %[link]), %[t]\n\t"	\
			     "prefetchw (%[t])\n\t",			\
			     SLUB_SEQ_NO_MORE, [link] "r"(offset_))
/*
 * With the link in the first word, and in the second the check word, which is the
 * key ^ the link ^ the object's address: else it fails.  The key is at 16 of the area.
 */
#define SLUB_SEQ_POP_KEY_HERE(entrance_, object_, slot_, t_)		\
	do {								\
		uintptr_t had_;						\
		SLUB_SEQ_POP_HERE_BY(entrance_, object_, slot_, t_,	\
				     "movq (%[object]), %[t]\n\t"	\
				     "prefetchw (%[t])\n\t"		\
				     "movq 8(%[object]), %[had]\n\t"	\
				     "xorq %[object], %[had]\n\t"	\
				     "xorq %[t], %[had]\n\t"		\
				     "cmpq %[had], 16(%[area])\n\t"	\
				     "jne %l[failed]\n\t",		\
				     SLUB_SEQ_MORE([had] "=&r"(had_)),	\
				     SLUB_SEQ_NO_INPUT);		\
	} while (0)

/* The same with both @offset_ bytes into the object: the word covers the link's address. */
#define SLUB_SEQ_POP_KEPT_HERE(entrance_, object_, slot_, t_, offset_)	\
	do {								\
		uintptr_t had_;						\
		SLUB_SEQ_POP_HERE_BY(entrance_, object_, slot_, t_,	\
				     "leaq (%[object], %[link]), %[had]\n\t" \
				     "movq (%[had]), %[t]\n\t"		\
				     "prefetchw (%[t])\n\t"		\
				     "xorq 8(%[had]), %[had]\n\t"	\
				     "xorq %[t], %[had]\n\t"		\
				     "cmpq %[had], 16(%[area])\n\t"	\
				     "jne %l[failed]\n\t",		\
				     SLUB_SEQ_MORE([had] "=&r"(had_)),	\
				     [link] "r"(offset_));		\
	} while (0)

/*
 * Puts an object of a typed cache in front.  @look_ fails for what looks free already, @link_
 * makes a link of the head, in %[t], and stores it.
 */
#define SLUB_SEQ_PUSH_HERE_BY(entrance_, object_, slot_, t_, look_, link_, input_) \
	do {								\
		uint32_t room_;						\
		__asm__ volatile goto(					\
			SLUB_SEQ_ENTER					\
			SLUB_SEQ_HERE					\
			"movl 8(%[slot]), %[room]\n\t"			\
			"subl $1, %[room]\n\t"				\
			"jl %l[failed]\n\t"				\
			look_						\
			"movq (%[slot]), %[t]\n\t"			\
			link_						\
			"movl %[room], 8(%[slot])\n\t"			\
			"movq %[object], (%[slot])"			\
			SLUB_SEQ_LEAVE					\
			: [t] "=&r"(t_), [room] "=&r"(room_)		\
			: SLUB_SEQ_HERE_INPUTS(entrance_),		\
			  [slot] "r"((entrance_).area + (slot_)),	\
			  [object] "r"(object_), input_			\
			: "memory", "cc"				\
			: failed, aborted);				\
	} while (0)
/* Without a check word: the head looks free, which is what a second free in a row finds. */
#define SLUB_SEQ_PUSH_HERE(entrance_, object_, slot_, t_, offset_)	\
	SLUB_SEQ_PUSH_HERE_BY(entrance_, object_, slot_, t_, "",	\
			      "cmpq %[t], %[object]\n\t"		\
			      "je %l[failed]\n\t"			\
			      "movq %[t], (%[object], %[link])\n\t",	\
			      [link] "r"(offset_))
/* With one, whose topmost 16 bits are the same in all processes. */
#define SLUB_SEQ_PUSH_KEY_HERE(entrance_, object_, slot_, t_)		\
	SLUB_SEQ_PUSH_HERE_BY(entrance_, object_, slot_, t_,		\
			      "movzwl 14(%[object]), %k[t]\n\t"	\
			      "cmpl $0x86f9, %k[t]\n\t"		\
			      "je %l[failed]\n\t",			\
			      "movq %[t], (%[object])\n\t"		\
			      "xorq %[object], %[t]\n\t"		\
			      "xorq 16(%[area]), %[t]\n\t"		\
			      "movq %[t], 8(%[object])\n\t",		\
			      SLUB_SEQ_NO_INPUT)

/* With both at @place_. */
#define SLUB_SEQ_PUSH_KEPT_HERE(entrance_, object_, slot_, t_, place_)	\
	SLUB_SEQ_PUSH_HERE_BY(entrance_, object_, slot_, t_,		\
			      "movzwl 14(%[place]), %k[t]\n\t"		\
			      "cmpl $0x86f9, %k[t]\n\t"		\
			      "je %l[failed]\n\t",			\
			      "movq %[t], (%[place])\n\t"		\
			      "xorq %[place], %[t]\n\t"		\
			      "xorq 16(%[area]), %[t]\n\t"		\
			      "movq %[t], 8(%[place])\n\t",		\
			      [place] "r"(place_))

/* Adds to a word.  No "memory": nothing else of the program's is touched. */
#define SLUB_SEQ_ADD_HERE(entrance_, suffix_, modifier_, offset_, n_, t_) \
	__asm__ volatile goto(						\
		SLUB_SEQ_ENTER						\
		SLUB_SEQ_HERE						\
		"add" suffix_ " %" modifier_ "[n], (%[word])"		\
		SLUB_SEQ_LEAVE						\
		: [t] "=&r"(t_)						\
		: SLUB_SEQ_HERE_INPUTS(entrance_),		\
		  [word] "r"((entrance_).area + (offset_)), [n] "re"(n_)		\
		: "cc"							\
		: failed, aborted)

#endif
