/* SPDX-License-Identifier: MIT */
/* Where this process's memory cgroup is to be found. */
#ifndef SLUB_RECLAIM_CGROUP_PRESSURE_H
#define SLUB_RECLAIM_CGROUP_PRESSURE_H

#include "core/base/base.h"

#define CGROUP_PATH_MAX 512

struct cgroup {
	char v2[CGROUP_PATH_MAX];	/* its directory; "": none */
	char v1[CGROUP_PATH_MAX];	/* of the memory controller */
};

void cgroup_find(struct cgroup *cgroup);
/*
 * The same from the texts of /proc/self/cgroup and /proc/self/mountinfo.  Writes
 * into both.
 */
void cgroup_parse(struct cgroup *cgroup, char *groups, char *mounts);

#endif
