/* SPDX-License-Identifier: MIT */
/*
 * A line on the terminal while something takes more than a second.  What is told of @what stays
 * where it is until progress_end().
 */
#ifndef SLUB_TOOL_PROGRESS_H
#define SLUB_TOOL_PROGRESS_H

#include <stdint.h>

/* @done of @all of it; 0 of 0 is nothing new. */
void progress(const char *what, uint64_t done, uint64_t all);
/* Nobody knows how much of it there is: the seconds are shown. */
void progress_begin(const char *what);
/* Takes the line away again. */
void progress_end(void);

#endif
