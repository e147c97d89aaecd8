/* SPDX-License-Identifier: MIT */
/*
 * Another process: its name, its mappings, its memory.  It is never stopped; or
 * it is no more, and this is its core file.
 */
#ifndef SLUB_TOOL_PROCESS_H
#define SLUB_TOOL_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct mapping {
	uint64_t start;
	uint64_t end;
	uint64_t offset;		/* in the file */
	bool writable;
	bool readable, executable;	/* of a living process; see core_segment */
	char *path;			/* "" if it is of no file */
	bool deleted;			/* the file has no name any more */
};

struct core;

struct process {
	pid_t pid;
	struct core *core;		/* NULL: it lives; see core.h */
	char name[32];			/* the kernel's, 15 letters at most */
	char *program;			/* as in the mappings; "" if unknown */
	struct mapping *mappings;
	size_t nr_mappings;
};

/*
 * Returns 0, -ESRCH if there is none (or it has just ended), -EACCES without
 * the permission to look, or another -errno.
 */
int process_open(struct process *process, pid_t pid);
void process_close(struct process *process);
/* Takes the mapping's path over. */
void process_add_mapping(struct process *process, const struct mapping *mapping);

/* Takes what the kernel puts behind the name of a file that has none any more; was it there? */
bool process_strip_deleted(char *path);

/* All of @bytes or nothing: 0, or -errno as above (-EFAULT: not mapped). */
int process_read(const struct process *process, uint64_t address, void *to,
		 size_t bytes);

/* The first mapping of the file with that path, from its first byte on. */
const struct mapping *process_file(const struct process *process,
				   const char *path);

/* The mapping that @address lies in, or NULL. */
static inline const struct mapping *process_mapping_at(const struct process *process,
						       uint64_t address)
{
	for (size_t i = 0; i < process->nr_mappings; i++) {
		const struct mapping *mapping = &process->mappings[i];

		if (address >= mapping->start && address < mapping->end)
			return mapping;
	}
	return NULL;
}

/* An open file descriptor of the program, deleted or not; or -errno. */
int process_open_program(const struct process *process);

#endif
