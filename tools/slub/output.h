/* SPDX-License-Identifier: MIT */
/*
 * Writes a file that a user has named, which a reader sees as it was or as it is, and nobody
 * else's: not one behind a symbolic link, nor one of a name that somebody could know before.
 */
#ifndef SLUB_TOOL_OUTPUT_H
#define SLUB_TOOL_OUTPUT_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#define OUTPUT_PRIVATE 0600

struct output {
	FILE *to;
	char *path;
	char *temporary;	/* what becomes @path; NULL: it is written in place */
};

/*
 * 0 or -errno: -ELOOP for a symbolic link.  A file has @mode at the most, less the umask.  A
 * device or a pipe is written in place.
 */
int output_open(struct output *output, const char *path, mode_t mode);
/*
 * Ends the writing: with @good the file gets its name, when it is on its disk, else nothing is
 * changed.  0 or -errno, for what was written before as well.
 */
int output_close(struct output *output, bool good);
/* What -errno of these says to a user. */
const char *output_why(int error);

#endif
