/* SPDX-License-Identifier: MIT */
/* The memory groups of a process. */
#ifndef SLUB_TOOL_GROUPS_H
#define SLUB_TOOL_GROUPS_H

#include "request.h"
#include "snapshot.h"

#include <stdio.h>

struct group_view {
	uint32_t number;		/* 0: there is none here */
	uint32_t parent;		/* a number; 0: the root */
	uint32_t nr_threads;		/* in it, and in none below it */
	char name[SLUB_ABI_GROUP_NAME];
	uint64_t fields[SLUB_ABI_GROUP_FIELDS];
	/* with those of the groups below it */
	uint64_t ahead_bytes;		/* of its usage: charged, and used by nobody */
	uint64_t objects;
	uint64_t object_bytes;
	uint64_t slab_bytes;		/* slabs with such an object */
	uint64_t large_bytes;
	uint64_t last_slab;		/* that was counted */
	bool damaged;			/* it was being written */
};

struct groups {
	struct group_view *views;	/* by number */
	size_t nr;
	uint64_t nr_beyond;		/* in a statistics file: left out */
};

/* What is charged to it and in use. */
uint64_t group_live(const struct group_view *group);

/*
 * Ends with groups_free().  0, or an exit status after a message that begins
 * with @command.
 */
int groups_read(struct groups *groups, const struct snapshot *snapshot,
		const char *command);
void groups_free(struct groups *groups);
/* groups.c: 0 or -errno; -EPROTO: of an unknown *@version, -ENODATA: not told. */
int groups_of_process(struct groups *groups, const struct snapshot *snapshot,
		      uint32_t *version);
/*
 * Into the snapshot, those of a statistics file.  @size bytes from their head on are
 * there; 0 or -errno.
 */
int groups_of_file(struct snapshot *snapshot, const char *bytes, size_t size);

/* groups_print.c */
/* @by_name: else the largest first.  At most @rows, in @columns as far as paths allow. */
void groups_print(FILE *to, const struct groups *groups, bool by_name,
		  bool exact, size_t columns, size_t rows);
/*
 * Reads them and prints them in the format of @request; the rest is for text.
 * 0, or an exit status after a message.
 */
int groups_show(const struct snapshot *snapshot, const struct request *request,
		bool by_name, bool exact, size_t rows);

#endif
