/* SPDX-License-Identifier: MIT */
/*
 * The large blocks of the hardened build: what others of its files ask of them.  What the core
 * asks is in core/base/features.h.
 */
#ifndef SLUB_FENCE_H
#define SLUB_FENCE_H

#include "core/page/page.h"

/* @asked bytes are asked for from now on; what is behind them is the pad. */
void large_ask(void *ptr, size_t asked);
/* Bits beside large_asked(), the two highest ones, of the caller; large_ask() clears them. */
uint64_t large_call(const void *ptr);
void large_call_add(void *ptr, uint64_t call);

/* The next layers': @ptr, a free block, was written to.  It is not handed out again. */
extern void (*fence_found)(const void *ptr) SLUB_INTERNAL;

#endif
