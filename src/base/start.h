/* SPDX-License-Identifier: MIT */
/* What public functions of every layer call first; defined in src/slub.c. */
#ifndef SLUB_BASE_START_H
#define SLUB_BASE_START_H

#include "base/compiler.h"

/* Starts the library on the first call; false: not possible. */
bool slub_start(void);

#endif
