/* SPDX-License-Identifier: MIT */
/* slabinfo's totals: sums, averages and extremes over all caches. */
#ifndef SLUB_TOOL_TOTALS_H
#define SLUB_TOOL_TOTALS_H

#include "snapshot.h"

void totals_print(const struct snapshot *snapshot, bool exact);

#endif
