/* SPDX-License-Identifier: MIT */
/*
 * A core file: the memory of a process that is no more.  Every offset in the
 * file is checked before it is used.
 */
#ifndef SLUB_TOOL_CORE_H
#define SLUB_TOOL_CORE_H

#include "core_thread.h"
#include "elf_file.h"
#include "process.h"

struct core_segment {
	uint64_t start;
	uint64_t end;
	uint64_t offset;		/* in the file */
	uint64_t file_bytes;		/* the rest reads as zero */
	bool writable, executable;
};

/* What the kernel, or gcore(1), has noted of a thread; its bytes are in the file. */
struct core_note {
	uint32_t type;			/* NT_PRSTATUS and others */
	const char *bytes;
	size_t nr_bytes;
};

struct core {
	struct elf_file file;
	int signal;			/* that it died of; 0: not known */
	bool has_no_address;		/* SIGSEGV of an address that no memory can have */
	bool has_fault;			/* SIGSEGV or SIGBUS of an access; its address: */
	uint64_t fault;
	struct core_thread thread;	/* that died first */
	struct core_segment *segments;	/* by address */
	size_t nr_segments;
	struct core_note *notes;	/* with registers */
	size_t nr_notes;
};

/*
 * Opens the core at @path as a process.  Returns 0, -ENOEXEC if it is no core
 * file of this kind of machine, -ENODATA if it is cut short, -EBADMSG if it is
 * damaged, or another -errno.
 */
int core_open(struct process *process, const char *path);

/* All of @bytes or nothing: 0 or -EFAULT. */
int core_read(const struct core *core, uint64_t address, void *to,
	      size_t bytes);
/* Memory that nobody has touched: it reads as zero, and is not in the file. */
bool core_is_untouched(const struct core *core, uint64_t address,
		       uint64_t bytes);
void core_free(struct core *core);

#endif
