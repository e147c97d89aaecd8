/* SPDX-License-Identifier: MIT */
/*
 * arch: what differs between CPUs.  This file only picks one.  A CPU without a folder of its own
 * gets fallback/, from plain C, and so does a build with ThreadSanitizer, which sees no assembly.
 */
#ifndef SLUB_ARCH_H
#define SLUB_ARCH_H

#include "core/arch/slot.h"

#if SLUB_CPU_X86_64 && !SLUB_CONFIG_PLAIN_C
#define ARCH_HAS_RSEQ 1
#include "core/arch/x86_64/cpu.h"
#include "core/arch/x86_64/registers.h"
#elif SLUB_CPU_AARCH64 && !SLUB_CONFIG_PLAIN_C
#define ARCH_HAS_RSEQ 1
#include "core/arch/aarch64/cpu.h"
#include "core/arch/aarch64/registers.h"
#else
#define ARCH_HAS_RSEQ 0
#include "core/arch/fallback/cpu.h"
#include "core/arch/fallback/registers.h"
#endif

#include "core/arch/fallback/sequence.h"
#include "core/arch/rseq.h"

#if SLUB_CONFIG_LAYOUT != 2 && !ARCH_HAS_DOUBLE_WORD
#error "this CPU exchanges no two words at once: -DSLUB_LAYOUT=lock56 needs none"
#endif

#endif
