/* SPDX-License-Identifier: MIT */
/* aarch64: the registers that unwinding begins with, by their numbers in DWARF. */
#ifndef SLUB_ARCH_AARCH64_REGISTERS_H
#define SLUB_ARCH_AARCH64_REGISTERS_H

#define ARCH_HAS_REGISTERS 1
#define ARCH_REGISTER_SP 31
/* x19 to x30 and sp: those that a function gives back as they were, and its caller. */
#define ARCH_REGISTERS 0xfff80000u

/* Of one instruction of the function that this is inlined into; returns its address. */
static inline __attribute__((__always_inline__)) uint64_t registers_read(uint64_t *to)
{
	uint64_t pc;

	__asm__ __volatile__("stp x19, x20, [%[to], #19*8]\n\t"
			     "stp x21, x22, [%[to], #21*8]\n\t"
			     "stp x23, x24, [%[to], #23*8]\n\t"
			     "stp x25, x26, [%[to], #25*8]\n\t"
			     "stp x27, x28, [%[to], #27*8]\n\t"
			     "stp x29, x30, [%[to], #29*8]\n\t"
			     "mov %[pc], sp\n\t"
			     "str %[pc], [%[to], #31*8]\n\t"
			     "adr %[pc], ."
			     : [pc] "=&r"(pc)
			     : [to] "r"(to)
			     : "memory");
	return pc;
}

#endif
