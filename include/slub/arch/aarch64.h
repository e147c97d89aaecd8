/* SPDX-License-Identifier: MIT */
/*
 * The restartable sequences for aarch64, as assembler text: what the library's own are made of,
 * and what the inline functions of percpu.h and cache.h put into your program.  Not an interface
 * by itself.
 *
 * Register use is the compiler's choice.  Local labels: 1 start, 2 one past the commit, 3
 * descriptor, 4 abort, 6 failed.  %[rseq] and %[cid] are addresses.  Before the abort handler
 * stands the C library's signature, which is an instruction (brk).  The contract (RSEQ-1 to
 * RSEQ-6) is in the library's src/core/arch/rseq.h and docs/internals/rseq.md.
 *
 * The order that loads are made in matters once: from the table of areas to what lies in one.
 * There it is by address (the library stores the entry with release), so nothing stronger is
 * needed.  The area that an entrance remembers is not used: its number would need an acquire.
 *
 * A statement that uses one of these has labels `failed` and `aborted` around it: failed means the
 * area says no (an empty list, a full one, no area), aborted that the kernel moved the thread in
 * the middle of it.
 */
#ifndef SLUB_INCLUDE_ARCH_AARCH64_H
#define SLUB_INCLUDE_ARCH_AARCH64_H

#include <slub/arch/end.h>

/* Defines the descriptor and makes it the thread's current one (RSEQ-1). */
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

/*
 * Leaves the address of this CPU's area in %[t].  With its sign: the kernel's CPU number is below 0
 * in a thread that is not registered, and each table has entries for that.
 */
#ifndef SLUB_SEQ_UNIPROCESSOR
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

/* The area in %[t] must be a CPU's own, and not the dummy; else on to @failed_. */
#define SLUB_SEQ_LIVE_OR(failed_)					\
	"ldr %w[r], [%[t], #24]\n\t"					\
	"cbz %w[r], " failed_ "\n\t"

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

/* ---- in programs: @entrance_ is a struct slub_percpu_self ---- */

#define SLUB_SEQ_SELF_INPUTS(entrance_)					\
	[rseq] "r"((char *)__builtin_thread_pointer() + (entrance_).rseq), \
	[cid] "r"((char *)__builtin_thread_pointer() + (entrance_).cid), \
	[base] "r"((entrance_).base)

/*
 * A conditional branch reaches 1 MiB, and the compiler may put what is behind `failed` farther
 * away: so it goes by a branch at the end of this file's part of the section.
 */
#define SLUB_SEQ_FAILED							\
	".subsection 1\n"						\
	"6:\n\t"							\
	"b %l[failed]\n\t"						\
	".previous\n\t"
#define SLUB_SEQ_LIVE_AREA						\
	SLUB_SEQ_AREA							\
	SLUB_SEQ_LIVE_OR("6f")

/* @text_ ends in the commit; @behind_ follows it.  %[t] and %[r] are free to use. */
#define SLUB_SEQ_STATEMENT(entrance_, t_, text_, behind_, outputs_, ...)	\
	do {								\
		uintptr_t r_;						\
		__asm__ volatile goto(					\
			SLUB_SEQ_ENTER					\
			text_						\
			SLUB_SEQ_LEAVE					\
			behind_						\
			SLUB_SEQ_FAILED					\
			: outputs_ [t] "=&r"(t_), [r] "=&r"(r_)		\
			: SLUB_SEQ_SELF_INPUTS(entrance_), __VA_ARGS__	\
			: "memory", "cc"				\
			: failed, aborted);				\
	} while (0)
#define SLUB_SEQ_MORE(output_) output_,
#define SLUB_SEQ_NO_MORE

#define SLUB_SEQ_ROOM_ADD						\
	"ldr %w[r], [%[slot], #8]\n\t"					\
	"add %w[r], %w[r], #1\n\t"					\
	"str %w[r], [%[slot], #8]\n\t"

/* Leaves the first object of the list at %[offset] in %[object], and the area in %[t]. */
#define SLUB_SEQ_FIRST_HERE						\
	SLUB_SEQ_ADD_AREA						\
	"ldr %[object], [%[slot]]\n\t"					\
	"cbz %[object], 6f\n\t"
/* The next one, in %[t], is fetched ahead. */
#define SLUB_SEQ_AHEAD "prfm pstl1keep, [%[t]]\n\t"

/*
 * Goes to failed if no object begins at @object_: (address & start_[0]) * start_[1] is below
 * start_[1] where one does.
 */
#define SLUB_SEQ_START(object_, start_, t_)				\
	do {								\
		(t_) = (uint32_t)(uintptr_t)(object_) & (start_)[0];	\
		if (__builtin_expect((uint32_t)(t_) * (start_)[1] >=	\
				     (start_)[1], 0))			\
			goto failed;					\
	} while (0)

/* Takes the first object of the list at @slot_, which has its link at @offset_. */
#define SLUB_SEQ_POP_HERE(entrance_, object_, slot_, t_, offset_)	\
	do {								\
		uintptr_t at_;						\
		SLUB_SEQ_STATEMENT(entrance_, t_,			\
			SLUB_SEQ_FIRST_HERE				\
			"ldr %[t], [%[object], %[link]]\n\t"		\
			SLUB_SEQ_AHEAD					\
			SLUB_SEQ_ROOM_ADD				\
			"str %[t], [%[slot]]", "",			\
			SLUB_SEQ_MORE([object] "=&r"(object_))		\
			SLUB_SEQ_MORE([slot] "=&r"(at_)),		\
			[offset] "r"((uintptr_t)(slot_)),		\
			[link] "r"(offset_));				\
	} while (0)
/*
 * The same with the link in the first word, and in the second the check word, which is the key ^
 * the link ^ the object's address: else it fails.  The key is at 16 of the area.
 */
#define SLUB_SEQ_POP_KEY_HERE(entrance_, object_, slot_, t_)		\
	do {								\
		uintptr_t at_, key_;					\
		SLUB_SEQ_STATEMENT(entrance_, t_,			\
			SLUB_SEQ_FIRST_HERE				\
			"ldr %[key], [%[t], #16]\n\t"			\
			"ldp %[t], %[r], [%[object]]\n\t"		\
			SLUB_SEQ_AHEAD					\
			"eor %[key], %[key], %[object]\n\t"		\
			"eor %[r], %[r], %[t]\n\t"			\
			"cmp %[key], %[r]\n\t"				\
			"b.ne 6f\n\t"					\
			SLUB_SEQ_ROOM_ADD				\
			"str %[t], [%[slot]]", "",			\
			SLUB_SEQ_MORE([object] "=&r"(object_))		\
			SLUB_SEQ_MORE([key] "=&r"(key_))		\
			SLUB_SEQ_MORE([slot] "=&r"(at_)),		\
			[offset] "r"((uintptr_t)(slot_)));		\
	} while (0)

/* The same with both @offset_ bytes into the object: the word covers the link's address. */
#define SLUB_SEQ_POP_KEPT_HERE(entrance_, object_, slot_, t_, offset_)	\
	do {								\
		uintptr_t at_, key_;					\
		SLUB_SEQ_STATEMENT(entrance_, t_,			\
			SLUB_SEQ_FIRST_HERE				\
			"ldr %[key], [%[t], #16]\n\t"			\
			"add %[r], %[object], %[link]\n\t"		\
			"eor %[key], %[key], %[r]\n\t"			\
			"ldp %[t], %[r], [%[r]]\n\t"			\
			SLUB_SEQ_AHEAD					\
			"eor %[r], %[r], %[t]\n\t"			\
			"cmp %[key], %[r]\n\t"				\
			"b.ne 6f\n\t"					\
			SLUB_SEQ_ROOM_ADD				\
			"str %[t], [%[slot]]", "",			\
			SLUB_SEQ_MORE([object] "=&r"(object_))		\
			SLUB_SEQ_MORE([key] "=&r"(key_))		\
			SLUB_SEQ_MORE([slot] "=&r"(at_)),		\
			[offset] "r"((uintptr_t)(slot_)),		\
			[link] "r"(offset_));				\
	} while (0)

/* Leaves the list's room, less one, in %[r], and the area in %[t]; fails where it is full. */
#define SLUB_SEQ_ROOM_HERE						\
	SLUB_SEQ_ADD_AREA						\
	"ldr %w[r], [%[slot], #8]\n\t"					\
	"subs %w[r], %w[r], #1\n\t"					\
	"b.lt 6f\n\t"
#define SLUB_SEQ_PUT_HERE						\
	"str %w[r], [%[slot], #8]\n\t"					\
	"str %[object], [%[slot]]"

/*
 * Puts an object of a typed cache in front; also fails when it is the head already, which is
 * what freeing it twice in a row looks like.
 */
#define SLUB_SEQ_PUSH_HERE(entrance_, object_, slot_, t_, offset_)	\
	do {								\
		uintptr_t at_;						\
		SLUB_SEQ_STATEMENT(entrance_, t_,			\
			SLUB_SEQ_ROOM_HERE				\
			"ldr %[t], [%[slot]]\n\t"			\
			"cmp %[t], %[object]\n\t"			\
			"b.eq 6f\n\t"					\
			"str %[t], [%[object], %[link]]\n\t"		\
			SLUB_SEQ_PUT_HERE, "",				\
			SLUB_SEQ_MORE([slot] "=&r"(at_)),		\
			[offset] "r"((uintptr_t)(slot_)),		\
			[object] "r"(object_), [link] "r"(offset_));	\
	} while (0)
/*
 * The same with a check word, whose topmost 16 bits are the same in all processes: also fails when
 * there seems to be one.
 */
#define SLUB_SEQ_PUSH_KEY_HERE(entrance_, object_, slot_, t_)		\
	do {								\
		uintptr_t at_, key_;					\
		SLUB_SEQ_STATEMENT(entrance_, t_,			\
			SLUB_SEQ_ROOM_HERE				\
			"ldr %[key], [%[t], #16]\n\t"			\
			"ldr %[t], [%[object], #8]\n\t"		\
			"eor %[t], %[t], %[key]\n\t"			\
			"lsr %[t], %[t], #48\n\t"			\
			"cbz %[t], 6f\n\t"				\
			"ldr %[t], [%[slot]]\n\t"			\
			"eor %[key], %[key], %[object]\n\t"		\
			"eor %[key], %[key], %[t]\n\t"			\
			"stp %[t], %[key], [%[object]]\n\t"		\
			SLUB_SEQ_PUT_HERE, "",				\
			SLUB_SEQ_MORE([key] "=&r"(key_))		\
			SLUB_SEQ_MORE([slot] "=&r"(at_)),		\
			[offset] "r"((uintptr_t)(slot_)),		\
			[object] "r"(object_));				\
	} while (0)

/* With both at @place_. */
#define SLUB_SEQ_PUSH_KEPT_HERE(entrance_, object_, slot_, t_, place_)	\
	do {								\
		uintptr_t at_, key_;					\
		SLUB_SEQ_STATEMENT(entrance_, t_,			\
			SLUB_SEQ_ROOM_HERE				\
			"ldr %[key], [%[t], #16]\n\t"			\
			"ldr %[t], [%[place], #8]\n\t"			\
			"eor %[t], %[t], %[key]\n\t"			\
			"lsr %[t], %[t], #48\n\t"			\
			"cbz %[t], 6f\n\t"				\
			"ldr %[t], [%[slot]]\n\t"			\
			"eor %[key], %[key], %[place]\n\t"		\
			"eor %[key], %[key], %[t]\n\t"			\
			"stp %[t], %[key], [%[place]]\n\t"		\
			SLUB_SEQ_PUT_HERE, "",				\
			SLUB_SEQ_MORE([key] "=&r"(key_))		\
			SLUB_SEQ_MORE([slot] "=&r"(at_)),		\
			[offset] "r"((uintptr_t)(slot_)),		\
			[object] "r"(object_), [place] "r"(place_));	\
	} while (0)

/* The same for a list of slub_percpu_alloc(), which the dummy area is too small to have. */
#define SLUB_SEQ_POP_LIVE(entrance_, object_, slot_, t_)		\
	do {								\
		uintptr_t at_;						\
		SLUB_SEQ_STATEMENT(entrance_, t_,			\
			SLUB_SEQ_LIVE_AREA				\
			"add %[slot], %[offset], %[t]\n\t"		\
			"ldr %[object], [%[slot]]\n\t"			\
			"cbz %[object], 6f\n\t"				\
			"ldr %[t], [%[object]]\n\t"			\
			SLUB_SEQ_ROOM_ADD				\
			"str %[t], [%[slot]]", "",			\
			SLUB_SEQ_MORE([object] "=&r"(object_))		\
			SLUB_SEQ_MORE([slot] "=&r"(at_)),		\
			[offset] "r"((uintptr_t)(slot_)));		\
	} while (0)

/* As PUSH, on a list that may get as long as its owner says: room counts down from 0. */
#define SLUB_SEQ_PUSH_BOUNDED(entrance_, object_, slot_, t_, least_)	\
	do {								\
		uintptr_t at_;						\
		SLUB_SEQ_STATEMENT(entrance_, t_,			\
			SLUB_SEQ_LIVE_AREA				\
			"add %[slot], %[offset], %[t]\n\t"		\
			"ldr %w[r], [%[slot], #8]\n\t"			\
			"cmp %w[r], %w[least]\n\t"			\
			"b.le 6f\n\t"					\
			"ldr %[t], [%[slot]]\n\t"			\
			"str %[t], [%[object]]\n\t"			\
			"sub %w[r], %w[r], #1\n\t"			\
			"str %w[r], [%[slot], #8]\n\t"			\
			"str %[object], [%[slot]]", "",			\
			SLUB_SEQ_MORE([slot] "=&r"(at_)),		\
			[offset] "r"((uintptr_t)(slot_)),		\
			[object] "r"(object_), [least] "r"(least_));	\
	} while (0)

/* Words.  The word is found in %[r], and its address in %[t]. */
#define SLUB_SEQ_WORD(suffix_)						\
	SLUB_SEQ_LIVE_AREA						\
	"add %[t], %[t], %[offset]\n\t"					\
	SLUB_SEQ_SIZED(suffix_, "ldr %x[r], [%[t]]", "ldr %w[r], [%[t]]")

#define SLUB_SEQ_ADD_HERE(entrance_, suffix_, modifier_, offset_, n_, t_)	\
	SLUB_SEQ_STATEMENT(entrance_, t_,				\
		SLUB_SEQ_WORD(suffix_)					\
		"add %x[r], %x[r], %x[n]\n\t"				\
		SLUB_SEQ_SIZED(suffix_, "str %x[r], [%[t]]",		\
			       "str %w[r], [%[t]]"), "", SLUB_SEQ_NO_MORE, \
		[offset] "r"((uintptr_t)(offset_)), [n] "r"(n_))

/* Adds @n_ and leaves in it what the word was before. */
#define SLUB_SEQ_FETCH_ADD(entrance_, suffix_, modifier_, offset_, n_, t_)	\
	SLUB_SEQ_STATEMENT(entrance_, t_,				\
		SLUB_SEQ_WORD(suffix_)					\
		"add %x[n], %x[n], %x[r]\n\t"				\
		SLUB_SEQ_SIZED(suffix_, "str %x[n], [%[t]]",		\
			       "str %w[n], [%[t]]"),			\
		"mov %x[n], %x[r]\n\t", SLUB_SEQ_MORE([n] "+&r"(n_)),	\
		[offset] "r"((uintptr_t)(offset_)))

/* @old_ becomes what was found, behind the end; where that differs nothing is stored. */
#define SLUB_SEQ_CMPXCHG(entrance_, suffix_, modifier_, offset_, old_, new_, t_) \
	SLUB_SEQ_STATEMENT(entrance_, t_,				\
		SLUB_SEQ_WORD(suffix_)					\
		SLUB_SEQ_SIZED(suffix_, "cmp %x[r], %x[old]",		\
			       "cmp %w[r], %w[old]")			\
		"b.ne 2f\n\t"						\
		SLUB_SEQ_SIZED(suffix_, "str %x[value], [%[t]]",	\
			       "str %w[value], [%[t]]"),		\
		"mov %x[old], %x[r]\n\t", SLUB_SEQ_MORE([old] "+&r"(old_)), \
		[offset] "r"((uintptr_t)(offset_)), [value] "r"(new_))

#endif
