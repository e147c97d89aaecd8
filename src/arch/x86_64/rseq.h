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

/* Defines the descriptor and makes it the thread's current one (RSEQ-1). */
#define RSEQ_ENTER							\
	".pushsection __rseq_cs, \"aw\"\n\t"				\
	".balign 32\n"							\
	"3:\n\t"							\
	".long 0, 0\n\t"						\
	".quad 1f, 2f - 1f, 4f\n\t"					\
	".popsection\n\t"						\
	"leaq 3b(%%rip), %[t]\n\t"					\
	"movq %[t], %%fs:8(%[rseq])\n"					\
	"1:\n\t"

/* Leaves the address of this CPU's area in %[t]. */
#if SLUB_CONFIG_SMP
#define RSEQ_AREA							\
	"movl %%fs:(%[cid]), %k[t]\n\t"					\
	"movq (%[base], %[t], 8), %[t]\n\t"
#define RSEQ_ADD_AREA(reg)						\
	"movl %%fs:(%[cid]), %k[t]\n\t"					\
	"addq (%[base], %[t], 8), " reg "\n\t"
#define RSEQ_INPUTS							\
	[rseq] "r"(slub_rseq_offset), [cid] "r"(slub_cid_offset),	\
	[base] "r"(slub_thread.cpu_base)
#else
/* Uniprocessor: one area; preemption is what a sequence guards against. */
#define RSEQ_AREA							\
	"movq (%[base]), %[t]\n\t"
#define RSEQ_ADD_AREA(reg)						\
	"addq (%[base]), " reg "\n\t"
#define RSEQ_INPUTS							\
	[rseq] "r"(slub_rseq_offset),					\
	[base] "r"(slub_thread.cpu_base)
#endif

#define RSEQ_LEAVE							\
	"\n2:\n\t"							\
	".pushsection .text.unlikely, \"ax\"\n\t"			\
	".byte 0x0f, 0xb9, 0x3d\n\t"					\
	".long 0x53053053\n"						\
	"4:\n\t"							\
	"jmp %l[aborted]\n\t"						\
	".popsection\n\t"

_Static_assert(RSEQ_SIGNATURE == 0x53053053, "RSEQ_LEAVE spells it out");
_Static_assert(SLOT_HEAD == 0 && SLOT_ROOM == 8, "sequences spell it out");
_Static_assert(AREA_LIVE == 24 && RSEQ_CS == 8, "sequences spell it out");
_Static_assert(DESCRIPTOR_LINK == 8, "sequences spell it out");

/*
 * pop and push as statements, for the function that is the fast path: it has
 * labels `failed` and `aborted` of its own, so that nothing is tested twice.
 * @slot enters as the offset and is clobbered.
 */
#define RSEQ_POP(object_, slot_, t_)				\
	__asm__ volatile goto(						\
		RSEQ_ENTER						\
		RSEQ_ADD_AREA("%[slot]")				\
		"movq (%[slot]), %[object]\n\t"				\
		"testq %[object], %[object]\n\t"			\
		"jz %l[failed]\n\t"					\
		"movq (%[object]), %[t]\n\t"				\
		"addl $1, 8(%[slot])\n\t"				\
		"movq %[t], (%[slot])"					\
		RSEQ_LEAVE						\
		: [object] "=&a"(object_), [t] "=&r"(t_),		\
		  [slot] "+&r"(slot_)					\
		: RSEQ_INPUTS						\
		: "memory", "cc"					\
		: failed, aborted)

#define RSEQ_PUSH(object_, slot_, t_)				\
	__asm__ volatile goto(						\
		RSEQ_ENTER						\
		RSEQ_ADD_AREA("%[slot]")				\
		"cmpl $0, 8(%[slot])\n\t"				\
		"jle %l[failed]\n\t"					\
		"movq (%[slot]), %[t]\n\t"				\
		"movq %[t], (%[object])\n\t"				\
		"subl $1, 8(%[slot])\n\t"				\
		"movq %[object], (%[slot])"				\
		RSEQ_LEAVE						\
		: [t] "=&r"(t_), [slot] "+&r"(slot_)			\
		: RSEQ_INPUTS, [object] "r"(object_)			\
		: "memory", "cc"					\
		: failed, aborted)

static always_inline void *rseq_pop(uintptr_t offset)
{
	uintptr_t slot = offset, t;
	void *object;

	RSEQ_POP(object, slot, t);
	return object;
failed:
	return NULL;
aborted:
	return SEQUENCE_ABORTED;
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

/* The same with the link in the page descriptor; see slot.h. */
#define RSEQ_POP_PAGE(object_, slot_, t_, bias_)			\
	__asm__ volatile goto(						\
		RSEQ_ENTER						\
		RSEQ_ADD_AREA("%[slot]")				\
		"movq (%[slot]), %[object]\n\t"				\
		"testq %[object], %[object]\n\t"			\
		"jz %l[failed]\n\t"					\
		"movq %[object], %[t]\n\t"				\
		"shrq $12, %[t]\n\t"					\
		"imulq %[stride], %[t], %[t]\n\t"			\
		"movq 8(%[bias], %[t]), %[t]\n\t"			\
		"addl $1, 8(%[slot])\n\t"				\
		"movq %[t], (%[slot])"					\
		RSEQ_LEAVE						\
		: [object] "=&a"(object_), [t] "=&r"(t_),		\
		  [slot] "+&r"(slot_)					\
		: RSEQ_INPUTS, [bias] "r"(bias_),			\
		  [stride] "i"(DESCRIPTOR_BYTES)			\
		: "memory", "cc"					\
		: failed, aborted)

/* @link is descriptor_link(bias, object). */
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
	return NULL;
aborted:
	return SEQUENCE_ABORTED;
}

static always_inline enum sequence_result
rseq_push_page(uintptr_t offset, void *object, uintptr_t bias)
{
	void **link = descriptor_link(bias, object);
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
	return NULL;
aborted:
	return SEQUENCE_ABORTED;
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

#endif
