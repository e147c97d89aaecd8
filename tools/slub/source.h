/* SPDX-License-Identifier: MIT */
/*
 * Where a snapshot comes from: a living process, a core file or a statistics
 * file; and what the commands that print snapshots have in common.
 */
#ifndef SLUB_TOOL_SOURCE_H
#define SLUB_TOOL_SOURCE_H

#include "snapshot.h"
#include "state.h"

enum source_kind {
	SOURCE_PROCESS,
	SOURCE_CORE,
	SOURCE_STATS,
};

struct source {
	const char *command;		/* heads the messages */
	enum source_kind kind;
	const char *target;		/* as it was given */
	char label[64];			/* for people */
	struct process process;		/* unless SOURCE_STATS */
	struct state state;		/* likewise */
};

/* @target is a PID or a file.  0, or an exit status after a message. */
int source_open(struct source *source, const char *command,
		const char *target);
/* As source_open() of a PID, without a message: 0 or -errno, -ENOENT: it does not use libslub. */
int source_try(struct source *source, pid_t pid);
/* As source_snapshot(), without a message: 0 or -errno; *@version is of what was read. */
int source_look(struct source *source, struct snapshot *snapshot, uint32_t *version);
/* As it stands now.  0, or an exit status after a message. */
int source_snapshot(struct source *source, struct snapshot *snapshot);
void source_close(struct source *source);

#endif
