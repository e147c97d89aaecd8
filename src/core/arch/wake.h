/* SPDX-License-Identifier: MIT */
/*
 * Picks the text that a woken thread runs; a CPU without one cannot be woken
 * (features/debug/wake.h).
 */
#ifndef SLUB_ARCH_WAKE_H
#define SLUB_ARCH_WAKE_H

#include "core/base/compiler.h"

#if SLUB_CPU_X86_64 && !SLUB_CONFIG_PLAIN_C
#include "core/arch/x86_64/wake.h"
#else
#define ARCH_HAS_WAKE 0
#endif

#endif
