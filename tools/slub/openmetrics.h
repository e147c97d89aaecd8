/* SPDX-License-Identifier: MIT */
/* A snapshot as OpenMetrics text, for Prometheus and its like. */
#ifndef SLUB_TOOL_OPENMETRICS_H
#define SLUB_TOOL_OPENMETRICS_H

#include "account.h"
#include "snapshot.h"

#include <stdio.h>

enum metrics_form {
	METRICS_OPENMETRICS,
	METRICS_PROMETHEUS,		/* its text format, 0.0.4, as files have it */
};

/* One of the processes whose numbers stand in one text. */
struct metrics_one {
	const struct snapshot *snapshot;
	struct account account;
	char *labels;			/* pid="12",comm="x"; NULL: there is this one alone */
	size_t nr_caches;		/* so many of the first caches of the snapshot */
	bool events;
};

/* How many series a process has without caches, and a cache, with its events or without. */
#define METRICS_SERIES_OF_PROCESS 18
#define METRICS_SERIES_OF_CACHE   9
size_t metrics_events(const struct snapshot *snapshot);

/* What a label's value may not have in it is escaped. */
void metrics_put_label(FILE *to, const char *value);

/* A snapshot alone, with all caches and without labels. */
void metrics_print(FILE *to, enum metrics_form form, const struct snapshot *snapshot);
/* All of @ones together; @pattern: of the families, or NULL. */
void metrics_print_all(FILE *to, enum metrics_form form, const struct metrics_one *ones,
		       size_t nr, const char *pattern);
/* A gauge of no process, in Prometheus's form. */
void metrics_print_gauge(FILE *to, const char *name, const char *help, uint64_t number);

#endif
