/* SPDX-License-Identifier: MIT */
/*
 * Opens and reads what somebody else has named: a user by an argument, a process by the files
 * that it maps and the descriptors that it has, an option by its text.
 *
 * Nothing is opened before it is known what it is: a FIFO would wait for a writer, a tape would
 * wind back, a device may never end.  A reading has a bound in bytes and in time.
 */
#ifndef SLUB_TOOL_INPUT_H
#define SLUB_TOOL_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

enum input_kinds {
	INPUT_FILE,		/* regular files alone */
	INPUT_STREAM,		/* and pipes, as `<(command)` names one */
};

/*
 * A descriptor to read from, or -errno: -ENOEXEC for what is none of @kinds, -EISDIR for a
 * folder.  Reading it does not block.
 */
int input_open(const char *path, enum input_kinds kinds);
/* What @path is, without opening it: 0 if input_open() would take it. */
int input_check(const char *path, enum input_kinds kinds);

/* What may still be read of one input. */
struct input_lines {
	FILE *file;
	uint64_t bytes_left;
	double end_seconds;	/* by CLOCK_MONOTONIC */
	int error;		/* why the last reading ended: 0, or -errno */
	char *line;
	size_t size;
};

/* 0 or -errno.  At most @bytes are read, by lines, and for @seconds. */
int input_lines_open(struct input_lines *input, const char *path, enum input_kinds kinds,
		     uint64_t bytes, double seconds);
/*
 * The length of the next line, which lies in @input->line with its @end, or with a NUL behind
 * the last one; -1: there is none, or @input->error says why: -EFBIG beyond the bound in bytes,
 * -ETIME beyond that in time.
 */
ssize_t input_line(struct input_lines *input, char end);
void input_lines_close(struct input_lines *input);

/*
 * All of a regular file in memory that the caller frees, with a NUL behind it; NULL: *@error is
 * -errno, -EFBIG for a file of more than @max bytes.  Of a file that shrinks meanwhile: what is
 * there.
 */
char *input_all(const char *path, size_t max, size_t *size, int *error);
/* As input_all(), of the first @max bytes. */
char *input_head(const char *path, size_t max, size_t *size, int *error);

/* The memory of a process, to be written too; -errno. */
int input_memory(pid_t pid);

/* A file that the kernel makes, below /proc or /sys; NULL with errno. */
FILE *input_kernel(const char *path);

#endif
