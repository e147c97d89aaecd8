/* SPDX-License-Identifier: MIT */
/*
 * The restartable sequences of core/arch/rseq.h for x86-64.
 *
 * Register use is the compiler's choice.  Local labels: 1 start, 2 one past
 * the commit, 3 descriptor, 4 abort.  The abort handler lies out of line,
 * behind an instruction (ud1 with the signature as its displacement) that
 * disassemblers read as one.
 */
#ifndef SLUB_ARCH_X86_64_RSEQ_H
#define SLUB_ARCH_X86_64_RSEQ_H

/* The text of the sequences is public, for programs have them inline. */
#include <slub/arch/x86_64.h>

_Static_assert(RSEQ_SIGNATURE == 0x53053053, "SLUB_SEQ_LEAVE spells it out");
_Static_assert(SLOT_HEAD == 0 && SLOT_ROOM == 8, "sequences spell it out");
_Static_assert(AREA_LIVE == 24 && RSEQ_CS == 8, "sequences spell it out");
_Static_assert(AREA_KEY == 16 && KEY_TOP == 0x86f9, "sequences spell it out");
_Static_assert(AREA_NUMBER == 28, "sequences spell it out");

/* Before this thread has an entrance, its area is one of no CPU. */
#define RSEQ_HERE_INPUTS(area_)						\
	[rseq] "r"(slub_rseq_offset()), [cid] "r"(slub_cid_offset()),	\
	[area] "r"(area_)

/* As SLUB_SEQ_ENTER, but nothing is stored where this sequence was the thread's last (RSEQ-1). */
#define RSEQ_ENTER_AGAIN						\
	SLUB_SEQ_DESCRIPTOR						\
	"\n1:\n\t"							\
	"cmpq %[t], %%fs:8(%[rseq])\n\t"				\
	"je 7f\n\t"							\
	"movq %[t], %%fs:8(%[rseq])\n"					\
	"7:\n\t"

/*
 * @next_ leaves the object behind %[object] in %[@to_].  @more_ is one more output, for the
 * order of operands is the order in which registers are chosen.
 */
#define RSEQ_POP_BY(entrance_, object_, slot_, t_, next_, to_, more_, ...)	\
	__asm__ volatile goto(						\
		SLUB_SEQ_FIRST						\
		next_							\
		"addl $1, 8(%[slot])\n\t"				\
		"movq " to_ ", (%[slot])"				\
		SLUB_SEQ_LEAVE						\
		: [object] "=&a"(object_), [t] "=&r"(t_),		\
		  more_ [slot] "+&r"(slot_)				\
		: SLUB_SEQ_INPUTS(entrance_), ## __VA_ARGS__		\
		: "memory", "cc"					\
		: failed, aborted)

/* @link_ makes a link out of the head, by way of %[t], and stores it; it may fail before. */
#define RSEQ_PUSH_BY(entrance_, object_, slot_, t_, link_, ...)		\
	__asm__ volatile goto(						\
		SLUB_SEQ_ENTER						\
		SLUB_SEQ_ADD_AREA("%[slot]")				\
		"cmpl $0, 8(%[slot])\n\t"				\
		"jle %l[failed]\n\t"					\
		link_							\
		"subl $1, 8(%[slot])\n\t"				\
		"movq %[object], (%[slot])"				\
		SLUB_SEQ_LEAVE						\
		: [t] "=&r"(t_), [slot] "+&r"(slot_)			\
		: SLUB_SEQ_INPUTS(entrance_), [object] "r"(object_),	\
		  ## __VA_ARGS__					\
		: "memory", "cc"					\
		: failed, aborted)

/* SLUB_SEQ_INPUTS() behind the first. */
#if SLUB_CONFIG_SMP
#define RSEQ_INPUTS_BEHIND(entrance_)					\
	[cid] "r"(slub_cid_offset()), [base] "r"((entrance_).base)
#else
#define RSEQ_INPUTS_BEHIND(entrance_) [base] "r"((entrance_).base)
#endif

#define RSEQ_MORE(output_) output_,
#define RSEQ_NO_MORE

#if !SLUB_CONFIG_HARDENED
#define RSEQ_POP_IN(entrance_, object_, slot_, t_)			\
	SLUB_SEQ_POP(entrance_, object_, slot_, t_)
/* Nobody uses these. */
#define RSEQ_POP_TAIL_IN(entrance_, object_, slot_, t_, key_)		\
	do {								\
		key_ = 0;						\
		RSEQ_POP_IN(entrance_, object_, slot_, t_);		\
	} while (0)
#define RSEQ_PUSH_TAIL_IN(entrance_, object_, slot_, t_, key_)		\
	do {								\
		(void)(key_);						\
		RSEQ_PUSH_IN(entrance_, object_, slot_, t_);		\
	} while (0)
#define RSEQ_PUSH_IN(entrance_, object_, slot_, t_)			\
	SLUB_SEQ_PUSH(entrance_, object_, slot_, t_)
#define RSEQ_POP_LINK(object_, slot_, t_, link_)			\
	SLUB_SEQ_POP_LINK(slub_thread.self, object_, slot_, t_, link_)
#define RSEQ_PUSH_LINK(object_, slot_, t_, link_)			\
	SLUB_SEQ_PUSH_AT(slub_thread.self, object_, slot_, t_,		\
			 "(%[object], %[link])", [link] "r"(link_))
#else
/*
 * With encoded links (slot.h).  pop also fails where the link decodes to what
 * is no address; that is told from an empty list on the slow path.
 */
#define RSEQ_POP_AT(entrance_, object_, slot_, t_, place_, ...)		\
	do {								\
		uintptr_t next_;					\
		RSEQ_POP_BY(entrance_, object_, slot_, t_,		\
			    "leaq " place_ ", %[next]\n\t"		\
			    "bswapq %[next]\n\t"			\
			    "xorq %[secret], %[next]\n\t"		\
			    "movq " place_ ", %[t]\n\t"		\
			    "imulq %[by], %[t]\n\t"			\
			    "xorq %[t], %[next]\n\t"			\
			    "movq %[next], %[t]\n\t"			\
			    "rolq $16, %[t]\n\t"			\
			    "testl $0x7ffff, %k[t]\n\t"			\
			    "jnz %l[failed]\n\t"			\
			    "movl %[tail], %k[t]\n\t"			\
			    "prefetchw (%[next])\n\t"			\
			    "prefetchw (%[next], %[t])\n\t", "%[next]", \
			    RSEQ_MORE([next] "=&r"(next_)),		\
			    [secret] "m"(slot_check(slot_)->secret),	\
			    [by] "m"(link_decode_by),			\
			    [tail] "m"(slot_check(slot_)->tail),	\
			    ## __VA_ARGS__);				\
	} while (0)
#define RSEQ_POP_IN(entrance_, object_, slot_, t_)			\
	RSEQ_POP_AT(entrance_, object_, slot_, t_, "(%[object])")
/*
 * The same, and leaves the key of the link in @key_, which is that of the object's tail too, and
 * the offset of the tail in @t_.  The key comes to be where the offset of the rseq area was: with
 * one more register malloc() would need a frame.
 */
#define RSEQ_POP_TAIL_IN(entrance_, object_, slot_, t_, key_)		\
	do {								\
		uintptr_t next_;					\
									\
		key_ = (uintptr_t)slub_rseq_offset();			\
		__asm__ volatile goto(					\
			SLUB_SEQ_FIRST					\
			"movq %[object], %[rseq]\n\t"			\
			"bswapq %[rseq]\n\t"				\
			"xorq %[secret], %[rseq]\n\t"			\
			"movq (%[object]), %[next]\n\t"		\
			"imulq %[by], %[next]\n\t"			\
			"xorq %[rseq], %[next]\n\t"			\
			"movq %[next], %[t]\n\t"			\
			"rolq $16, %[t]\n\t"				\
			"testl $0x7ffff, %k[t]\n\t"			\
			"jnz %l[failed]\n\t"				\
			"movl %[tail], %k[t]\n\t"			\
			"prefetchw (%[next])\n\t"			\
			"prefetchw (%[next], %[t])\n\t"		\
			"addl $1, 8(%[slot])\n\t"			\
			"movq %[next], (%[slot])"			\
			SLUB_SEQ_LEAVE					\
			: [object] "=&a"(object_), [t] "=&r"(t_),	\
			  [next] "=&r"(next_), [rseq] "+&r"(key_),	\
			  [slot] "+&r"(slot_)				\
			: RSEQ_INPUTS_BEHIND(entrance_),		\
			  [secret] "m"(slot_check(slot_)->secret),	\
			  [by] "m"(link_decode_by),			\
			  [tail] "m"(slot_check(slot_)->tail)		\
			: "memory", "cc"				\
			: failed, aborted);				\
	} while (0)
#define RSEQ_POP_LINK(object_, slot_, t_, link_)			\
	RSEQ_POP_AT(slub_thread.self, object_, slot_, t_,		\
		    "(%[object], %[link])", [link] "r"(link_))
#define RSEQ_PUSH_AT(entrance_, object_, slot_, t_, place_, key_)	\
	RSEQ_PUSH_BY(entrance_, object_, slot_, t_,			\
		     "movq (%[slot]), %[t]\n\t"				\
		     "xorq %[key], %[t]\n\t"				\
		     "imulq %[by], %[t]\n\t"				\
		     "movq %[t], (%[place])\n\t",			\
		     [place] "r"(place_), [by] "m"(link_encode_by),	\
		     [key] "r"(key_))
#define RSEQ_PUSH_IN(entrance_, object_, slot_, t_)			\
	RSEQ_PUSH_AT(entrance_, object_, slot_, t_, object_,		\
		     link_key(slot_, object_))
#define RSEQ_PUSH_TAIL_IN(entrance_, object_, slot_, t_, key_)		\
	RSEQ_PUSH_AT(entrance_, object_, slot_, t_, object_, key_)
#define RSEQ_PUSH_LINK(object_, slot_, t_, link_)			\
	RSEQ_PUSH_AT(slub_thread.self, object_, slot_, t_,		\
		     (char *)(object_) + (link_),			\
		     link_key(slot_, (char *)(object_) + (link_)))
#endif
/*
 * With a check word in each free object (slot.h).  push fails where one seems to be there already,
 * pop where it is wrong; both before anything is stored.  An aborted push may have left it, which
 * its handler takes away.  @key_ is slub_key, in memory.
 */
#define SEQ_KEY_TOP(object_) "cmpw $0x86f9, 14(%[" object_ "])\n\t"
_Static_assert(KEY_TOP == 0x86f9 && KEY_TOP_SHIFT == 48, "SEQ_KEY_TOP spells it out");
/* @link_, a register that is lost, becomes the link at @object_, which nobody else has. */
#define SEQ_KEY_STORE(link_, object_)					\
	"movq %[" link_ "], (%[" object_ "])\n\t"			\
	"xorq %[" object_ "], %[" link_ "]\n\t"				\
	"xorq %[key], %[" link_ "]\n\t"					\
	"movq %[" link_ "], 8(%[" object_ "])\n\t"
#define RSEQ_POP_KEY_IN(entrance_, object_, slot_, t_, key_)		\
	do {								\
		uintptr_t had_;						\
		RSEQ_POP_BY(entrance_, object_, slot_, t_,		\
			    "movq (%[object]), %[t]\n\t"		\
			    "prefetchw (%[t])\n\t"			\
			    "movq 8(%[object]), %[had]\n\t"		\
			    "xorq %[object], %[had]\n\t"		\
			    "xorq %[t], %[had]\n\t"			\
			    "cmpq %[had], %[key]\n\t"			\
			    "jne %l[failed]\n\t", "%[t]",		\
			    RSEQ_MORE([had] "=&r"(had_)), [key] "m"(key_)); \
	} while (0)
#define RSEQ_PUSH_KEY_IN(entrance_, object_, slot_, t_, key_)		\
	RSEQ_PUSH_BY(entrance_, object_, slot_, t_,			\
		     SEQ_KEY_TOP("object")				\
		     "je %l[failed]\n\t"				\
		     "movq (%[slot]), %[t]\n\t"				\
		     SEQ_KEY_STORE("t", "object"), [key] "m"(key_))

/*
 * The same push, and where the list has no room, that to the local list of the object's slab
 * (core/slab/local.h): the second half.  Both end in one commit.  @bias_ leads from the number of a
 * slab's first page, times 64, to the word of its local list.
 *
 * The second half stores twice, and no more: what it frees is in no cache, and what the free costs
 * is the number of stores that wait behind that one.  So link and check word are one store, the sum
 * lies in the word, and in a row of frees rseq_cs is stored once (1 M objects of 64 bytes, Zen 4:
 * 21.3, 19.5, 18.1, 16.5 ns).  In the word the head is a place in the slab, so that the difference
 * of two addresses leads to the next one.
 */
_Static_assert(LOCAL_OWNER_SHIFT == 11 && LOCAL_OWNER_MASK == 0x3ff && LOCAL_ROOM_MASK == 0x7ff &&
		       LOCAL_HEAD_SHIFT == 21 && LOCAL_SUM_SHIFT == 33 && LOCAL_UNIT_SHIFT == 4,
	       "RSEQ_FREE_KEY_IN spells it out");
#define RSEQ_FREE_KEY_IN(entrance_, object_, slot_, t_, u_, v_, key_, bias_)	\
	__asm__ volatile goto(						\
		RSEQ_ENTER_AGAIN					\
		SLUB_SEQ_ADD_AREA("%[slot]")				\
		"cmpl $0, 8(%[slot])\n\t"				\
		"jg 5f\n\t"						\
		"movslq 12(%[slot]), %[slot]\n\t"			\
		"testq %[slot], %[slot]\n\t"				\
		"jz %l[failed]\n\t"					\
		"andq %[object], %[slot]\n\t"				\
		"movq %[slot], %[v]\n\t"				\
		"shrq $6, %[slot]\n\t"					\
		"addq %[bias], %[slot]\n\t"				\
		"movq (%[slot]), %[u]\n\t"				\
		"shll $11, %k[t]\n\t"					\
		"xorl %k[u], %k[t]\n\t"					\
		"testl $0x1ff800, %k[t]\n\t"				\
		"jnz %l[failed]\n\t"					\
		"testl $0x7ff, %k[u]\n\t"				\
		"jz %l[failed]\n\t"					\
		"movq %[u], %[t]\n\t"					\
		"shrq $17, %[t]\n\t"					\
		"andl $0xfff0, %k[t]\n\t"				\
		"addq %[v], %[t]\n\t"					\
		"movq %[t], %%xmm0\n\t"				\
		"movq %[object], %[v]\n\t"				\
		"subq %[t], %[v]\n\t"					\
		"shlq $17, %[v]\n\t"					\
		"leaq -1(%[u], %[v]), %[u]\n\t"				\
		"movq %[key], %[v]\n\t"					\
		"xorq %[object], %[v]\n\t"				\
		"xorq %[v], %[t]\n\t"					\
		"movq %[t], %%xmm1\n\t"				\
		"punpcklqdq %%xmm1, %%xmm0\n\t"				\
		"movaps %%xmm0, (%[object])\n\t"			\
		"imulq %[v], %[v]\n\t"					\
		"shlq $33, %[v]\n\t"					\
		"addq %[v], %[u]\n\t"					\
		"jmp 6f\n"						\
		"5:\n\t"						\
		SEQ_KEY_TOP("object")					\
		"je %l[failed]\n\t"					\
		"movq (%[slot]), %[u]\n\t"				\
		SEQ_KEY_STORE("u", "object")				\
		"subl $1, 8(%[slot])\n\t"				\
		"movq %[object], %[u]\n"				\
		"6:\n\t"						\
		"movq %[u], (%[slot])"					\
		SLUB_SEQ_LEAVE						\
		: [t] "=&r"(t_), [u] "=&r"(u_), [v] "=&r"(v_),		\
		  [slot] "+&r"(slot_)					\
		: SLUB_SEQ_INPUTS(entrance_), [object] "r"(object_),	\
		  [key] "m"(key_), [bias] "m"(bias_)			\
		: "memory", "cc", "xmm0", "xmm1"					\
		: failed, aborted)

/* Takes the local list at @place_, if this CPU, which is not stopped, is its owner. */
#define RSEQ_LOCAL_TAKE(word_, place_, t_, v_)				\
	__asm__ volatile goto(						\
		SLUB_SEQ_ENTER						\
		"movslq %%fs:(%[cid]), %[t]\n\t"			\
		"movq (%[base], %[t], 8), %[v]\n\t"			\
		"cmpl $0, 24(%[v])\n\t"					\
		"je %l[failed]\n\t"					\
		"movq (%[place]), %[word]\n\t"				\
		"movl %k[word], %k[v]\n\t"				\
		"andl $0x1ff800, %k[v]\n\t"				\
		"shll $11, %k[t]\n\t"					\
		"cmpl %k[t], %k[v]\n\t"					\
		"jne %l[failed]\n\t"					\
		"movq %[v], (%[place])"					\
		SLUB_SEQ_LEAVE						\
		: [word] "=&r"(word_), [t] "=&r"(t_), [v] "=&r"(v_)	\
		: SLUB_SEQ_INPUTS(slub_thread.self), [place] "r"(place_)	\
		: "memory", "cc"					\
		: failed, aborted)

#define RSEQ_POP_LIVE(object_, slot_, t_)				\
	SLUB_SEQ_POP_LIVE(slub_thread.self, object_, slot_, t_)
#define RSEQ_PUSH_BOUNDED(object_, slot_, t_, least_)			\
	SLUB_SEQ_PUSH_BOUNDED(slub_thread.self, object_, slot_, t_, least_)

/*
 * With the link in the table of pages; see slot.h.  @at is the number of the object's page
 * in it.
 */
#define RSEQ_POP_PAGE_AT(object_, slot_, t_, at_, bias_)		\
	RSEQ_POP_BY(slub_thread.self, object_, slot_, t_,		\
		    "movq %[object], %[at]\n\t"				\
		    "shrq $12, %[at]\n\t"				\
		    "movq (%[bias], %[at], 8), %[t]\n\t", "%[t]",	\
		    RSEQ_MORE([at] "=&r"(at_)), [bias] "r"(bias_))
#define RSEQ_POP_PAGE(object_, slot_, t_, bias_)			\
	do {								\
		uintptr_t at_;						\
		RSEQ_POP_PAGE_AT(object_, slot_, t_, at_, bias_);	\
	} while (0)

/* @link is page_link(bias, object). */
#define RSEQ_PUSH_PAGE(object_, slot_, t_, link_)			\
	RSEQ_PUSH_BY(slub_thread.self, object_, slot_, t_,		\
		     "movq (%[slot]), %[t]\n\t"				\
		     "movq %[t], (%[link])\n\t", [link] "r"(link_))

#define RSEQ_TAKE(chain_, slot_, t_, room_, limit_, at_)		\
	__asm__ volatile goto(						\
		SLUB_SEQ_ENTER						\
		SLUB_SEQ_ADD_AREA("%[slot]")				\
		"movq (%[slot]), %[chain]\n\t"				\
		"testq %[chain], %[chain]\n\t"				\
		"jz %l[failed]\n\t"					\
		"movl %[limit], (%[slot], %[at])\n\t"			\
		"movl %[room], 8(%[slot])\n\t"				\
		"movq $0, (%[slot])"					\
		SLUB_SEQ_LEAVE						\
		: [chain] "=&a"(chain_), [t] "=&r"(t_),			\
		  [slot] "+&r"(slot_)					\
		: SLUB_SEQ_INPUTS(slub_thread.self), [room] "r"(room_),	\
		  [limit] "r"(limit_), [at] "r"(at_)			\
		: "memory", "cc"					\
		: failed, aborted)

#define RSEQ_PUT(chain_, slot_, t_, room_, limit_, at_)			\
	__asm__ volatile goto(						\
		SLUB_SEQ_ENTER						\
		SLUB_SEQ_AREA						\
		SLUB_SEQ_LIVE						\
		"addq %[t], %[slot]\n\t"				\
		"cmpq $0, (%[slot])\n\t"				\
		"jne %l[failed]\n\t"					\
		"movl %[limit], (%[slot], %[at])\n\t"			\
		"movl %[room], 8(%[slot])\n\t"				\
		"movq %[chain], (%[slot])"				\
		SLUB_SEQ_LEAVE						\
		: [t] "=&r"(t_), [slot] "+&r"(slot_)			\
		: SLUB_SEQ_INPUTS(slub_thread.self),			\
		  [chain] "r"(chain_), [room] "r"(room_),		\
		  [limit] "r"(limit_), [at] "r"(at_)			\
		: "memory", "cc"					\
		: failed, aborted)

/*
 * The two for several objects work in the area that this thread remembers, as those of programs
 * do (SLUB_SEQ_HERE).  Each link waits for the one before it: in rax, for with r13 or rbp as
 * its base an address has a displacement, and Zen takes a cycle longer to load.
 */
#define RSEQ_POP_BULK_BY(i_, slot_, objects_, nr_, next_, ...)		\
	do {								\
		const struct slub_percpu_self self_ = slub_percpu_entrance(); \
		uintptr_t t_, o_;					\
									\
		i_ = -(nr_);						\
		__asm__ volatile goto(					\
			SLUB_SEQ_ENTER					\
			SLUB_SEQ_HERE					\
			"movq (%[slot]), %[o]\n\t"			\
			"testq %[o], %[o]\n\t"				\
			"jz %l[failed]\n"				\
			"5:\n\t"					\
			"movq %[o], (%[end], %[i], 8)\n\t"		\
			next_						\
			"addq $1, %[i]\n\t"				\
			"jz 6f\n\t"					\
			"testq %[o], %[o]\n\t"				\
			"jnz 5b\n"					\
			"6:\n\t"					\
			"addq %[nr], %[i]\n\t"				\
			"addl %k[i], 8(%[slot])\n\t"			\
			"movq %[o], (%[slot])"				\
			SLUB_SEQ_LEAVE					\
			: [t] "=&r"(t_), [o] "=&a"(o_), [i] "+&r"(i_)	\
			: RSEQ_HERE_INPUTS(self_.area),			\
			  [slot] "r"(self_.area + (slot_)),		\
			  [end] "r"((objects_) + (nr_)), [nr] "r"(nr_),	\
			  ## __VA_ARGS__				\
			: "memory", "cc"				\
			: failed, aborted);				\
	} while (0)

#define RSEQ_POP_BULK(i_, slot_, objects_, nr_, link_)			\
	RSEQ_POP_BULK_BY(i_, slot_, objects_, nr_,			\
			 "movq (%[o], %[link]), %[o]\n\t", [link] "r"(link_))
#define RSEQ_POP_BULK_KEY(i_, slot_, objects_, nr_, key_)		\
	RSEQ_POP_BULK_BY(i_, slot_, objects_, nr_,			\
			 "movq 8(%[o]), %[t]\n\t"			\
			 "xorq %[o], %[t]\n\t"				\
			 "xorq %[key], %[t]\n\t"			\
			 "movq (%[o]), %[o]\n\t"			\
			 "cmpq %[t], %[o]\n\t"				\
			 "jne %l[failed]\n\t", [key] "m"(key_))
#define RSEQ_POP_BULK_LINK_KEY(i_, slot_, objects_, nr_, link_, key_)	\
	RSEQ_POP_BULK_BY(i_, slot_, objects_, nr_,			\
			 "leaq (%[o], %[link]), %[t]\n\t"		\
			 "xorq 8(%[o], %[link]), %[t]\n\t"		\
			 "xorq %[key], %[t]\n\t"			\
			 "movq (%[o], %[link]), %[o]\n\t"		\
			 "cmpq %[t], %[o]\n\t"				\
			 "jne %l[failed]\n\t", [key] "m"(key_), [link] "r"(link_))

#define RSEQ_PUSH_BULK_BY(slot_, head_, nr_, link_, ...)			\
	do {								\
		const struct slub_percpu_self self_ = slub_percpu_entrance(); \
		uintptr_t t_;						\
		__asm__ volatile goto(					\
			SLUB_SEQ_ENTER					\
			SLUB_SEQ_HERE					\
			"cmpl %[nr], 8(%[slot])\n\t"			\
			"jl %l[failed]\n\t"				\
			"movq (%[slot]), %[t]\n\t"			\
			link_						\
			"subl %[nr], 8(%[slot])\n\t"			\
			"movq %[head], (%[slot])"			\
			SLUB_SEQ_LEAVE					\
			: [t] "=&r"(t_)					\
			: RSEQ_HERE_INPUTS(self_.area),			\
			  [slot] "r"(self_.area + (slot_)),		\
			  [head] "r"(head_), [nr] "r"(nr_),		\
			  ## __VA_ARGS__				\
			: "memory", "cc"				\
			: failed, aborted);				\
	} while (0)
#define RSEQ_PUSH_BULK(slot_, head_, tail_link_, nr_)			\
	RSEQ_PUSH_BULK_BY(slot_, head_, nr_, "movq %[t], (%[link])\n\t",	\
			  [link] "r"(tail_link_))
#define RSEQ_PUSH_BULK_KEY(slot_, head_, tail_, nr_, key_)		\
	RSEQ_PUSH_BULK_BY(slot_, head_, nr_, SEQ_KEY_STORE("t", "tail"),	\
			  [tail] "r"(tail_), [key] "m"(key_))

/* Words: @suffix_ is q or l. */
#define RSEQ_ADD(suffix_, modifier_, offset_, n_, t_)			\
	SLUB_SEQ_ADD(slub_thread.self, suffix_, modifier_, offset_, n_, t_)
#define RSEQ_FETCH_ADD(suffix_, modifier_, offset_, n_, t_)		\
	SLUB_SEQ_FETCH_ADD(slub_thread.self, suffix_, modifier_, offset_, n_, t_)
#define RSEQ_CMPXCHG(suffix_, modifier_, offset_, old_, new_, t_)	\
	SLUB_SEQ_CMPXCHG(slub_thread.self, suffix_, modifier_, offset_, old_,	\
			 new_, t_)

#endif
