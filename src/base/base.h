/* SPDX-License-Identifier: MIT */
/* base: what every other layer is written with.  Knows nothing of memory. */
#ifndef SLUB_BASE_H
#define SLUB_BASE_H

#include "base/assert.h"
#include "base/bits.h"
#include "base/compiler.h"
#include "base/features.h"
#include "base/inject.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/option.h"
#include "base/sanitizer.h"
#include "base/scale.h"
#include "base/syscall.h"
#include "base/thread.h"

/* src/slub.c: starts the library on the first call; false: not possible. */
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
