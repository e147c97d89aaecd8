/* SPDX-License-Identifier: MIT */
/*
 * All processes on libslub that this one may read: of a host, or of a pod; and the statistics files
 * of those that it may not.
 */
#ifndef SLUB_TOOL_HOST_H
#define SLUB_TOOL_HOST_H

#include "openmetrics.h"

struct host_filter {
	const char *comm;		/* patterns, or NULL */
	const char *cache;
	const char *folder;		/* of statistics files to read besides; NULL: none */
	size_t series_max;		/* of a process; 0: no bound */
	bool events;
};

struct host {
	struct metrics_one *ones;	/* with labels */
	size_t nr;
	uint64_t nr_unreadable;		/* processes that this one may not read */
};

/* The numbers of all processes but this one, in their order, for the caller to free. */
pid_t *host_processes(size_t *nr);
void host_read(struct host *host, const struct host_filter *filter);
void host_free(struct host *host);
/* The largest caches that @filter wants, as far as it has room for their series. */
void host_choose(struct metrics_one *one, struct snapshot *snapshot,
		 const struct host_filter *filter);

#endif
