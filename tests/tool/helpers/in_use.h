/* SPDX-License-Identifier: MIT */
/* What a test has in use, of the C library's malloc and of descriptors: no more after a second run
 * than after a first. */
#ifndef TOOL_IN_USE_H
#define TOOL_IN_USE_H

#include <fcntl.h>
#include <malloc.h>
#include <stdlib.h>
#include <unistd.h>

#include "expect.h"

static size_t bytes_in_use(void)
{
#ifdef __GLIBC__
	return mallinfo2().uordblks;
#else
	return 0;
#endif
}

/* Descriptors that are open, of the first ones. */
static int nr_open_fds(void)
{
	int nr = 0;

	for (int fd = 0; fd < 64; fd++)
		nr += fcntl(fd, F_GETFD) >= 0;
	return nr;
}

/* Chunks that a thread keeps count as in use: it shall keep none. */
static void keep_no_chunks(char **argv)
{
	if (getenv("GLIBC_TUNABLES"))
		return;
	setenv("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0", 1);
	execv("/proc/self/exe", argv);
}

/* What the second time has more in use, or open, stays so for ever. */
static void do_twice(void (*all)(void))
{
	size_t before;
	int nr_fds;

	all();
	before = bytes_in_use();
	nr_fds = nr_open_fds();
	all();
	EXPECT(bytes_in_use(), before);
	EXPECT(nr_open_fds(), nr_fds);
}

#endif
