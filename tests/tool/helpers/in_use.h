/* SPDX-License-Identifier: MIT */
/* What a test has in use of the C library's malloc: no more after a second run than a first. */
#ifndef TOOL_IN_USE_H
#define TOOL_IN_USE_H

#include <malloc.h>
#include <stdlib.h>
#include <unistd.h>

static size_t bytes_in_use(void)
{
#ifdef __GLIBC__
	return mallinfo2().uordblks;
#else
	return 0;
#endif
}

/* Chunks that a thread keeps count as in use: it shall keep none. */
static void keep_no_chunks(char **argv)
{
	if (getenv("GLIBC_TUNABLES"))
		return;
	setenv("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0", 1);
	execv("/proc/self/exe", argv);
}

#endif
