/* SPDX-License-Identifier: MIT */
/*
 * jemalloc's names, for a program that calls them.
 *
 * Include it where <jemalloc/jemalloc.h> was included, and link with libslub instead of
 * libjemalloc.  All of it is static inline functions on top of slub/malloc.h and
 * slub/control.h; jemalloc(3) says what each call does, this file what is different.
 * Where the program has a prefix, define it before: #define SLUB_JEMALLOC_PREFIX je_
 * gives je_mallctl() and so on, and je_malloc() and its relatives as well.
 *
 * What is different from jemalloc
 *   MALLOCX_ARENA, MALLOCX_TCACHE
 *                  accepted and mean nothing: there is one heap, whose lists belong to
 *                  CPUs.  For a heap of its own see slub/bucket.h
 *   MALLOCX_TCACHE_NONE
 *                  mallocx() takes from a full slab where the next one on the list would
 *                  be of a sparse one, so moving what get_defrag_hint() names empties slabs
 *   xallocx        never changes a block: it says how large the block is, which is
 *                  jemalloc's way to say that there was no room
 *   rallocx        copies for an alignment above 16
 *   mallctl        knows the names below and no other: ENOENT.  No MIBs: a program that
 *                  uses mallctlnametomib() does not compile
 *   stats.*        the heap at the last write to "epoch", as there; such a write walks over
 *                  the heap, about a millisecond per GiB.  With no write, at the first read
 *   malloc_stats_print
 *                  writes the JSON object of slub_stats_json(), whatever the options
 *   JEMALLOC_VERSION_MAJOR
 *                  4, whose calls these are.  JEMALLOC_FRAG_HINT is defined, and
 *                  get_defrag_hint() answers as slub_object_is_sparse(), for Redis
 *   not there      malloc_conf, extent hooks
 *
 * The names of mallctl(): type, and what it is
 *   version                        const char *, "libslub 0.2.0"
 *   epoch                          uint64_t, written: stats.* is looked up anew; read: how
 *                                  often that was
 *   stats.allocated                size_t, bytes in objects and large blocks in use
 *   stats.active                   size_t, bytes in pages of slabs that objects in use can
 *                                  lie in, and in large blocks: no empty slab, and no page
 *                                  that no object was carved from yet
 *   stats.resident                 size_t, in all slabs, large blocks, and free memory that
 *                                  stays resident
 *   stats.mapped                   size_t, bytes with memory allowed behind them
 *   stats.arenas.0.small.allocated, stats.arenas.0.large.allocated
 *                                  size_t, the two parts of stats.allocated
 *   arenas.narenas                 unsigned, 1
 *   arenas.page, arenas.quantum    size_t, 4096 and 16
 *   arena.I.purge, arena.I.decay   free memory goes back to the system, whatever I
 *   thread.tcache.flush            nothing to do
 *   prof.active                    bool, only written: slub_profile_start(), _stop()
 *   prof.dump                      const char *, only written: slub_profile_write()
 */
#ifndef SLUB_INCLUDE_JEMALLOC_H
#define SLUB_INCLUDE_JEMALLOC_H

#include <slub/jemalloc/calls.h>

#endif
