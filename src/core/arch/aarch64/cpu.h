/* SPDX-License-Identifier: MIT */
/*
 * aarch64: the double-word compare-exchange, by CASPAL where the compiler may use it
 * (-march=armv8.1-a and later), else by exclusive loads and stores of a pair.
 */
#ifndef SLUB_ARCH_AARCH64_CPU_H
#define SLUB_ARCH_AARCH64_CPU_H

#include "core/arch/double_word.h"

#define ARCH_HAS_DOUBLE_WORD 1

#if defined(__ARM_FEATURE_ATOMICS)
static inline bool double_word_exchange(struct double_word *where,
					struct double_word *old,
					struct double_word new)
{
	/* The instruction wants pairs that begin with an even register. */
	register uintptr_t was0 __asm__("x0") = old->first;
	register uintptr_t was1 __asm__("x1") = old->second;
	register uintptr_t new0 __asm__("x2") = new.first;
	register uintptr_t new1 __asm__("x3") = new.second;
	bool done;

	__asm__ __volatile__("caspal %[was0], %[was1], %[new0], %[new1], %[where]\n\t"
			     "dmb ish"
			     : [was0] "+r"(was0), [was1] "+r"(was1),
			       [where] "+Q"(*where)
			     : [new0] "r"(new0), [new1] "r"(new1)
			     : "memory");
	done = was0 == old->first && was1 == old->second;
	old->first = was0;
	old->second = was1;
	return done;
}
#else
static inline bool double_word_exchange(struct double_word *where,
					struct double_word *old,
					struct double_word new)
{
	uintptr_t was0, was1, put0, put1;
	uint32_t failed;

	/*
	 * The pair is one access only where its store has succeeded: so what is found to differ
	 * is stored back, and tried again until that works.
	 */
	__asm__ __volatile__(
		"1:\n\t"
		"ldxp %[was0], %[was1], %[where]\n\t"
		"cmp %[was0], %[old0]\n\t"
		"ccmp %[was1], %[old1], #0, eq\n\t"
		"csel %[put0], %[new0], %[was0], eq\n\t"
		"csel %[put1], %[new1], %[was1], eq\n\t"
		"stlxp %w[failed], %[put0], %[put1], %[where]\n\t"
		"cbnz %w[failed], 1b\n\t"
		"dmb ish"
		: [was0] "=&r"(was0), [was1] "=&r"(was1), [put0] "=&r"(put0),
		  [put1] "=&r"(put1), [failed] "=&r"(failed), [where] "+Q"(*where)
		: [old0] "r"(old->first), [old1] "r"(old->second),
		  [new0] "r"(new.first), [new1] "r"(new.second)
		: "memory", "cc");
	if (was0 == old->first && was1 == old->second)
		return true;
	old->first = was0;
	old->second = was1;
	return false;
}
#endif

static inline void double_word_after_fork(void)
{
}

#endif
