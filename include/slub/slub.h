/* SPDX-License-Identifier: MIT */
/*
 * All of the C interface: caches, per-CPU memory, readers without locks, pools,
 * reclaim, debugging.  docs/api/c.md is the way in; each header says the rest.
 *
 * Not included: slub/kernel.h, which takes the kernel's names, slub/jemalloc.h, which
 * takes jemalloc's, and slub/slub.hpp, the C++ interface.
 */
#ifndef SLUB_INCLUDE_SLUB_H
#define SLUB_INCLUDE_SLUB_H

#include <slub/bucket.h>
#include <slub/cache.h>
#include <slub/compiler.h>
#include <slub/control.h>
#include <slub/debug.h>
#include <slub/defrag.h>
#include <slub/flags.h>
#include <slub/group.h>
#include <slub/leaks.h>
#include <slub/malloc.h>
#include <slub/mempool.h>
#include <slub/percpu.h>
#include <slub/pressure.h>
#include <slub/profile.h>
#include <slub/qmempool.h>
#include <slub/rcu.h>
#include <slub/reserve.h>
#include <slub/shrinker.h>
#include <slub/srcu.h>
#include <slub/version.h>

#endif
