/* SPDX-License-Identifier: MIT */
/*
 * The library's internal headers for C++: they are C11, so the few words that C++ does not have,
 * or has a different meaning for, are replaced while they are read.  An `_Atomic` object has the
 * size and alignment of a plain one; tests use the __atomic builtins on it where it matters.
 *
 * Include it last: core/base/compiler.h defines short names such as `cold`.
 */
#ifndef SLUB_TESTS_UNIT_SLUB_H
#define SLUB_TESTS_UNIT_SLUB_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

#define _Static_assert static_assert
#define _Atomic
#define new new_value

extern "C" {
#include "core/base/line.h"
#include "features/inspect/inspect.h"
#include "features/growth/growth.h"
#include "core/page/page_internal.h"
#include "core/page/purge.h"
#include "features/reserve/reserve.h"
#include "core/percpu/percpu_internal.h"
#include "features/reclaim/reclaim.h"
#include "core/slab/slab_internal.h"
#include "features/debug/debug.h"
#include "features/debug/mailbox.h"
#include "features/idle/idle.h"
#include "features/misuse/misuse.h"
#include "features/movable/movable.h"
#include "features/rcu/rcu.h"
#include "features/typed/typed.h"
}

#undef _Static_assert
#undef _Atomic
#undef new

#endif
