/* SPDX-License-Identifier: MIT */
/*
 * Two words that change together; 16-byte aligned where they are exchanged.
 *
 * double_word_exchange(where, old, new), of each CPU: replaces *@where by @new if it still holds
 * *@old; otherwise *@old gets what was there.  A full barrier.
 */
#ifndef SLUB_ARCH_DOUBLE_WORD_H
#define SLUB_ARCH_DOUBLE_WORD_H

#include "core/base/base.h"

struct double_word {
	uintptr_t first;
	uintptr_t second;
};

#endif
