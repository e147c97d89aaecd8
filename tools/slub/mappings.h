/* SPDX-License-Identifier: MIT */
/* What the kernel has of a heap that it would not take back, and in how many mappings. */
#ifndef SLUB_TOOL_MAPPINGS_H
#define SLUB_TOOL_MAPPINGS_H

#include "snapshot.h"

/* Behind the walk over the heap of @process, a live one or a core file. */
void mappings_count(struct snapshot *snapshot, const struct process *process);

#endif
