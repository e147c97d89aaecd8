/* SPDX-License-Identifier: MIT */
/* The file that record.c writes and trace.c reads: a head, and records in their order. */
#ifndef BENCH_SCALE_RECORD_H
#define BENCH_SCALE_RECORD_H

#include <stdint.h>

#define RECORD_MAGIC UINT64_C(0x7363616c65747231)
#define RECORD_THREADS 4096

enum record_kind {
	RECORD_NONE,		/* the process ended while it was written */
	RECORD_ALLOC,		/* of bytes, at address; written after it */
	RECORD_FREE,		/* written before it */
	RECORD_RESIZE,		/* address is given to realloc(); written before it */
	RECORD_RESIZED,		/* and that is what it returned */
};

struct record {
	uint64_t address;
	uint32_t bytes;		/* UINT32_MAX: or more */
	uint16_t thread;
	uint16_t kind;		/* enum record_kind; written last */
};

struct record_head {
	uint64_t magic;
	uint64_t nr;		/* records; may be more than there is room for */
	uint64_t nr_max;
	uint64_t nr_threads;
};

#endif
