/* SPDX-License-Identifier: MIT */
/* The cgroup that the library finds is the test's own: folders that it makes. */
#ifndef RECLAIM_FOUND_CGROUP_H
#define RECLAIM_FOUND_CGROUP_H

#include <cstdio>
#include <string>

#include "start.h"

#define _Static_assert static_assert
extern "C" {
#include "features/pressure/cgroup_pressure.h"
#include "features/pressure/pressure.h"
}
#undef _Static_assert

static std::string *v2_folder, *v1_folder;

/* The linker sends the library's call here (--wrap). */
extern "C" void __wrap_cgroup_find(struct cgroup *cgroup)
{
	snprintf(cgroup->v2, sizeof(cgroup->v2), "%s", v2_folder->c_str());
	snprintf(cgroup->v1, sizeof(cgroup->v1), "%s", v1_folder->c_str());
}

#endif
