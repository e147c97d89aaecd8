/* SPDX-License-Identifier: MIT */
/* The statistics file that a process keeps, or has left behind. */
#ifndef SLUB_TOOL_STATS_FILE_H
#define SLUB_TOOL_STATS_FILE_H

#include "snapshot.h"

/*
 * 0, -EPROTO if its version is unknown (it is in *@version), -ENODATA if it is
 * cut short, -EBADMSG if it is damaged, or another -errno.
 */
int stats_file_read(struct snapshot *snapshot, const char *path,
		    uint32_t *version);

#endif
