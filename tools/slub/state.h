/* SPDX-License-Identifier: MIT */
/* Finds libslub in another process and reads what it shows of itself. */
#ifndef SLUB_TOOL_STATE_H
#define SLUB_TOOL_STATE_H

#include "features/inspect/abi.h"
#include "process.h"

enum presence {
	PRESENCE_ABSENT,
	PRESENCE_NOT_STARTED,	/* mapped, but nobody has called it */
	PRESENCE_SHADOWED,	/* the program's own malloc comes first */
	PRESENCE_IN_USE,
};

struct state {
	enum presence presence;
	bool is_static;			/* linked into the program */
	const struct mapping *file;	/* unless absent */
	uint64_t address;		/* of the abi in the process */
	struct slub_abi abi;		/* unless absent */
};

/*
 * Returns 0, -EACCES if the process may be seen but not read, -ESRCH if it
 * ended meanwhile, -EPROTO if its library is of an unknown kind: its version and
 * its release are in abi then, 0 and empty if there is not even that.
 */
int state_find(struct state *state, const struct process *process);

/* Reads the abi again; returns as state_find(). */
int state_refresh(struct state *state, const struct process *process);

/* The one line about -EPROTO. */
void complain_version(const char *command, const char *target,
		      const struct slub_abi *abi);

/*
 * The same of a part of the library, @what, whose version of its own @theirs is not the one
 * that this command reads.  @release may be empty.
 */
void complain_version_of(const char *command, const char *target,
			 const char *release, const char *what, uint32_t theirs,
			 uint32_t ours);

/* The words for numbers; "unknown" for what this command does not know. */
const char *state_backend(const struct slub_abi *abi);
const char *state_cpu_number(const struct slub_abi *abi);
const char *state_layout(const struct slub_abi *abi);
const char *state_huge(const struct slub_abi *abi);

/*
 * Bytes of memory in use at most, as they are now in a process or its core; UINT64_MAX: no limit.
 * False: it cannot be told.
 */
bool state_limit(const struct process *process, const struct slub_abi *abi, uint64_t *bytes);

#endif
