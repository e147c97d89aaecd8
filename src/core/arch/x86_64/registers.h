/* SPDX-License-Identifier: MIT */
/* x86-64: the registers that unwinding begins with, by their numbers in DWARF. */
#ifndef SLUB_ARCH_X86_64_REGISTERS_H
#define SLUB_ARCH_X86_64_REGISTERS_H

#define ARCH_HAS_REGISTERS 1
#define ARCH_REGISTER_SP 7
/* rbx, rbp, rsp, r12 to r15: those that a function gives back as they were. */
#define ARCH_REGISTERS 0xf0c8u

/* Of one instruction of the function that this is inlined into; returns its address. */
static inline __attribute__((__always_inline__)) uint64_t registers_read(uint64_t *to)
{
	uint64_t pc;

	__asm__ __volatile__("movq %%rbx, 3*8(%[to])\n\t"
			     "movq %%rbp, 6*8(%[to])\n\t"
			     "movq %%rsp, 7*8(%[to])\n\t"
			     "movq %%r12, 12*8(%[to])\n\t"
			     "movq %%r13, 13*8(%[to])\n\t"
			     "movq %%r14, 14*8(%[to])\n\t"
			     "movq %%r15, 15*8(%[to])\n\t"
			     "leaq 0(%%rip), %[pc]"
			     : [pc] "=&r"(pc)
			     : [to] "r"(to)
			     : "memory");
	return pc;
}

#endif
