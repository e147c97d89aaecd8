/* SPDX-License-Identifier: MIT */
/*
 * libslub for C++17: everything, in one include.
 *
 *   slub::cache<T>          objects of one type from slabs of their own
 *   slub::percpu<T>         counters with a copy per CPU
 *   slub::allocator<T>      a standard allocator: nodes from caches
 *   slub::memory_resource   the same for std::pmr containers
 *   slub::bucket            blocks of any size for one subsystem
 *   slub::pool<T>           elements that are there when there is no memory
 *   slub::reserve_guard     memory for a thread that frees some
 *   slub::read_guard        a reader that takes no lock
 *   slub::srcu, slub::srcu_guard
 *                           the same in a domain of its own
 *   slub::free_deferred()   free what readers may still look at
 *   slub::group             limits for a part of the program
 *   slub::shrinker          what may be freed when memory is short
 *   slub::profile           which call stacks have allocated how much
 *   slub::option(), slub::set_option(), slub::value(), slub::values(), slub::for_each_value(),
 *   slub::stats_json(), slub::shrink_node(), slub::for_each_cache()
 *                           what the library is set to and what it counts
 *
 * Apart from it, for those who have the libraries: slub/cpp/arrow.hpp, a MemoryPool of Arrow,
 * and slub/cpp/protobuf.hpp, arenas of protobuf.
 *
 * Header only, over the C interface; a program links libslub as a C program
 * does.  docs/api/cpp.md has the guide.
 */
#ifndef SLUB_INCLUDE_SLUB_HPP
#define SLUB_INCLUDE_SLUB_HPP

#if __cplusplus < 201703L
#error "slub/slub.hpp needs C++17 (-std=c++17); C++11 has slub/slub.h"
#endif

#include <slub/cpp/bucket.hpp>
#include <slub/cpp/cache.hpp>
#include <slub/cpp/control.hpp>
#include <slub/cpp/group.hpp>
#include <slub/cpp/memory.hpp>
#include <slub/cpp/percpu.hpp>
#include <slub/cpp/pool.hpp>
#include <slub/cpp/profile.hpp>
#include <slub/cpp/rcu.hpp>
#include <slub/cpp/reserve.hpp>
#include <slub/cpp/shrinker.hpp>
#include <slub/malloc.h>

#endif
