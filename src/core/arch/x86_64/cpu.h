/* SPDX-License-Identifier: MIT */
/*
 * x86-64: the double-word compare-exchange.  A uniprocessor build leaves out the lock prefix:
 * on one CPU the instruction is atomic without it.
 */
#ifndef SLUB_ARCH_X86_64_CPU_H
#define SLUB_ARCH_X86_64_CPU_H

#include "core/arch/double_word.h"

#define ARCH_HAS_DOUBLE_WORD 1

#if SLUB_CONFIG_SCALE
/* bench/scale counts it, which no call of the compiler's announces. */
bool double_word_exchange(struct double_word *where, struct double_word *old,
			  struct double_word new);
#else
static inline bool double_word_exchange(struct double_word *where,
					struct double_word *old,
					struct double_word new)
{
	bool done;

	__asm__ __volatile__(
#if SLUB_CONFIG_SMP
		"lock "
#endif
		"cmpxchg16b %[where]"
		: "=@ccz"(done), [where] "+m"(*where), "+a"(old->first),
		  "+d"(old->second)
		: "b"(new.first), "c"(new.second)
		: "memory");
	return done;
}
#endif

static inline void double_word_after_fork(void)
{
}

#endif
