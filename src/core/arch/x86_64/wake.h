/* SPDX-License-Identifier: MIT */
/*
 * x86-64: what a thread runs that another process has woken (features/debug/wake.h).
 *
 * It comes here by a tracer, with rsp at its frame.  Behind the call it waits
 * for the tracer to put everything back, by 12 million pauses (40 to 140 cycles each): a tracer
 * that waits for its CPU may take a tenth of a second.  One that is gone does not: then the
 * thread does it, the mask of signals before the registers.  Handlers that come then run below
 * the frame.
 */
#ifndef SLUB_ARCH_X86_64_WAKE_H
#define SLUB_ARCH_X86_64_WAKE_H

#define ARCH_HAS_WAKE 1

/* Of struct wake_frame, by the number of the register. */
#define WAKE_AT(n_) "24+8*" #n_ "(%rsp)"

/* @function_ gets the frame, and returns what goes into `answer`. */
#define ARCH_WAKE_TEXT(function_)						\
	__asm__(".pushsection .text\n\t"					\
		".hidden slub_wake\n\t.globl slub_wake\n\t"			\
		".hidden slub_wake_end\n\t.globl slub_wake_end\n\t"		\
		".type slub_wake, @function\n"					\
		"slub_wake:\n\t"						\
		".cfi_startproc\n\t"						\
		".cfi_undefined rip\n\t"	/* stacks end here */		\
		"cld\n\t"							\
		"xorl %ebp, %ebp\n\t"						\
		"movq %rsp, %rdi\n\t"						\
		"call " #function_ "\n\t"					\
		"movl %eax, 8(%rsp)\n\t"					\
		"movq $1, (%rsp)\n\t"						\
		"movl $12000000, %ebx\n"					\
		"1:\tpause\n\t"		/* no call: a filter may kill */	\
		"decl %ebx\n\t"							\
		"jnz 1b\n\t"							\
		"movl $-1, %eax\n\t"						\
		"movl $-1, %edx\n\t"						\
		"xrstor 256(%rsp)\n\t"						\
		"movl $2, %edi\n\t"		/* SIG_SETMASK */		\
		"leaq 16(%rsp), %rsi\n\t"					\
		"xorl %edx, %edx\n\t"						\
		"movl $8, %r10d\n\t"						\
		"movl $14, %eax\n\t"		/* rt_sigprocmask */		\
		"syscall\n\t"							\
		"pushq " WAKE_AT(16) "\n\t"					\
		"popfq\n\t"							\
		"movq " WAKE_AT(0) ", %rax\n\t"					\
		"movq " WAKE_AT(1) ", %rcx\n\t"					\
		"movq " WAKE_AT(2) ", %rdx\n\t"					\
		"movq " WAKE_AT(3) ", %rbx\n\t"					\
		"movq " WAKE_AT(5) ", %rbp\n\t"					\
		"movq " WAKE_AT(6) ", %rsi\n\t"					\
		"movq " WAKE_AT(7) ", %rdi\n\t"					\
		"movq " WAKE_AT(8) ", %r8\n\t"					\
		"movq " WAKE_AT(9) ", %r9\n\t"					\
		"movq " WAKE_AT(10) ", %r10\n\t"				\
		"movq " WAKE_AT(11) ", %r11\n\t"				\
		"movq " WAKE_AT(12) ", %r12\n\t"				\
		"movq " WAKE_AT(13) ", %r13\n\t"				\
		"movq " WAKE_AT(14) ", %r14\n\t"				\
		"movq " WAKE_AT(15) ", %r15\n\t"				\
		"movq " WAKE_AT(4) ", %rsp\n\t"					\
		"ret $128\n"			/* what is the thread's below */ \
		"slub_wake_end:\n\t"						\
		".cfi_endproc\n\t"						\
		".size slub_wake, .-slub_wake\n\t"				\
		".popsection")

#endif
