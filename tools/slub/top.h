/* SPDX-License-Identifier: MIT */
/* What slub top shows: the same text on a screen and in a pipe. */
#ifndef SLUB_TOOL_TOP_H
#define SLUB_TOOL_TOP_H

#include "request.h"
#include "view.h"

struct top {
	enum sort_key key;
	double delay_seconds;
	size_t columns;			/* of the screen; 0: there is none, and room for all */
	bool human;			/* sizes with a letter */
	bool groups;			/* instead of caches */
	int status;			/* of what was printed last */
	size_t titles;			/* the line that names the columns, from 0 on */
};

static inline size_t top_columns(const struct top *top)
{
	return top->columns ? top->columns : SIZE_MAX;
}

/*
 * Writes the head and caches, or groups, in at most @lines.  0, or an exit status after a
 * message.
 */
int top_print(FILE *to, struct snapshot *now, const struct snapshot *before,
	      struct top *top, size_t lines);
/* The interactive screen.  0, or an exit status after a message. */
int top_screen(const struct request *request, struct top *top);

#endif
