/* SPDX-License-Identifier: MIT */
/* arch: what differs between CPUs.  This file only picks one. */
#ifndef SLUB_ARCH_H
#define SLUB_ARCH_H

#include "arch/slot.h"

#if defined(__x86_64__) && !SLUB_CONFIG_PLAIN_C
#define ARCH_HAS_RSEQ 1
#else
#define ARCH_HAS_RSEQ 0
#endif

#include "arch/fallback/sequence.h"
#include "arch/rseq.h"

#if defined(__x86_64__)
#include "arch/x86_64/cpu.h"
#else
#error "this CPU has no src/arch folder yet; x86_64 has"
#endif

#endif
