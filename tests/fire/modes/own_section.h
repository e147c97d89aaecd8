/* SPDX-License-Identifier: MIT */
/* A critical section of the program's own: a counter per CPU. */
#ifndef SLUB_TESTS_FIRE_OWN_SECTION_H
#define SLUB_TESTS_FIRE_OWN_SECTION_H

#include <stdint.h>
#include <sys/rseq.h>

#define OWN_CPUS 8192

struct own_counter {
	uint64_t count;
	uint64_t unused[7];
};

static inline struct rseq *own_rseq(void)
{
	return (void *)((char *)__builtin_thread_pointer() + __rseq_offset);
}

/*
 * Counts one in `counters`, which has OWN_CPUS.  Leaves rseq_cs set, as the
 * contract of rseq(2) allows.  For a thread that the C library registered.
 */
static inline void own_section(struct own_counter *counters)
{
#if defined(__x86_64__)
	__asm__ volatile(
		".pushsection __rseq_cs, \"aw\"\n\t.balign 32\n"
		"3: .long 0, 0\n\t.quad 1f, 2f - 1f, 4f\n\t.popsection\n"
		"5:\n\tleaq 3b(%%rip), %%rax\n\t"
		"movq %%rax, 8(%[rseq])\n"
		"1:\n\tmovl 4(%[rseq]), %%eax\n\t"
		"shlq $6, %%rax\n\t"
		"addq $1, (%[counters], %%rax)\n"
		"2:\n\tjmp 6f\n\t"
		".byte 0x0f, 0xb9, 0x3d\n\t.long 0x53053053\n"
		"4:\n\tjmp 5b\n"
		"6:\n\t"
		:: [rseq] "r"(own_rseq()), [counters] "r"(counters)
		: "rax", "memory", "cc");
#else
	__asm__ volatile(
		".pushsection __rseq_cs, \"aw\"\n\t.balign 32\n"
		"3: .long 0, 0\n\t.quad 1f, 2f - 1f, 4f\n\t.popsection\n"
		"5:\n\tadrp x9, 3b\n\tadd x9, x9, :lo12:3b\n\t"
		"str x9, [%[rseq], #8]\n"
		"1:\n\tldr w9, [%[rseq], #4]\n\t"
		"add x9, %[counters], x9, lsl #6\n\t"
		"ldr x10, [x9]\n\t"
		"add x10, x10, #1\n\t"
		"str x10, [x9]\n"
		"2:\n\tb 6f\n\t"
		".inst 0xd428bc00\n"
		"4:\n\tb 5b\n"
		"6:\n\t"
		:: [rseq] "r"(own_rseq()), [counters] "r"(counters)
		: "x9", "x10", "memory", "cc");
#endif
}

#endif
