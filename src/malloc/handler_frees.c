/* SPDX-License-Identifier: MIT */
/*
 * Blocks that were freed where no lock may be taken: by a signal handler that interrupted
 * the holder of one.  Objects of caches: slab/core/free.c.
 */
#include "malloc/malloc.h"

/* A stack, linked through the blocks. */
void *deferred_frees;

void deferred_push(void *ptr)
{
	void *head = __atomic_load_n(&deferred_frees, __ATOMIC_RELAXED);

	do {
		*(void **)ptr = head;
		/* release: pairs with the acquire in deferred_take() */
	} while (!__atomic_compare_exchange_n(&deferred_frees, &head, ptr, true,
					      __ATOMIC_RELEASE,
					      __ATOMIC_RELAXED));
}

void *deferred_take(void)
{
	if (likely(!__atomic_load_n(&deferred_frees, __ATOMIC_RELAXED)))
		return NULL;
	return __atomic_exchange_n(&deferred_frees, NULL, __ATOMIC_ACQUIRE);
}
