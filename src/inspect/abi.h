/* SPDX-License-Identifier: MIT */
/*
 * The part of the library's state that another process may read.
 *
 * `slub_abi_state` is an exported data symbol.  A reader finds it in the
 * dynamic symbol table of the mapped file (or in the symbol table of a
 * statically linked program) and copies it with process_vm_readv(2): the
 * process is not stopped and runs no code for it.  A reader must refuse a
 * `magic` or `version` that it does not know.  Fields are only ever appended;
 * `size` says how many bytes the writer had.
 */
#ifndef SLUB_INSPECT_ABI_H
#define SLUB_INSPECT_ABI_H

#include <stdint.h>

#define SLUB_ABI_SYMBOL  "slub_abi_state"
#define SLUB_ABI_MAGIC   "SLUBABI"	/* eight bytes with its NUL */
#define SLUB_ABI_VERSION 1u

enum slub_abi_backend {
	SLUB_ABI_BACKEND_NONE = 0,	/* not started yet */
	SLUB_ABI_BACKEND_RSEQ = 1,
	SLUB_ABI_BACKEND_THREAD = 2,
	SLUB_ABI_BACKEND_TID = 3,
	SLUB_ABI_BACKEND_LOCK = 4,
};

enum slub_abi_cpu_number {
	SLUB_ABI_CPU_NONE = 0,
	SLUB_ABI_CPU_MM_CID = 1,	/* rseq mm_cid: threads that run at once */
	SLUB_ABI_CPU_CPU_ID = 2,	/* rseq cpu_id */
	SLUB_ABI_CPU_THREAD = 3,	/* a number per thread (backend thread) */
	SLUB_ABI_CPU_GETCPU = 4,	/* getcpu(2), a hint only */
};

enum slub_abi_layout {
	SLUB_ABI_LAYOUT_ALIGNED64 = 0,
	SLUB_ABI_LAYOUT_INNER56 = 1,
	SLUB_ABI_LAYOUT_LOCK56 = 2,
};

enum slub_abi_huge {
	SLUB_ABI_HUGE_NEVER = 0,
	SLUB_ABI_HUGE_BLOCK = 1,
	SLUB_ABI_HUGE_ALWAYS = 2,
};

struct slub_abi {
	char magic[8];
	uint32_t version;
	uint32_t size;			/* bytes of this structure */
	uint32_t ready;			/* 1 once the library has started */
	uint32_t backend;		/* enum slub_abi_backend */
	uint32_t cpu_number;		/* enum slub_abi_cpu_number */
	uint32_t page_size;		/* bytes, the system's */
	uint32_t layout;		/* enum slub_abi_layout */
	uint32_t smp;			/* 0: uniprocessor build */
	uint32_t nr_cpus_possible;
	uint32_t nr_cpus_allowed;	/* affinity at start */
	uint32_t nr_cpus_quota;		/* cpu.max rounded up; 0: no quota */
	uint32_t nr_nodes;
	uint32_t membarrier;		/* 1: stop-a-CPU works */
	uint32_t huge;			/* enum slub_abi_huge */
	uint64_t range_start;		/* the reserved range */
	uint64_t range_bytes;
	uint64_t heap_start;		/* first byte that objects may occupy */
	uint64_t heap_bytes;		/* committed so far */
	uint64_t retain_bytes;		/* free memory kept before it is purged */
	char library_version[16];
};

#endif
