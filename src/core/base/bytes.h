/* SPDX-License-Identifier: MIT */
/* The library's own memcpy() and its kin (string.c); their declarations are <string.h>'s. */
#ifndef SLUB_BASE_BYTES_H
#define SLUB_BASE_BYTES_H

#include "core/base/compiler.h"

/* At the start: which of the processor's vectors there are. */
void bytes_init(void);

#endif
