/* SPDX-License-Identifier: MIT */
/*
 * The restartable sequences of core/arch/rseq.h for aarch64: lists.  Words: text.h.
 *
 * Before the abort handler stands glibc's signature, which is an instruction (brk).
 */
#ifndef SLUB_ARCH_AARCH64_RSEQ_H
#define SLUB_ARCH_AARCH64_RSEQ_H

#include "core/arch/aarch64/text.h"

_Static_assert(RSEQ_SIGNATURE == 0xd428bc00, "SLUB_SEQ_LEAVE spells it out");
_Static_assert(SLOT_HEAD == 0 && SLOT_ROOM == 8, "sequences spell it out");
_Static_assert(AREA_LIVE == 24 && RSEQ_CS == 8, "sequences spell it out");
_Static_assert(AREA_KEY == 16 && KEY_TOP == 0x86f9, "sequences spell it out");

#define RSEQ_ROOM_ADD(n_)						\
	"ldr %w[r], [%[slot], #8]\n\t"					\
	"add %w[r], %w[r], " n_ "\n\t"					\
	"str %w[r], [%[slot], #8]\n\t"

/*
 * What all of these are: @text_, which ends in the commit.  %[t] and %[r] are free to use, %[slot]
 * is the slot's address as soon as the area was added to %[offset]; @outputs_ are further ones,
 * each with RSEQ_MORE(); inputs follow.
 */
#define RSEQ_SEQUENCE(entrance_, slot_, t_, text_, outputs_, ...)	\
	do {								\
		uintptr_t r_, at_;					\
		__asm__ volatile goto(					\
			SLUB_SEQ_ENTER text_ SLUB_SEQ_LEAVE		\
			: outputs_ [t] "=&r"(t_), [r] "=&r"(r_),	\
			  [slot] "=&r"(at_)				\
			: SLUB_SEQ_INPUTS(entrance_),			\
			  [offset] "r"(slot_), ## __VA_ARGS__		\
			: "memory", "cc"				\
			: failed, aborted);				\
	} while (0)
#define RSEQ_MORE(output_) output_,
#define RSEQ_NO_MORE

/*
 * Head and room are loaded one by one, as they were stored: a pair would save an instruction, and
 * wait for two stores that no processor need forward to one load.
 *
 * @next_ leaves the object behind %[object] in %[t], and may use %[r].
 */
#define RSEQ_POP_FROM(entrance_, object_, slot_, t_, area_, next_, ...)	\
	RSEQ_SEQUENCE(entrance_, slot_, t_,				\
		      area_						\
		      "ldr %[object], [%[slot]]\n\t"			\
		      "cbz %[object], %l[failed]\n\t"			\
		      next_						\
		      RSEQ_ROOM_ADD("#1")				\
		      "str %[t], [%[slot]]",				\
		      RSEQ_MORE([object] "=&r"(object_)), ## __VA_ARGS__)
#define RSEQ_POP_BY(entrance_, object_, slot_, t_, next_, ...)		\
	RSEQ_POP_FROM(entrance_, object_, slot_, t_, SLUB_SEQ_ADD_AREA,	\
		      next_, ## __VA_ARGS__)

/* @link_ makes a link out of the head in %[t], and stores it. */
#define RSEQ_PUSH_BY(entrance_, object_, slot_, t_, link_, ...)		\
	RSEQ_SEQUENCE(entrance_, slot_, t_,				\
		      SLUB_SEQ_ADD_AREA					\
		      "ldr %w[r], [%[slot], #8]\n\t"			\
		      "subs %w[r], %w[r], #1\n\t"			\
		      "b.lt %l[failed]\n\t"				\
		      link_						\
		      "str %w[r], [%[slot], #8]\n\t"			\
		      "str %[object], [%[slot]]",			\
		      RSEQ_NO_MORE, [object] "r"(object_), ## __VA_ARGS__)

#define RSEQ_AHEAD "prfm pstl1keep, [%[t]]\n\t"

/* Leaves the key of the link in @key_, and the offset of the object's tail in @t_. */
#define RSEQ_POP_TAIL_IN(entrance_, object_, slot_, t_, key_)		\
	do {								\
		const struct slot_check *check_ = slot_check(slot_);	\
									\
		RSEQ_POP_IN(entrance_, object_, slot_, t_);		\
		key_ = check_->secret ^					\
		       __builtin_bswap64((uintptr_t)(object_));		\
		t_ = check_->tail;					\
	} while (0)

#if !SLUB_CONFIG_HARDENED
#define RSEQ_POP_IN(entrance_, object_, slot_, t_)			\
	RSEQ_POP_BY(entrance_, object_, slot_, t_,			\
		    "ldr %[t], [%[object]]\n\t" RSEQ_AHEAD)
#define RSEQ_POP_LINK(object_, slot_, t_, link_)			\
	RSEQ_POP_BY(SLUB_SEQ_SELF, object_, slot_, t_,		\
		    "ldr %[t], [%[object], %[link]]\n\t" RSEQ_AHEAD,	\
		    [link] "r"(link_))
#define RSEQ_PUSH_IN(entrance_, object_, slot_, t_)			\
	RSEQ_PUSH_BY(entrance_, object_, slot_, t_,			\
		     "ldr %[t], [%[slot]]\n\t"				\
		     "str %[t], [%[object]]\n\t")
#define RSEQ_PUSH_TAIL_IN(entrance_, object_, slot_, t_, key_)		\
	do {								\
		(void)(key_);						\
		RSEQ_PUSH_IN(entrance_, object_, slot_, t_);		\
	} while (0)
#define RSEQ_PUSH_LINK(object_, slot_, t_, link_)			\
	RSEQ_PUSH_BY(SLUB_SEQ_SELF, object_, slot_, t_,		\
		     "ldr %[t], [%[slot]]\n\t"				\
		     "str %[t], [%[object], %[link]]\n\t",		\
		     [link] "r"(link_))
#else
/* With encoded links (slot.h), as on x86-64. */
#define RSEQ_POP_AT(entrance_, object_, slot_, t_, place_, ...)		\
	RSEQ_POP_BY(entrance_, object_, slot_, t_,			\
		    "add %[r], %[object], " place_ "\n\t"		\
		    "ldr %[t], [%[r]]\n\t"				\
		    "mul %[t], %[t], %[by]\n\t"			\
		    "rev %[r], %[r]\n\t"				\
		    "eor %[t], %[t], %[r]\n\t"				\
		    "eor %[t], %[t], %[secret]\n\t"			\
		    "ror %[r], %[t], #48\n\t"				\
		    "tst %[r], #0x7ffff\n\t"				\
		    "b.ne %l[failed]\n\t"				\
		    RSEQ_AHEAD,						\
		    [secret] "r"(slot_check(slot_)->secret),		\
		    [by] "r"(LINK_DECODE_BY),				\
		    ## __VA_ARGS__)
#define RSEQ_POP_IN(entrance_, object_, slot_, t_)			\
	RSEQ_POP_AT(entrance_, object_, slot_, t_, "#0")
#define RSEQ_POP_LINK(object_, slot_, t_, link_)			\
	RSEQ_POP_AT(SLUB_SEQ_SELF, object_, slot_, t_, "%[link]",	\
		    [link] "r"(link_))
#define RSEQ_PUSH_AT(entrance_, object_, slot_, t_, place_, key_)	\
	RSEQ_PUSH_BY(entrance_, object_, slot_, t_,			\
		     "ldr %[t], [%[slot]]\n\t"				\
		     "eor %[t], %[t], %[key]\n\t"			\
		     "mul %[t], %[t], %[by]\n\t"			\
		     "str %[t], [%[place]]\n\t",			\
		     [place] "r"(place_), [by] "r"(LINK_ENCODE_BY),	\
		     [key] "r"(key_))
#define RSEQ_PUSH_IN(entrance_, object_, slot_, t_)			\
	RSEQ_PUSH_AT(entrance_, object_, slot_, t_, object_,		\
		     link_key(slot_, object_))
#define RSEQ_PUSH_TAIL_IN(entrance_, object_, slot_, t_, key_)		\
	RSEQ_PUSH_AT(entrance_, object_, slot_, t_, object_, key_)
#define RSEQ_PUSH_LINK(object_, slot_, t_, link_)			\
	RSEQ_PUSH_AT(SLUB_SEQ_SELF, object_, slot_, t_,		\
		     (char *)(object_) + (link_),			\
		     link_key(slot_, (char *)(object_) + (link_)))
#endif

/*
 * With a check word in each free object, as on x86-64; @key_ is the value of slub_key.  Of the push
 * the room is in %[r] before and behind.
 */
#define RSEQ_POP_KEY_IN(entrance_, object_, slot_, t_, key_)		\
	RSEQ_POP_BY(entrance_, object_, slot_, t_,			\
		    "ldp %[t], %[r], [%[object]]\n\t"			\
		    RSEQ_AHEAD						\
		    "eor %[r], %[r], %[object]\n\t"			\
		    "eor %[r], %[r], %[t]\n\t"				\
		    "cmp %[r], %[key]\n\t"				\
		    "b.ne %l[failed]\n\t",				\
		    [key] "r"(key_))
#define RSEQ_PUSH_KEY_IN(entrance_, object_, slot_, t_, key_)		\
	do {								\
		uintptr_t had_ = (key_);				\
		RSEQ_SEQUENCE(entrance_, slot_, t_,			\
			      SLUB_SEQ_ADD_AREA				\
			      "ldr %w[r], [%[slot], #8]\n\t"		\
			      "subs %w[r], %w[r], #1\n\t"		\
			      "b.lt %l[failed]\n\t"			\
			      "ldr %[t], [%[object], #8]\n\t"		\
			      "eor %[t], %[t], %[key]\n\t"		\
			      "lsr %[t], %[t], #48\n\t"		\
			      "cbz %[t], %l[failed]\n\t"		\
			      "ldr %[t], [%[slot]]\n\t"		\
			      "eor %[key], %[key], %[object]\n\t"	\
			      "eor %[key], %[key], %[t]\n\t"		\
			      "stp %[t], %[key], [%[object]]\n\t"	\
			      "str %w[r], [%[slot], #8]\n\t"		\
			      "str %[object], [%[slot]]",		\
			      RSEQ_MORE([key] "+&r"(had_)),		\
			      [object] "r"(object_));			\
	} while (0)
_Static_assert(KEY_TOP_SHIFT == 48, "the sequence spells it out");

/* With the link in the table of pages; @at is the number of the object's page in it. */
#define RSEQ_POP_PAGE_AT(object_, slot_, t_, at_, bias_)		\
	do {								\
		RSEQ_POP_BY(SLUB_SEQ_SELF, object_, slot_, t_,	\
			    "lsr %[r], %[object], #12\n\t"		\
			    "ldr %[t], [%[bias], %[r], lsl #3]\n\t",	\
			    [bias] "r"(bias_));				\
		at_ = (uintptr_t)(object_) >> LINK_PAGE_SHIFT;		\
	} while (0)
#define RSEQ_POP_PAGE(object_, slot_, t_, bias_)			\
	RSEQ_POP_BY(SLUB_SEQ_SELF, object_, slot_, t_,		\
		    "lsr %[r], %[object], #12\n\t"			\
		    "ldr %[t], [%[bias], %[r], lsl #3]\n\t",		\
		    [bias] "r"(bias_))
/* @link is page_link(bias, object). */
#define RSEQ_PUSH_PAGE(object_, slot_, t_, link_)			\
	RSEQ_PUSH_BY(SLUB_SEQ_SELF, object_, slot_, t_,		\
		     "ldr %[t], [%[slot]]\n\t"				\
		     "str %[t], [%[link]]\n\t",				\
		     [link] "r"(link_))

#define RSEQ_LIVE_AREA							\
	SLUB_SEQ_AREA							\
	SLUB_SEQ_LIVE							\
	"add %[slot], %[offset], %[t]\n\t"

#define RSEQ_POP_LIVE(object_, slot_, t_)				\
	RSEQ_POP_FROM(SLUB_SEQ_SELF, object_, slot_, t_,		\
		      RSEQ_LIVE_AREA, "ldr %[t], [%[object]]\n\t")

#define RSEQ_PUSH_BOUNDED(object_, slot_, t_, least_)			\
	RSEQ_SEQUENCE(SLUB_SEQ_SELF, slot_, t_,			\
		      RSEQ_LIVE_AREA					\
		      "ldr %w[r], [%[slot], #8]\n\t"			\
		      "cmp %w[r], %w[least]\n\t"			\
		      "b.le %l[failed]\n\t"				\
		      "ldr %[t], [%[slot]]\n\t"			\
		      "str %[t], [%[object]]\n\t"			\
		      "sub %w[r], %w[r], #1\n\t"			\
		      "str %w[r], [%[slot], #8]\n\t"			\
		      "str %[object], [%[slot]]",			\
		      RSEQ_NO_MORE, [object] "r"(object_), [least] "r"(least_))

#define RSEQ_TAKE(chain_, slot_, t_, room_, limit_, limit_at_)		\
	RSEQ_SEQUENCE(SLUB_SEQ_SELF, slot_, t_,				\
		      SLUB_SEQ_ADD_AREA					\
		      "ldr %[chain], [%[slot]]\n\t"			\
		      "cbz %[chain], %l[failed]\n\t"			\
		      "str %w[limit], [%[slot], %[limit_at]]\n\t"	\
		      "str %w[room], [%[slot], #8]\n\t"		\
		      "str xzr, [%[slot]]",				\
		      RSEQ_MORE([chain] "=&r"(chain_)),			\
		      [room] "r"(room_), [limit] "r"(limit_),		\
		      [limit_at] "r"(limit_at_))

#define RSEQ_PUT(chain_, slot_, t_, room_, limit_, limit_at_)		\
	RSEQ_SEQUENCE(SLUB_SEQ_SELF, slot_, t_,			\
		      RSEQ_LIVE_AREA					\
		      "ldr %[r], [%[slot]]\n\t"			\
		      "cbnz %[r], %l[failed]\n\t"			\
		      "str %w[limit], [%[slot], %[limit_at]]\n\t"	\
		      "str %w[room], [%[slot], #8]\n\t"		\
		      "str %[chain], [%[slot]]",			\
		      RSEQ_NO_MORE, [chain] "r"(chain_), [room] "r"(room_), \
		      [limit] "r"(limit_), [limit_at] "r"(limit_at_))

/* The two for several objects find their area in the table, as the others do. */
#define RSEQ_POP_BULK_BY(i_, slot_, objects_, nr_, next_, ...)		\
	do {								\
		uintptr_t t_, o_;					\
									\
		i_ = -(nr_);						\
		RSEQ_SEQUENCE(SLUB_SEQ_SELF, slot_, t_,		\
			      SLUB_SEQ_ADD_AREA				\
			      "ldr %[o], [%[slot]]\n\t"			\
			      "cbz %[o], %l[failed]\n"			\
			      "5:\n\t"					\
			      "str %[o], [%[end], %[i], lsl #3]\n\t"	\
			      next_					\
			      "adds %[i], %[i], #1\n\t"		\
			      "b.eq 6f\n\t"				\
			      "cbnz %[o], 5b\n"				\
			      "6:\n\t"					\
			      "add %[i], %[i], %[nr]\n\t"		\
			      RSEQ_ROOM_ADD("%w[i]")			\
			      "str %[o], [%[slot]]",			\
			      RSEQ_MORE([o] "=&r"(o_))			\
			      RSEQ_MORE([i] "+&r"(i_)),			\
			      [end] "r"((objects_) + (nr_)),		\
			      [nr] "r"(nr_), ## __VA_ARGS__);		\
	} while (0)
#define RSEQ_POP_BULK(i_, slot_, objects_, nr_, link_)			\
	RSEQ_POP_BULK_BY(i_, slot_, objects_, nr_,			\
			 "ldr %[o], [%[o], %[link]]\n\t", [link] "r"(link_))
#define RSEQ_POP_BULK_KEY(i_, slot_, objects_, nr_, key_)		\
	RSEQ_POP_BULK_BY(i_, slot_, objects_, nr_,			\
			 "ldp %[t], %[r], [%[o]]\n\t"			\
			 "eor %[r], %[r], %[o]\n\t"			\
			 "eor %[r], %[r], %[t]\n\t"			\
			 "cmp %[r], %[key]\n\t"			\
			 "b.ne %l[failed]\n\t"				\
			 "mov %[o], %[t]\n\t", [key] "r"(key_))
#define RSEQ_POP_BULK_LINK_KEY(i_, slot_, objects_, nr_, link_, key_)	\
	RSEQ_POP_BULK_BY(i_, slot_, objects_, nr_,			\
			 "add %[r], %[o], %[link]\n\t"			\
			 "ldr %[t], [%[r], #8]\n\t"			\
			 "eor %[t], %[t], %[r]\n\t"			\
			 "ldr %[o], [%[r]]\n\t"			\
			 "eor %[t], %[t], %[o]\n\t"			\
			 "cmp %[t], %[key]\n\t"			\
			 "b.ne %l[failed]\n\t", [key] "r"(key_), [link] "r"(link_))

#define RSEQ_PUSH_BULK_BY(slot_, head_, nr_, link_, ...)			\
	do {								\
		uintptr_t t_;						\
									\
		RSEQ_SEQUENCE(SLUB_SEQ_SELF, slot_, t_,		\
			      SLUB_SEQ_ADD_AREA				\
			      "ldr %w[r], [%[slot], #8]\n\t"		\
			      "cmp %w[r], %w[nr]\n\t"			\
			      "b.lt %l[failed]\n\t"			\
			      "ldr %[t], [%[slot]]\n\t"		\
			      link_					\
			      "sub %w[r], %w[r], %w[nr]\n\t"		\
			      "str %w[r], [%[slot], #8]\n\t"		\
			      "str %[head], [%[slot]]",			\
			      RSEQ_NO_MORE, [head] "r"(head_),		\
			      [nr] "r"(nr_), ## __VA_ARGS__);		\
	} while (0)
#define RSEQ_PUSH_BULK(slot_, head_, tail_link_, nr_)			\
	RSEQ_PUSH_BULK_BY(slot_, head_, nr_, "str %[t], [%[link]]\n\t",	\
			  [link] "r"(tail_link_))
/* %[t] is not the link any more behind it. */
#define RSEQ_PUSH_BULK_KEY(slot_, head_, tail_, nr_, key_)		\
	RSEQ_PUSH_BULK_BY(slot_, head_, nr_,				\
			  "str %[t], [%[tail]]\n\t"			\
			  "eor %[t], %[t], %[tail]\n\t"		\
			  "eor %[t], %[t], %[key]\n\t"			\
			  "str %[t], [%[tail], #8]\n\t",		\
			  [tail] "r"(tail_), [key] "r"(key_))

#endif
