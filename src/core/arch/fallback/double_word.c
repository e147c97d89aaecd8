/* SPDX-License-Identifier: MIT */
#include "core/arch/arch.h"

#if !ARCH_HAS_DOUBLE_WORD

static _Atomic uint32_t exchanging;

/*
 * The lock is not a struct lock: it is held for a handful of instructions and waits for nothing.
 * locks_held covers it, so a signal handler keeps off.
 */
bool double_word_exchange(struct double_word *where, struct double_word *old,
			  struct double_word new)
{
	bool same;

	slub_thread.locks_held++;
	compiler_barrier();
	for (unsigned int i = 0;
	     __atomic_exchange_n(&exchanging, 1, __ATOMIC_SEQ_CST); i++)
		sys_wait(i);
	same = where->first == old->first && where->second == old->second;
	if (same) {
		/* A child that is forked in between finds nothing, not half of each. */
		*(volatile uintptr_t *)&where->first = 0;
		*(volatile uintptr_t *)&where->second = new.second;
		*(volatile uintptr_t *)&where->first = new.first;
	} else {
		*old = *where;
	}
	/* Both full barriers, as the contract has it. */
	__atomic_store_n(&exchanging, 0, __ATOMIC_SEQ_CST);
	compiler_barrier();
	slub_thread.locks_held--;
	return same;
}

void double_word_after_fork(void)
{
	__atomic_store_n(&exchanging, 0, __ATOMIC_RELAXED);
}

#endif
