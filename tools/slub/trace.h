/* SPDX-License-Identifier: MIT */
/*
 * Who allocated, or freed, the objects of watched caches (letter U), read from
 * a process or its core file without asking it.
 */
#ifndef SLUB_TOOL_TRACE_H
#define SLUB_TOOL_TRACE_H

#include "index.h"
#include "snapshot.h"

#define TRACE_FRAMES_MAX 128
#define TRACE_CPUS_MAX	 1024

enum trace_kind { TRACE_ALLOC, TRACE_FREE };

/* Objects of one cache with one call stack. */
struct trace {
	size_t cache;			/* index in the snapshot */
	uint64_t caller;		/* 0: nobody did */
	uint32_t stack;
	uint64_t count;
	uint64_t bytes;			/* as they were asked for */
	uint64_t waste;			/* lost to the size class */
	uint64_t when_sum, when_min, when_max;	/* ns of its clock */
	uint32_t thread_min, thread_max;
	uint32_t nodes;			/* a bit for each */
	uint64_t cpus[TRACE_CPUS_MAX / 64];
	uint64_t frames[TRACE_FRAMES_MAX];	/* return addresses */
	uint32_t nr_frames;
};

struct traces {
	struct trace *rows;		/* of each cache the most objects first */
	size_t nr;
	uint64_t now_ns;		/* of its clock; of a core: its last track */
	struct index index;		/* while they are collected */
};

/*
 * Of the objects that are allocated now; TRACE_FREE: who freed what was in
 * their place before.  @pattern: a cache, its beginning and "*", or "".
 */
void traces_collect(struct traces *traces, const struct snapshot *snapshot,
		    enum trace_kind kind, const char *pattern);
void traces_free(struct traces *traces);

/* Where things are in the place of a watched object; offsets from its address. */
struct watch {
	bool is_known;			/* it was read, and makes sense */
	uint64_t left, track, requested;
};

/* Are the fields of tracks where they can be? */
bool trace_fields_fit(const struct slub_abi *abi);
bool watch_read(const struct process *process, const struct slub_abi *abi,
		const struct cache_view *cache, struct watch *watch);
/* Where stored stacks begin; 0: there are none. */
uint64_t trace_store(const struct process *process, const struct slub_abi *abi);
/* The frames of stack number @stack; 0: it is not stored. */
uint32_t trace_stack_read(const struct process *process, const struct slub_abi *abi, uint64_t store,
			  uint32_t stack, uint64_t frames[TRACE_FRAMES_MAX]);

/* The letters of a watched cache, "" for others; @buf has room for 8. */
const char *watch_letters(const struct cache_view *cache, char *buf);
/* Is @cache watched by letter U, and called so? */
bool cache_is_traced(const struct snapshot *snapshot,
		     const struct cache_view *cache, const char *pattern);
/* An exit status: of no cache that is called so there are tracks; after a message of @command. */
int traces_check(const struct snapshot *snapshot, const char *command, const char *pattern);

#endif
