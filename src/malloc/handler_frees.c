/* SPDX-License-Identifier: MIT */
/*
 * Blocks that were freed where no lock may be taken: by a signal handler that interrupted
 * the holder of one.  Objects of caches: slab/core/free.c.
 */
#include "base/stack.h"
#include "malloc/malloc.h"

/* A stack, linked through the blocks. */
void *deferred_frees;

void deferred_push(void *ptr)
{
	stack_push(&deferred_frees, ptr, (void **)ptr);
}

void *deferred_take(void)
{
	return stack_take(&deferred_frees);
}
