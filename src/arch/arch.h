/* SPDX-License-Identifier: MIT */
/*
 * arch: what differs between CPUs.  This file only picks one.  A CPU without a folder of its own
 * gets fallback/, from plain C, and so does a build with ThreadSanitizer, which sees no assembly.
 */
#ifndef SLUB_ARCH_H
#define SLUB_ARCH_H

#include "arch/slot.h"

#if SLUB_CPU_X86_64 && !SLUB_CONFIG_PLAIN_C
#define ARCH_HAS_RSEQ 1
#include "arch/x86_64/cpu.h"
#include "arch/x86_64/registers.h"
#elif SLUB_CPU_AARCH64 && !SLUB_CONFIG_PLAIN_C
#define ARCH_HAS_RSEQ 1
#include "arch/aarch64/cpu.h"
#include "arch/aarch64/registers.h"
#else
#define ARCH_HAS_RSEQ 0
#include "arch/fallback/cpu.h"
#include "arch/fallback/registers.h"
#endif

#include "arch/fallback/sequence.h"
#include "arch/rseq.h"

#if SLUB_CONFIG_LAYOUT != 2 && !ARCH_HAS_DOUBLE_WORD
#error "this CPU exchanges no two words at once: -DSLUB_LAYOUT=lock56 needs none"
#endif

#endif
