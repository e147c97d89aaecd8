/* SPDX-License-Identifier: MIT */
/*
 * The kernel's names, for code that is being ported.
 *
 * Include it where <linux/slab.h>, <linux/overflow.h>, <linux/vmalloc.h>, <linux/percpu.h>,
 * <linux/mempool.h>, <linux/srcu.h>, <linux/kmemleak.h> and the memory part of
 * <linux/string.h> and <linux/rcupdate.h> were included.  All
 * of it is static inline functions and macros on top of the library's own
 * interface, which says what each call does, returns and costs; this file says
 * only what is different.  It takes many short names (kfree, GFP_KERNEL,
 * this_cpu_add): include it in ported files, not in headers of your own.
 *
 * What is different from the kernel
 *   gfp flags      __GFP_ZERO, __GFP_MEMALLOC, __GFP_NOMEMALLOC and
 *                  __GFP_NOFAIL mean what they say; __GFP_DIRECT_RECLAIM makes
 *                  mempool_alloc() wait; the others are accepted and mean nothing
 *   kmalloc(0)     a block of its own, not ZERO_SIZE_PTR
 *   pages          memory as any other: an address and no struct page
 *   kasprintf()    printf's conversions, without the kernel's own (%pOF)
 *   per-CPU        "CPU" is a number of slub/percpu.h.  There is no preemption
 *                  to disable, so there is no this_cpu_ptr(), get_cpu_ptr() or
 *                  smp_processor_id(): use the this_cpu_*() operations, or
 *                  per_cpu_ptr() with atomic accesses.  No DEFINE_PER_CPU():
 *                  use alloc_percpu().  nr_cpu_ids does not bound the numbers of
 *                  for_each_possible_cpu(): the last one is
 *                  SLUB_PERCPU_SHARED
 *   RCU            readers may sleep; no call_rcu().  The rcu_head of kfree_rcu()
 *                  is not used
 *   mempool        mempool_destroy() keeps a pool from which elements are out,
 *                  and says so if messages are on
 *
 * C11 with GNU extensions; in C++, kmem_cache_create() has five arguments.
 */
#ifndef SLUB_INCLUDE_KERNEL_H
#define SLUB_INCLUDE_KERNEL_H

#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <sched.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <slub/bucket.h>
#include <slub/cache.h>
#include <slub/malloc.h>
#include <slub/mempool.h>
#include <slub/percpu.h>
#include <slub/qmempool.h>
#include <slub/rcu.h>
#include <slub/reserve.h>

#include <slub/kernel/gfp.h>
#include <slub/kernel/size.h>
#include <slub/kernel/slab.h>
#include <slub/kernel/string.h>
#include <slub/kernel/page.h>
#include <slub/kernel/rcu.h>
#include <slub/kernel/percpu.h>
#include <slub/kernel/pool.h>

#endif
