/* SPDX-License-Identifier: MIT */
/*
 * Freeing what readers may still look at.
 *
 * A reader brackets its look with slub_read_lock() and slub_read_unlock()
 * (slub/srcu.h) and takes no lock.  A writer unlinks an object and hands it to
 * slub_free_deferred(): it is freed after every reader that was inside has
 * left.  In a cache made with SLUB_CACHE_TYPESAFE_BY_RCU objects are freed and reused
 * at once, but their memory stays memory of that cache as long as a reader
 * may look: the reader must check that it found what it looked for.
 */
#ifndef SLUB_INCLUDE_RCU_H
#define SLUB_INCLUDE_RCU_H

#include <slub/srcu.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * slub_free_deferred - free @object when every present reader has left.
 *
 * @object: of malloc or of any cache; NULL is allowed.  Its bytes are not
 * touched before then.  Nobody may find it any more.
 * Objects are collected per CPU in sheaves of 60, or of 64 KiB; a larger object goes
 * on at once.  So a CPU keeps back little, but a program that then does nothing more
 * keeps its last sheaf.
 * No thread works behind your back.  What no reader can see any more is freed inside
 * later calls of this function, of slub_deferred_barrier(), of slub_shrink(),
 * slub_shrink_all() and malloc_trim(), of the allocator now and then, and before a
 * request is refused, for want of memory or by a limit.  Until then it counts as
 * allocated: against SLUB_LIMIT, and against its group.
 * A reader that stays inside keeps all that is freed meanwhile: the values
 * "heap.deferred_bytes" and "heap.deferred_objects" say how much that is.
 * Cannot fail: without memory for a sheaf it waits for the readers itself.  A reader,
 * which would wait for itself, uses the library's own memory then; if there is none
 * either, the object stays allocated, and counts as pending.
 * Context: any thread, a reader too, not from a signal handler.  Cost: six sequences.
 * From: kfree_rcu(), rcu sheaves.
 */
SLUB_API void slub_free_deferred(void *object);

/*
 * slub_deferred_barrier - wait until all that was deferred has been freed.
 *
 * Everything handed to slub_free_deferred() before this call is free
 * afterwards.
 * Returns 0, or
 *   -EDEADLK  called inside slub_read_lock(), where it would wait for its caller, or by
 *             a signal handler that interrupted the allocator: what no reader can see
 *             is free, the rest is not.
 * Context: any thread, not from a signal handler; sleeps.
 * From: kvfree_rcu_barrier().
 */
SLUB_API int slub_deferred_barrier(void);

/*
 * slub_deferred_pending - objects handed over and not freed yet.
 *
 * Returns their number; exact when no thread is just handing one over.
 * Errors: none.  Context: anywhere.  Cost: two cache misses per CPU.
 */
SLUB_API size_t slub_deferred_pending(void);

#ifdef __cplusplus
}
#endif

#endif
