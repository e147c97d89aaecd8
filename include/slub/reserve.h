/* SPDX-License-Identifier: MIT */
/*
 * Reserves: memory for a thread that needs some in order to free more.
 *
 * The library puts a number of bytes aside.  They are handed out only when
 * there is no other memory, and only to callers that have the right: threads
 * between slub_reserve_enter() and slub_reserve_leave(), and allocations with
 * the flag SLUB_ALLOC_RESERVE.  Slabs made of it are marked: an ordinary allocation
 * never gets an object of them, so the threads that caused the emergency cannot eat
 * what was meant for it.  When such a slab becomes free, the reserve is filled before
 * anything else.
 *
 * The reserve lies in blocks of 32 KiB.  Within slub_reserve_enter() malloc(), and every
 * function of its family, serves from it
 *   up to 32 KiB, aligned to 4 KiB at most: whenever one block is left;
 *   above, up to 1 MiB and any alignment: while so many blocks lie side by side, from such an
 *     address on.  They mostly do in a reserve that nobody has used yet; nothing promises it;
 *   above 1 MiB: nothing.
 * In the hardened build a large block needs two pages more, and its alignment once more.
 * Typed caches are served up to objects of 32 KiB.
 *
 * From: PF_MEMALLOC, __GFP_MEMALLOC, pfmemalloc slabs.
 */
#ifndef SLUB_INCLUDE_RESERVE_H
#define SLUB_INCLUDE_RESERVE_H

#include <slub/percpu.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * slub_reserve_set - keep @bytes aside from now on; 0 gives all back.
 *
 * Rounded up to blocks of 32 KiB.  Returns 0, or -ENOMEM when so much cannot be
 * had now, -EDEADLK in a signal handler that interrupted the allocator; the reserve is
 * then unchanged.  Context: any thread; takes locks.
 */
SLUB_API int slub_reserve_set(size_t bytes);

/*
 * slub_reserve_bytes - how much lies in the reserve now.
 *
 * Returns bytes.  Errors: none.  Context: anywhere.
 */
SLUB_API size_t slub_reserve_bytes(void);

/*
 * slub_reserve_enter, slub_reserve_leave - give this thread the right.
 *
 * They nest.  Return 0, or
 *   -ENOSPC  enter: nested 63 times;
 *   -EINVAL  leave: this thread has not entered.
 * Context: anywhere.  From: memalloc_noreclaim_save() and _restore().
 */
SLUB_API int slub_reserve_enter(void);
SLUB_API int slub_reserve_leave(void);

#ifdef __cplusplus
}
#endif

#endif
