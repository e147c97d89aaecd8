/* SPDX-License-Identifier: MIT */
/*
 * descriptor: one that the library keeps open in a program that does not know of it.
 *
 *   DESCRIPTOR-1  one that is kept is looked at before it is used or closed: a daemon
 *                 closes all from 3 up, and the files that it opens next get their
 *                 numbers.
 *
 * Between the look and the use another thread may do so still.
 */
#ifndef SLUB_RECLAIM_DESCRIPTOR_H
#define SLUB_RECLAIM_DESCRIPTOR_H

#include "core/base/syscall.h"

/* Below it are standard input, output and error, also where they are closed. */
#define DESCRIPTOR_MIN 3

static inline void close_fd(int fd)
{
	if (fd >= 0)
		sys_close(fd);
}

/*
 * @fd, just opened, is kept from now on; -1: none.  Returns the number that it has
 * then: the lowest that is free from @min up, or @fd.
 */
int descriptor_keep(int fd, int min);
/* Is @fd still what was kept? */
bool descriptor_is_kept(int fd);
/* Unless it is another's. */
void descriptor_close(int fd);

#endif
