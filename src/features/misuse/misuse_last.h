/* SPDX-License-Identifier: MIT */
/*
 * What was said last of certain corruption (misuse.h), for a reader of the memory: a core file has
 * it where the line on standard error is lost.  Fields are only appended.
 */
#ifndef SLUB_MISUSE_LAST_H
#define SLUB_MISUSE_LAST_H

#include <stdint.h>

struct misuse_last {
	uint32_t size;			/* of this structure */
	uint32_t thread;		/* that said it; 0: nothing was said */
	uint64_t nr;			/* how much was found so far */
	uint64_t address;
	uint64_t caller;		/* a return address; 0: not known, or found at exit */
	/* each ends with a NUL; "": there is none */
	char what[64];			/* the first words of the line */
	char call[32];			/* the public function that was called */
	char where[64];			/* the name of a cache, or "large block" */
	char line[1184];		/* all of it */
};

#endif
