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
 * Objects are collected per CPU in sheaves of 62 and freed a sheaf at a time;
 * no thread does that behind your back: it happens inside later calls of this
 * function, of slub_deferred_barrier(), and when memory is short.
 * Cannot fail: without memory for a sheaf it waits for the readers itself, so
 * do not call it inside slub_read_lock() (it would wait for its caller) with
 * memory exhausted.
 * Context: any thread, not from a signal handler.  Cost: four sequences.
 * From: kfree_rcu(), rcu sheaves.
 */
SLUB_API void slub_free_deferred(void *object);

/*
 * slub_deferred_barrier - wait until all that was deferred has been freed.
 *
 * Everything handed to slub_free_deferred() before this call is free
 * afterwards.
 * Context: any thread, not from a signal handler; sleeps; not inside
 * slub_read_lock(), where it would wait for its caller.
 * From: kvfree_rcu_barrier().
 */
SLUB_API void slub_deferred_barrier(void);

/*
 * slub_deferred_pending - objects handed over and not freed yet.
 *
 * Returns their number, roughly: what lies in the CPUs' own sheaves is guessed.
 * Errors: none.  Context: any thread.  Cost: a cache miss per CPU.
 */
SLUB_API size_t slub_deferred_pending(void);

#ifdef __cplusplus
}
#endif

#endif
