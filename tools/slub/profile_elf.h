/* SPDX-License-Identifier: MIT */
/*
 * The files of modules.  A process chooses what it maps, and under which name: a device may do
 * harm when it is opened, and a FIFO waits for a writer.
 */
#ifndef SLUB_TOOL_PROFILE_ELF_H
#define SLUB_TOOL_PROFILE_ELF_H

#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* -1: it is no regular file; *@is_there: there is something of that name. */
static inline int profile_elf_open(const char *path, bool *is_there)
{
	struct stat found;
	int fd;

	*is_there = !stat(path, &found);
	if (!*is_there || !S_ISREG(found.st_mode))
		return -1;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	/* It may be another one by now. */
	if (fd >= 0 && (fstat(fd, &found) || !S_ISREG(found.st_mode))) {
		close(fd);
		return -1;
	}
	return fd;
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

#endif
