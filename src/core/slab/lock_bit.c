/* SPDX-License-Identifier: MIT */
/*
 * Changing a slab's state under a lock bit in the descriptor's flags: layout
 * lock56, the kernel's answer for CPUs without a double-word compare-exchange.
 *
 * The lock bit is not a struct lock: it may be taken under a node's lock, is
 * held for a handful of instructions and waits for nothing.  locks_held
 * covers it all the same, so a signal handler keeps off.
 */
#include "core/slab/slab_internal.h"

#if SLUB_CONFIG_LAYOUT == 2

/* The slab whose lock bit this thread holds is in slub_thread.slab_locked. */
static void slab_lock(struct page *slab)
{
	slub_thread.locks_held++;
	compiler_barrier();
	for (unsigned int i = 0; __atomic_fetch_or(&slab->flags, PAGE_LOCK_BIT,
						   __ATOMIC_ACQUIRE) & PAGE_LOCK_BIT; i++) {
		cpu_relax();
		if (page_flags_read(slab) & PAGE_LOCK_BIT)
			sys_wait(i);
	}
	/* A fork in between repairs the slab in the child: nothing is torn. */
	slub_thread.slab_locked = slab;
	compiler_barrier();
}

static void slab_unlock(struct page *slab)
{
	slub_thread.slab_locked = NULL;
	compiler_barrier();
	__atomic_fetch_and(&slab->flags, ~PAGE_LOCK_BIT, __ATOMIC_RELEASE);
	compiler_barrier();
	slub_thread.locks_held--;
}

struct double_word slab_read(struct page *slab)
{
	struct double_word now;

	slab_lock(slab);
	now = *page_state(slab);
	slab_unlock(slab);
	return now;
}

bool slab_update(struct page *slab, struct double_word *old,
		 struct double_word new_state)
{
	struct double_word *state = page_state(slab);
	bool same;

	inject(INJECT_update);
	slab_lock(slab);
	same = state->first == old->first && state->second == old->second;
	if (same) {
		/* This order: see slab_repair(). */
		*(volatile uintptr_t *)&state->first = new_state.first;
		*(volatile uintptr_t *)&state->second = new_state.second;
	} else {
		*old = *state;
	}
	slab_unlock(slab);
	if (unlikely(!same))
		slab_update_failed(slab);
	return same;
}

/*
 * The holder may have stood between its two stores.  The freelist is whole
 * either way; what is in use follows from it.
 */
static void slab_repair(struct slub_cache *cache, struct page *slab, void *arg)
{
	struct double_word *state = page_state(slab);
	uint32_t nr_free = 0;

	(void)arg;
	if (!(page_flags_read(slab) & PAGE_LOCK_BIT) || slab == slub_thread.slab_locked)
		return;
	for (void *o = (void *)state->first; o && nr_free < slab->count;
	     o = chain_next(cache, o))
		nr_free++;
	state->second = (state->second & ~STATE_COUNT_MASK) |
			(slab->count - nr_free);
	page_flags_write(slab, page_flags_read(slab) & ~PAGE_LOCK_BIT);
}

usual void slab_update_after_fork(void)
{
	slab_for_each(slab_repair, NULL);
}

#else

usual void slab_update_after_fork(void)
{
}

#endif
