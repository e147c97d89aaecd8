/* SPDX-License-Identifier: MIT */
/* base: what every other layer is written with.  Knows nothing of memory. */
#ifndef SLUB_BASE_H
#define SLUB_BASE_H

#include "core/base/assert.h"
#include "core/base/bits.h"
#include "core/base/compiler.h"
#include "core/base/features.h"
#include "core/base/inject.h"
#include "core/base/list.h"
#include "core/base/lock.h"
#include "core/base/log.h"
#include "core/base/option.h"
#include "core/base/sanitizer.h"
#include "core/base/scale.h"
#include "core/base/syscall.h"
#include "core/base/thread.h"

/* src/core/slub.c: starts the library on the first call; false: not possible. */
bool slub_start(void);

/* 0, or why a call from the program cannot go on: -EDEADLK in a handler (LOCK-2), -ENOMEM. */
static inline int slub_begin(void)
{
	if (slub_thread.locks_held)
		return -EDEADLK;
	return slub_start() ? 0 : -ENOMEM;
}

static inline void *fail_with(int err)
{
	errno = err;
	return NULL;
}

#endif
