/* SPDX-License-Identifier: MIT */
/* A snapshot as OpenMetrics text, for Prometheus and its like. */
#ifndef SLUB_TOOL_OPENMETRICS_H
#define SLUB_TOOL_OPENMETRICS_H

#include "snapshot.h"

void openmetrics_print(const struct snapshot *snapshot);

#endif
