/* SPDX-License-Identifier: MIT */
/* What slub top shows: the same text on a screen and in a pipe. */
#ifndef SLUB_TOOL_TOP_H
#define SLUB_TOOL_TOP_H

#include "request.h"
#include "view.h"

#define TOP_HEAD_LINES 8	/* before the first cache */
#define TOP_TITLES     7	/* which of them names the columns */

struct top {
	enum sort_key key;
	double delay_seconds;
	bool narrow;		/* without SLACK and FAST */
	bool human;			/* sizes with a letter */
	bool groups;			/* instead of caches */
	int status;			/* of what was printed last */
};

/*
 * Writes the head and at most @rows caches or groups.  0, or an exit status after a
 * message.
 */
int top_print(FILE *to, struct snapshot *now, const struct snapshot *before,
	      const struct top *top, size_t rows);
/* The interactive screen.  0, or an exit status after a message. */
int top_screen(const struct request *request, struct top *top);

#endif
