/* SPDX-License-Identifier: MIT */
/*
 * The restartable sequences of arch/rseq.h for x86-64.
 *
 * Register use is the compiler's choice.  Local labels: 1 start, 2 one past
 * the commit, 3 descriptor, 4 abort.  The abort handler lies out of line,
 * behind an instruction (ud1 with the signature as its displacement) that
 * disassemblers read as one.
 *
 * Measured on the way (design.md, section 2): the list through the objects
 * beats an array of pointers twofold, because the CPU forwards a plain store
 * to the next plain load for free; so head is a plain pointer and the room is a
 * word beside it.
 */
#ifndef SLUB_ARCH_X86_64_RSEQ_H
#define SLUB_ARCH_X86_64_RSEQ_H

/* The text of the sequences is public, for programs have them inline. */
#include <slub/arch/x86_64.h>

_Static_assert(RSEQ_SIGNATURE == 0x53053053, "SLUB_SEQ_LEAVE spells it out");
_Static_assert(SLOT_HEAD == 0 && SLOT_ROOM == 8, "sequences spell it out");
_Static_assert(AREA_LIVE == 24 && RSEQ_CS == 8, "sequences spell it out");
_Static_assert(AREA_NUMBER == 28, "sequences spell it out");

#define RSEQ_ENTER		SLUB_SEQ_ENTER
#define RSEQ_AREA		SLUB_SEQ_AREA
#define RSEQ_ADD_AREA(reg)	SLUB_SEQ_ADD_AREA(reg)
#define RSEQ_INPUTS		SLUB_SEQ_INPUTS(slub_thread.self)
#define RSEQ_LEAVE		SLUB_SEQ_LEAVE
/* Before this thread has an entrance, its area is one of no CPU. */
#define RSEQ_HERE		SLUB_SEQ_HERE
#define RSEQ_HERE_INPUTS(area_)						\
	[rseq] "r"(slub_rseq_offset()), [cid] "r"(slub_cid_offset()),	\
	[area] "r"(area_)

/*
 * pop and push as statements, for the function that is the fast path: it has
 * labels `failed` and `aborted` of its own, so that nothing is tested twice.
 * @slot enters as the offset and is clobbered.
 */
#if !SLUB_CONFIG_HARDENED
#define RSEQ_POP_IN(entrance_, object_, slot_, t_)			\
	SLUB_SEQ_POP(entrance_, object_, slot_, t_)
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
		__asm__ volatile goto(					\
			RSEQ_ENTER					\
			RSEQ_ADD_AREA("%[slot]")			\
			"movq (%[slot]), %[object]\n\t"			\
			"testq %[object], %[object]\n\t"		\
			"jz %l[failed]\n\t"				\
			"leaq " place_ ", %[next]\n\t"			\
			"bswapq %[next]\n\t"				\
			"xorq " place_ ", %[next]\n\t"			\
			"xorq %[secret], %[next]\n\t"			\
			"movq %[next], %[t]\n\t"			\
			"rolq $16, %[t]\n\t"				\
			"testl $0x7ffff, %k[t]\n\t"			\
			"jnz %l[failed]\n\t"				\
			"prefetchw (%[next])\n\t"			\
			"addl $1, 8(%[slot])\n\t"			\
			"movq %[next], (%[slot])"			\
			RSEQ_LEAVE					\
			: [object] "=&a"(object_), [t] "=&r"(t_),	\
			  [next] "=&r"(next_), [slot] "+&r"(slot_)	\
			: SLUB_SEQ_INPUTS(entrance_),			\
			  [secret] "r"(slot_check(slot_)->secret),	\
			  ## __VA_ARGS__				\
			: "memory", "cc"				\
			: failed, aborted);				\
	} while (0)
#define RSEQ_POP_IN(entrance_, object_, slot_, t_)			\
	RSEQ_POP_AT(entrance_, object_, slot_, t_, "(%[object])")
#define RSEQ_POP_LINK(object_, slot_, t_, link_)			\
	RSEQ_POP_AT(slub_thread.self, object_, slot_, t_,		\
		    "(%[object], %[link])", [link] "r"(link_))
#define RSEQ_PUSH_AT(entrance_, object_, slot_, t_, place_)		\
	__asm__ volatile goto(						\
		RSEQ_ENTER						\
		RSEQ_ADD_AREA("%[slot]")				\
		"cmpl $0, 8(%[slot])\n\t"				\
		"jle %l[failed]\n\t"					\
		"movq (%[slot]), %[t]\n\t"				\
		"xorq %[key], %[t]\n\t"					\
		"movq %[t], (%[place])\n\t"				\
		"subl $1, 8(%[slot])\n\t"				\
		"movq %[object], (%[slot])"				\
		RSEQ_LEAVE						\
		: [t] "=&r"(t_), [slot] "+&r"(slot_)			\
		: SLUB_SEQ_INPUTS(entrance_), [object] "r"(object_),	\
		  [place] "r"(place_),					\
		  [key] "r"(link_key(slot_, place_))			\
		: "memory", "cc"					\
		: failed, aborted)
#define RSEQ_PUSH_IN(entrance_, object_, slot_, t_)			\
	RSEQ_PUSH_AT(entrance_, object_, slot_, t_, object_)
#define RSEQ_PUSH_LINK(object_, slot_, t_, link_)			\
	RSEQ_PUSH_AT(slub_thread.self, object_, slot_, t_,		\
		     (char *)(object_) + (link_))
#endif
/*
 * With a key in the second word of each free object (slab/core/key.h).  push fails where it is
 * there already, pop where it is not; both before anything is stored.  An aborted push
 * may have left the key, which its handler takes away.
 */
#define RSEQ_POP_KEY_IN(entrance_, object_, slot_, t_, key_)		\
	__asm__ volatile goto(						\
		RSEQ_ENTER						\
		RSEQ_ADD_AREA("%[slot]")				\
		"movq (%[slot]), %[object]\n\t"				\
		"testq %[object], %[object]\n\t"			\
		"jz %l[failed]\n\t"					\
		"movq (%[object]), %[t]\n\t"				\
		"prefetchw (%[t])\n\t"					\
		"cmpq %[key], 8(%[object])\n\t"				\
		"jne %l[failed]\n\t"					\
		"addl $1, 8(%[slot])\n\t"				\
		"movq %[t], (%[slot])"					\
		RSEQ_LEAVE						\
		: [object] "=&a"(object_), [t] "=&r"(t_),		\
		  [slot] "+&r"(slot_)					\
		: SLUB_SEQ_INPUTS(entrance_), [key] "r"(key_)		\
		: "memory", "cc"					\
		: failed, aborted)
#define RSEQ_PUSH_KEY_IN(entrance_, object_, slot_, t_, key_)		\
	__asm__ volatile goto(						\
		RSEQ_ENTER						\
		RSEQ_ADD_AREA("%[slot]")				\
		"cmpl $0, 8(%[slot])\n\t"				\
		"jle %l[failed]\n\t"					\
		"cmpq %[key], 8(%[object])\n\t"				\
		"je %l[failed]\n\t"					\
		"movq (%[slot]), %[t]\n\t"				\
		"movq %[t], (%[object])\n\t"				\
		"movq %[key], 8(%[object])\n\t"				\
		"subl $1, 8(%[slot])\n\t"				\
		"movq %[object], (%[slot])"				\
		RSEQ_LEAVE						\
		: [t] "=&r"(t_), [slot] "+&r"(slot_)			\
		: SLUB_SEQ_INPUTS(entrance_), [object] "r"(object_),	\
		  [key] "r"(key_)					\
		: "memory", "cc"					\
		: failed, aborted)

#define RSEQ_POP(object_, slot_, t_)					\
	RSEQ_POP_IN(slub_thread.self, object_, slot_, t_)
#define RSEQ_PUSH(object_, slot_, t_)					\
	RSEQ_PUSH_IN(slub_thread.self, object_, slot_, t_)

static always_inline void *rseq_pop(uintptr_t offset)
{
	uintptr_t slot = offset, t;
	void *object;

	RSEQ_POP(object, slot, t);
	return object;
failed:
	return slub_seq_end(NULL);
aborted:
	return slub_seq_end(SEQUENCE_ABORTED);
}

static always_inline enum sequence_result rseq_push(uintptr_t offset,
						    void *object)
{
	uintptr_t slot = offset, t;

	RSEQ_PUSH(object, slot, t);
	return SEQUENCE_DONE;
failed:
	return SEQUENCE_FAILED;
aborted:
	return SEQUENCE_RESTART;
}

/* The same from a list beyond the slots, where the dummy area ends. */
static always_inline void *rseq_pop_live(uintptr_t offset)
{
	uintptr_t slot = offset, t;
	void *object;

	SLUB_SEQ_POP_LIVE(slub_thread.self, object, slot, t);
	return object;
failed:
	return slub_seq_end(NULL);
aborted:
	return slub_seq_end(SEQUENCE_ABORTED);
}

/* The same with the link @link bytes into the object. */
static always_inline void *rseq_pop_link(uintptr_t offset, uintptr_t link)
{
	uintptr_t slot = offset, t;
	void *object;

	RSEQ_POP_LINK(object, slot, t, link);
	return object;
failed:
	return slub_seq_end(NULL);
aborted:
	return slub_seq_end(SEQUENCE_ABORTED);
}

static always_inline enum sequence_result
rseq_push_link(uintptr_t offset, void *object, uintptr_t link)
{
	uintptr_t slot = offset, t;

	RSEQ_PUSH_LINK(object, slot, t, link);
	return SEQUENCE_DONE;
failed:
	return SEQUENCE_FAILED;
aborted:
	return SEQUENCE_RESTART;
}

/*
 * The same with the link in the table of pages; see slot.h.  @at is the number of the
 * object's page in it.
 */
#define RSEQ_POP_PAGE_AT(object_, slot_, t_, at_, bias_)		\
	__asm__ volatile goto(						\
		RSEQ_ENTER						\
		RSEQ_ADD_AREA("%[slot]")				\
		"movq (%[slot]), %[object]\n\t"				\
		"testq %[object], %[object]\n\t"			\
		"jz %l[failed]\n\t"					\
		"movq %[object], %[at]\n\t"				\
		"shrq $12, %[at]\n\t"					\
		"movq (%[bias], %[at], 8), %[t]\n\t"			\
		"addl $1, 8(%[slot])\n\t"				\
		"movq %[t], (%[slot])"					\
		RSEQ_LEAVE						\
		: [object] "=&a"(object_), [t] "=&r"(t_),		\
		  [at] "=&r"(at_), [slot] "+&r"(slot_)			\
		: RSEQ_INPUTS, [bias] "r"(bias_)			\
		: "memory", "cc"					\
		: failed, aborted)
#define RSEQ_POP_PAGE(object_, slot_, t_, bias_)			\
	do {								\
		uintptr_t at_;						\
		RSEQ_POP_PAGE_AT(object_, slot_, t_, at_, bias_);	\
	} while (0)

/* @link is page_link(bias, object). */
#define RSEQ_PUSH_PAGE(object_, slot_, t_, link_)			\
	__asm__ volatile goto(						\
		RSEQ_ENTER						\
		RSEQ_ADD_AREA("%[slot]")				\
		"cmpl $0, 8(%[slot])\n\t"				\
		"jle %l[failed]\n\t"					\
		"movq (%[slot]), %[t]\n\t"				\
		"movq %[t], (%[link])\n\t"				\
		"subl $1, 8(%[slot])\n\t"				\
		"movq %[object], (%[slot])"				\
		RSEQ_LEAVE						\
		: [t] "=&r"(t_), [slot] "+&r"(slot_)			\
		: RSEQ_INPUTS, [object] "r"(object_), [link] "r"(link_)	\
		: "memory", "cc"					\
		: failed, aborted)

static always_inline void *rseq_pop_page(uintptr_t offset, uintptr_t bias)
{
	uintptr_t slot = offset, t;
	void *object;

	RSEQ_POP_PAGE(object, slot, t, bias);
	return object;
failed:
	return slub_seq_end(NULL);
aborted:
	return slub_seq_end(SEQUENCE_ABORTED);
}

static always_inline enum sequence_result
rseq_push_page(uintptr_t offset, void *object, uintptr_t bias)
{
	void **link = page_link(bias, object);
	uintptr_t slot = offset, t;

	RSEQ_PUSH_PAGE(object, slot, t, link);
	return SEQUENCE_DONE;
failed:
	return SEQUENCE_FAILED;
aborted:
	return SEQUENCE_RESTART;
}

static always_inline void *rseq_take(uintptr_t offset, int32_t room)
{
	uintptr_t slot = offset, t;
	void *chain;

	__asm__ volatile goto(
		RSEQ_ENTER
		RSEQ_ADD_AREA("%[slot]")
		"movq (%[slot]), %[chain]\n\t"
		"testq %[chain], %[chain]\n\t"
		"jz %l[failed]\n\t"
		"movl %[room], 8(%[slot])\n\t"
		"movq $0, (%[slot])"
		RSEQ_LEAVE
		: [chain] "=&a"(chain), [t] "=&r"(t), [slot] "+&r"(slot)
		: RSEQ_INPUTS, [room] "r"(room)
		: "memory", "cc"
		: failed, aborted);
	return chain;
failed:
	return slub_seq_end(NULL);
aborted:
	return slub_seq_end(SEQUENCE_ABORTED);
}

static always_inline enum sequence_result
rseq_put(uintptr_t offset, void *chain, int32_t room)
{
	uintptr_t slot = offset, t;

	__asm__ volatile goto(
		RSEQ_ENTER
		RSEQ_AREA
		"cmpl $0, 24(%[t])\n\t"
		"je %l[failed]\n\t"
		"addq %[t], %[slot]\n\t"
		"cmpq $0, (%[slot])\n\t"
		"jne %l[failed]\n\t"
		"movl %[room], 8(%[slot])\n\t"
		"movq %[chain], (%[slot])"
		RSEQ_LEAVE
		: [t] "=&r"(t), [slot] "+&r"(slot)
		: RSEQ_INPUTS, [chain] "r"(chain), [room] "r"(room)
		: "memory", "cc"
		: failed, aborted);
	return SEQUENCE_DONE;
failed:
	return SEQUENCE_FAILED;
aborted:
	return SEQUENCE_RESTART;
}

/*
 * The two for several objects work in the area that this thread remembers, as those
 * of programs do (SLUB_SEQ_HERE; measured: 3 objects 0.93 -> 0.71 of single calls).
 * A caller calls percpu_remember() where they fail.
 */

/*
 * Takes up to @nr objects off the list at @slot into @objects; returns how many, 0
 * for an empty list and on another CPU, -1 for an abort.  The stores to @objects
 * are the caller's own memory: a restart writes them again.
 *
 * Each link waits for the one before it.  In rax, for with r13 or rbp as its base an
 * address has a displacement, and Zen takes a cycle longer to load (measured: 16
 * objects 0.57 -> 0.52 of single calls).
 */
static always_inline long rseq_pop_bulk(uintptr_t slot, void **objects,
					long nr, uintptr_t link)
{
	const struct slub_percpu_self self = slub_percpu_entrance();
	uintptr_t t, o;
	long i = -nr;	/* up to 0, from the end of @objects */

	__asm__ volatile goto(
		RSEQ_ENTER
		RSEQ_HERE
		"movq (%[slot]), %[o]\n\t"
		"testq %[o], %[o]\n\t"
		"jz %l[failed]\n"
		"5:\n\t"
		"movq %[o], (%[end], %[i], 8)\n\t"
		"movq (%[o], %[link]), %[o]\n\t"
		"addq $1, %[i]\n\t"
		"jz 6f\n\t"
		"testq %[o], %[o]\n\t"
		"jnz 5b\n"
		"6:\n\t"
		"addq %[nr], %[i]\n\t"
		"addl %k[i], 8(%[slot])\n\t"
		"movq %[o], (%[slot])"
		RSEQ_LEAVE
		: [t] "=&r"(t), [o] "=&a"(o), [i] "+&r"(i)
		: RSEQ_HERE_INPUTS(self.area),
		  [slot] "r"(self.area + slot),
		  [end] "r"(objects + nr), [nr] "r"(nr),
		  [link] "r"(link)
		: "memory", "cc"
		: failed, aborted);
	return i;
failed:
	return (long)slub_seq_end(NULL);
aborted:
	return (long)slub_seq_end((void *)-1l);
}

/*
 * Puts the chain of @nr objects from @head to @tail in front of the list at @slot
 * if there is room for all of them; fails on another CPU too.
 */
static always_inline enum sequence_result
rseq_push_bulk(uintptr_t slot, void *head, void **tail_link, int32_t nr)
{
	const struct slub_percpu_self self = slub_percpu_entrance();
	uintptr_t t;

	__asm__ volatile goto(
		RSEQ_ENTER
		RSEQ_HERE
		"cmpl %[nr], 8(%[slot])\n\t"
		"jl %l[failed]\n\t"
		"movq (%[slot]), %[t]\n\t"
		"movq %[t], (%[link])\n\t"
		"subl %[nr], 8(%[slot])\n\t"
		"movq %[head], (%[slot])"
		RSEQ_LEAVE
		: [t] "=&r"(t)
		: RSEQ_HERE_INPUTS(self.area),
		  [slot] "r"(self.area + slot),
		  [head] "r"(head), [link] "r"(tail_link),
		  [nr] "r"(nr)
		: "memory", "cc"
		: failed, aborted);
	return SEQUENCE_DONE;
failed:
	return SEQUENCE_FAILED;
aborted:
	return SEQUENCE_RESTART;
}

#endif
