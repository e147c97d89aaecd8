/* SPDX-License-Identifier: MIT */
/*
 * An ELF file as it lies in another process's memory.  Nothing of the file
 * itself is needed: it may be deleted, or in a mount namespace of its own.
 */
#ifndef SLUB_TOOL_ELF_IMAGE_H
#define SLUB_TOOL_ELF_IMAGE_H

#include "process.h"

/*
 * Finds a symbol that the image at @base defines for others, in its dynamic
 * symbol table.  0, -ENOENT if there is none, or process_read()'s -errno.
 */
int elf_image_symbol(const struct process *process, uint64_t base,
		     const char *name, uint64_t *address);

/*
 * The build ID of the file whose first byte lies at @base, in hexadecimal;
 * false: it has none, or it is not in the memory (of a core file).
 */
bool elf_image_build_id(const struct process *process, uint64_t base,
			char *hex, size_t size);

#endif
