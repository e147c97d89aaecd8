/* SPDX-License-Identifier: MIT */
/*
 * What a CPU is asked for besides loads, stores and the compiler's atomic builtins, in plain C:
 * the double-word compare-exchange.
 */
#ifndef SLUB_ARCH_FALLBACK_CPU_H
#define SLUB_ARCH_FALLBACK_CPU_H

#include "core/arch/double_word.h"

#if defined(__GCC_HAVE_SYNC_COMPARE_AND_SWAP_16)
#define ARCH_HAS_DOUBLE_WORD 1

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

static inline void double_word_after_fork(void)
{
}

#else
/*
 * Under one lock, thus for words alone that are seldom changed (features/groups/handler.c): slabs
 * have a lock bit each there (layout lock56), and backend tid is not to be had.
 */
#define ARCH_HAS_DOUBLE_WORD 0

bool double_word_exchange(struct double_word *where, struct double_word *old,
			  struct double_word new);
/* In a forked child: the thread that held the lock is not there. */
void double_word_after_fork(void);
#endif

#endif
