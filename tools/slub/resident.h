/* SPDX-License-Identifier: MIT */
/* Which pages of a process have memory behind them, as the kernel says: /proc/PID/pagemap. */
#ifndef SLUB_TOOL_RESIDENT_H
#define SLUB_TOOL_RESIDENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#define RESIDENT_WINDOW 16384u	/* pages whose words are read at once */

struct resident {
	FILE *pagemap;			/* NULL: it cannot be read */
	uint64_t page_bytes;		/* the system's */
	uint64_t rss_bytes;		/* of the process; 0: not known */
	bool shares;			/* a relative by fork() has some of its pages too */
	uint64_t first;			/* number of the window's first page */
	size_t nr;			/* words in the window */
	uint64_t words[RESIDENT_WINDOW];
};

/* False: the kernel does not say. */
bool resident_open(struct resident *resident, pid_t pid);
void resident_close(struct resident *resident);
/* Bytes with memory behind them, of those from @address on.  Ascending addresses are fastest. */
uint64_t resident_bytes(struct resident *resident, uint64_t address, uint64_t bytes);

#endif
