/* SPDX-License-Identifier: MIT */
/* A snapshot as OpenMetrics text, for Prometheus and its like. */
#ifndef SLUB_TOOL_OPENMETRICS_H
#define SLUB_TOOL_OPENMETRICS_H

#include "snapshot.h"

#include <stdio.h>

enum metrics_form {
	METRICS_OPENMETRICS,
	METRICS_PROMETHEUS,		/* its text format, 0.0.4, as files have it */
};

void metrics_print(FILE *to, enum metrics_form form, const struct snapshot *snapshot);

#endif
