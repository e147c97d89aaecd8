/* SPDX-License-Identifier: MIT */
/* A line on the terminal while something takes more than a second. */
#ifndef SLUB_TOOL_PROGRESS_H
#define SLUB_TOOL_PROGRESS_H

#include <stdint.h>

void progress(const char *what, uint64_t done, uint64_t all);
/* Takes the line away again. */
void progress_end(void);

#endif
