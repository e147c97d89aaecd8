/* SPDX-License-Identifier: MIT */
/*
 * The library's internal headers for C++: they are C11, so the few words that C++ does not have,
 * or has a different meaning for, are replaced while they are read.  An `_Atomic` object has the
 * size and alignment of a plain one; tests use the __atomic builtins on it where it matters.
 *
 * Include it last: base/compiler.h defines short names such as `cold`.
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
#include "base/line.h"
#include "inspect/inspect.h"
#include "page/growth/growth.h"
#include "page/page_internal.h"
#include "page/purge.h"
#include "page/reserve/reserve.h"
#include "percpu/percpu_internal.h"
#include "reclaim/reclaim.h"
#include "slab/slab_internal.h"
}

#undef _Static_assert
#undef _Atomic
#undef new

#endif
