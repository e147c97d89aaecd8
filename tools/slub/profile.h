/* SPDX-License-Identifier: MIT */
/* What the files of `slub profile` share: a heap profile as it was read. */
#ifndef SLUB_TOOL_PROFILE_H
#define SLUB_TOOL_PROFILE_H

#include "index.h"
#include "input.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum profile_value {
	VALUE_ALLOC_OBJECTS,
	VALUE_ALLOC_SPACE,
	VALUE_INUSE_OBJECTS,
	VALUE_INUSE_SPACE,
	NR_VALUES
};

struct profile_site {
	uint64_t values[NR_VALUES];
	uint64_t samples;		/* all that there were, live or not */
	uint64_t live_samples;
	uint32_t stack;			/* the process's number for it; 0: not told */
	size_t first;			/* of its frames, in profile.frames */
	size_t nr_frames;
};

struct profile_mapping {
	uint64_t start, end, offset;	/* start is the first: see profile_read.c */
	char *path;
	char *build_id;			/* hexadecimal; NULL: not known */
	bool has_symbols;
};

/* A function that another one was inlined in. */
struct profile_outer {
	char *function, *symbol;	/* as in a location, never NULL the first */
	char *file;
	unsigned int line;		/* of the call that was inlined */
};

/* A return address, less one: it lies in the call. */
struct profile_location {
	uint64_t address;
	size_t mapping;			/* index + 1; 0: none */
	char *function;			/* as in the source; NULL: not known */
	char *symbol;			/* the linker's name, if it is another */
	char *file;
	unsigned int line;
	struct profile_outer *outers;	/* from within, the last one was compiled by itself */
	size_t nr_outers;		/* 0: `function` was */
};

struct profile {
	uint64_t mean_bytes, pid, start_ns, written_ns, lost;
	struct profile_site *sites;
	size_t nr_sites;
	uint64_t *frames;		/* indices of locations */
	size_t nr_frames;
	struct profile_location *locations;
	size_t nr_locations;
	struct index addresses;		/* of locations */
	struct profile_mapping *mappings;
	size_t nr_mappings;
	char *maps;			/* the text of /proc/PID/maps */
	uint64_t last_trail;		/* at that time (profile_trail.h) */
	uint64_t *alive;		/* trails of samples alive */
	size_t nr_alive;
	/* of a living process: which way the stacks of so many samples came */
	bool is_unwound;		/* the next three are known */
	uint64_t stacks_unwound, stacks_walked;
	uint64_t trails_lost;
};

/*
 * profile_read.c: what is no file of @kinds, goes on for more than @seconds or is longer than any
 * profile is refused.  0, or an exit status after a message.
 */
int profile_read(struct profile *profile, const char *path, enum input_kinds kinds,
		 double seconds);
/* What came to @profile since @before, which is of the same process and an earlier time. */
void profile_subtract(struct profile *profile, const struct profile *before);

/* One more, with the addresses that its frames return to. */
void profile_add_site(struct profile *profile, const struct profile_site *site,
		      const uint64_t *frames, size_t nr);

/* How a living process is to be sampled. */
struct profile_live {
	double seconds;
	double timeout;			/* to wait for an answer */
	double bytes;			/* between samples */
	bool leaks;			/* then wait as long again */
	bool no_wake;			/* no thread of it */
	bool frame_pointers;		/* stacks as the process walks them */
};
/* profile_live.c: 0, or an exit status after a message. */
int profile_of_process(struct profile *profile, const char *target,
		       const struct profile_live *live);
void profile_free(struct profile *profile);

/* profile_mapping.c: the mappings of a process, and in which of them an address lies, + 1. */
struct process;
void profile_mappings_of(struct profile *names, const struct process *process);
size_t profile_mapping_at(struct profile *names, const struct process *process,
			  uint64_t address);

/* profile_symbol.c: fills in functions, files and lines. */
void profile_find_symbols(struct profile *profile);

/* profile_proto.c: the profile in pprof's form, in a file of @mode; 0 or an exit status. */
int profile_write_proto(const struct profile *profile, const char *path, mode_t mode);

#endif
