/* SPDX-License-Identifier: MIT */
/* x86-64: the double-word compare-exchange, and the pause of a spin loop. */
#ifndef SLUB_ARCH_X86_64_CPU_H
#define SLUB_ARCH_X86_64_CPU_H

#include "base/base.h"

/* Two words that change together; 16-byte aligned where it is exchanged. */
struct double_word {
	uintptr_t first;
	uintptr_t second;
};

/*
 * Replaces *@where by @new if it still holds @old; otherwise @old gets what was
 * there.  A full barrier.  A uniprocessor build leaves out the lock prefix:
 * on one CPU the instruction is atomic without it.
 */
#if SLUB_CONFIG_PLAIN_C
static inline bool double_word_exchange(struct double_word *where,
					struct double_word *old,
					struct double_word new)
{
	__extension__ typedef unsigned __int128 u128;
	u128 o = (u128)old->second << 64 | old->first;
	u128 n = (u128)new.second << 64 | new.first;
	u128 was = __sync_val_compare_and_swap((u128 *)where, o, n);

	if (was == o)
		return true;
	old->first = (uintptr_t)was;
	old->second = (uintptr_t)(was >> 64);
	return false;
}
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

static inline void cpu_relax(void)
{
	__builtin_ia32_pause();
}

#endif
