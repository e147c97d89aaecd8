/* SPDX-License-Identifier: MIT */
/* What `slub` says without arguments: what people come for, each with its command. */
#ifndef SLUB_TOOL_TOUR_H
#define SLUB_TOOL_TOUR_H

#include <stdio.h>

void tour_print(FILE *to);

#endif
