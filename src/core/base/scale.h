/* SPDX-License-Identifier: MIT */
/*
 * bench/scale counts each access to memory by what the compiler calls for ThreadSanitizer, and sees
 * no assembly.  So a restartable sequence says which word or slot of the area it works on.  In any
 * other build that is nothing.
 */
#ifndef SLUB_BASE_SCALE_H
#define SLUB_BASE_SCALE_H

#include "core/base/compiler.h"

#if SLUB_CONFIG_SCALE
/* bench/scale/machine.c: at @offset of the area of the CPU that this thread is on. */
void scale_area(uintptr_t offset);
#else
static always_inline void scale_area(uintptr_t offset)
{
	(void)offset;
}
#endif

#endif
