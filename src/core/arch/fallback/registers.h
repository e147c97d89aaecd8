/* SPDX-License-Identifier: MIT */
/* In plain C no register can be named: nobody unwinds from here. */
#ifndef SLUB_ARCH_FALLBACK_REGISTERS_H
#define SLUB_ARCH_FALLBACK_REGISTERS_H

#define ARCH_HAS_REGISTERS 0
#define ARCH_REGISTER_SP 0
#define ARCH_REGISTERS 0u

static inline uint64_t registers_read(uint64_t *to)
{
	(void)to;
	return 0;
}

#endif
