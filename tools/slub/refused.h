/* SPDX-License-Identifier: MIT */
/*
 * SLUB_ variables of an environment that the library does not understand, judged by the library's
 * own table, in the order of its complaints: SLUB_OPTIONS first.
 */
#ifndef SLUB_TOOL_REFUSED_H
#define SLUB_TOOL_REFUSED_H

#include "json.h"
#include "settings.h"

#include <sys/types.h>

struct refused_one {
	char *setting;			/* "SLUB_LIMIT=512Mx", or of SLUB_OPTIONS its part */
	char why[SETTING_WHY];
};

struct refused {
	struct refused_one *ones;
	size_t nr;
	bool privileged;		/* set-user-ID or the like: no option is read */
	int error;			/* 0, or -errno: the environment cannot be read */
};

/* Of the environment that process @pid was started with; refused_free() in any case. */
void refused_of_process(struct refused *refused, pid_t pid);
/* Of this command's, which a program would be run in. */
void refused_of_own(struct refused *refused);
void refused_free(struct refused *refused);

/* The member "refused": an array; null: the environment cannot be read. */
void refused_json(struct json *json, const struct refused *refused);

#endif
