/* SPDX-License-Identifier: MIT */
/*
 * The files of modules.  A process chooses what it maps, and under which name: a device may do
 * harm when it is opened, and a FIFO waits for a writer.
 */
#ifndef SLUB_TOOL_PROFILE_ELF_H
#define SLUB_TOOL_PROFILE_ELF_H

#include "input.h"

#include <elfutils/libdwfl.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -1: it is no regular file; *@is_there: there is something of that name. */
static inline int profile_elf_open(const char *path, bool *is_there)
{
	int fd = input_open(path, INPUT_FILE);

	*is_there = fd != -ENOENT && fd != -ENOTDIR;
	return fd < 0 ? -1 : fd;
}

/* In place of elfutils' own, which opens what is no file if its name ends in " (deleted)". */
static inline int profile_elf_find(Dwfl_Module *module, void **data, const char *name,
				   Dwarf_Addr base, char **file_name, Elf **elf)
{
	bool is_there = false;
	int fd = *name == '/' ? profile_elf_open(name, &is_there) : -1;

	if (fd >= 0)
		*file_name = strdup(name);
	if (is_there)
		return fd;
	return dwfl_linux_proc_find_elf(module, data, name, base, file_name, elf);
}

/* Is there something of that name beside @file which is no file?  @folder: "" or ".debug/". */
static inline bool profile_elf_is_trap(const char *file, const char *folder, const char *link)
{
	const char *slash = strrchr(file, '/');
	char *path;
	int error;

	if (!slash || asprintf(&path, "%.*s/%s%s", (int)(slash - file), file, folder, link) < 0)
		return false;
	error = input_check(path, INPUT_FILE);
	free(path);
	return error == -ENOEXEC || error == -EISDIR;
}

/*
 * elfutils opens what a file says of where its debugging information lies, beside it and in the
 * system's folder, and would wait for a FIFO of that name.
 */
static inline int profile_elf_debuginfo(Dwfl_Module *module, void **data, const char *name,
					Dwarf_Addr base, const char *file, const char *link,
					GElf_Word sum, char **found)
{
	if (file && link &&
	    (strchr(link, '/') || profile_elf_is_trap(file, "", link) ||
	     profile_elf_is_trap(file, ".debug/", link)))
		return -1;
	return dwfl_standard_find_debuginfo(module, data, name, base, file, link, sum, found);
}

#endif
