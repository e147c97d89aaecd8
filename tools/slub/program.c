/* SPDX-License-Identifier: MIT */
/* Examines a program before it is run. */
#include "program.h"
#include "elf_file.h"
#include "input.h"
#include "script.h"
#include "slub.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

int program_why_not(const char *path)
{
	struct stat status;

	if (stat(path, &status))
		return errno;
	if (!S_ISREG(status.st_mode))
		return S_ISDIR(status.st_mode) ? EISDIR : EACCES;
	if (faccessat(AT_FDCWD, path, X_OK, AT_EACCESS))
		return errno;
	return 0;
}

static int complain_exec(const char *name, int error)
{
	bool missing = error == ENOENT || error == ENOTDIR;

	complain("%s: %s", name,
		 missing ? "no such program" :
		 error == EACCES ? "no permission to execute it" :
		 strerror(error));
	return missing ? STATUS_NOT_FOUND : STATUS_CANNOT_RUN;
}

char *program_search(const char *name, const char *folders, int *error)
{
	char path[PATH_MAX];

	*error = ENOENT;
	if (!folders)
		folders = "/bin:/usr/bin";
	for (;;) {
		int length = (int)strcspn(folders, ":"), why;

		/* An empty name in PATH is the current folder. */
		if (snprintf(path, sizeof(path), "%.*s%s%s", length, folders,
			     length ? "/" : "./", name) < (int)sizeof(path)) {
			why = program_why_not(path);
			if (!why) {
				*error = 0;
				return must_have(strdup(path));
			}
			if (why == EACCES)
				*error = why;
		}
		folders += length;
		if (!*folders++)
			return NULL;
	}
}

char *program_find(const char *name, int *status)
{
	char *path;
	int error;

	if (!strchr(name, '/')) {
		path = name[0] ? program_search(name, getenv("PATH"), &error) : NULL;
		if (!name[0])
			error = ENOENT;
	} else {
		error = program_why_not(name);
		path = error ? NULL : must_have(strdup(name));
	}
	if (!path)
		*status = complain_exec(name, error);
	return path;
}

/*
 * Does executing the file change who we are?  The loader then forgets
 * LD_PRELOAD: nobody may bring code into a program with more rights.
 */
const char *program_privilege(int fd, const char *path)
{
	struct statvfs mount;
	struct stat status;

	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ||
	    fstat(fd, &status) ||
	    (!fstatvfs(fd, &mount) && mount.f_flag & ST_NOSUID))
		return NULL;
	if (status.st_mode & S_ISUID && status.st_uid != getuid())
		return "setuid";
	if (status.st_mode & S_ISGID && status.st_mode & S_IXGRP &&
	    status.st_gid != getgid())
		return "setgid";
	if (getuid() && getxattr(path, "security.capability", NULL, 0) > 0)
		return "given capabilities by its file";
	return NULL;
}

/* As elf_file_open() returns. */
static int open_elf(const char *path, struct elf_file *file)
{
	int fd = input_open(path, INPUT_FILE), error;

	if (fd < 0)
		return fd;
	error = elf_file_open(file, fd);
	close(fd);
	return error;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* This command and the library were built for one C library, hence loader. */
bool program_same_loader(const char *interpreter, char *ours,
			 size_t ours_size)
{
	struct elf_file self;
	const char *own;
	bool same = true;

	if (open_elf("/proc/self/exe", &self))
		return true;
	own = elf_file_interpreter(&self);
	if (own) {
		snprintf(ours, ours_size, "%s", base_name(own));
		same = !strcmp(ours, base_name(interpreter));
	}
	elf_file_close(&self);
	return same;
}

static int examine_loader(const char *path, const char *interpreter)
{
	char ours[NAME_MAX + 1];

	if (access(interpreter, F_OK)) {
		complain("%s: its loader %s does not exist", path, interpreter);
		return STATUS_NOT_FOUND;
	}
	if (!program_same_loader(interpreter, ours, sizeof(ours))) {
		complain("%s: uses another C library (its loader is %s, the one "
			 "of libslub.so is %s), so libslub.so cannot be "
			 "preloaded into it", path, interpreter, ours);
		return STATUS_CANNOT_RUN;
	}
	return 0;
}

const char *program_first_library(const struct elf_file *file)
{
	const char *needed;

	for (unsigned int n = 0; (needed = elf_file_needed(file, n)); n++) {
		if (!strncmp(needed, "libasan.so", 10) ||
		    !strncmp(needed, "libclang_rt.asan", 16))
			return needed;
	}
	return NULL;
}

static int examine_elf(const char *path, const struct elf_file *program,
		       const struct elf_file *library)
{
	const char *interpreter, *first = program_first_library(program);
	uint64_t unused;

	if (!elf_file_same_kind(program, library)) {
		complain("%s: built for %u-bit machine type %u, libslub.so for "
			 "%u-bit type %u, so it cannot be preloaded into it",
			 path, 32 * elf_file_class(program),
			 elf_file_machine(program),
			 32 * elf_file_class(library),
			 elf_file_machine(library));
		return STATUS_CANNOT_RUN;
	}
	interpreter = elf_file_interpreter(program);
	if (!interpreter) {
		complain("%s: a static program: it has no loader that could "
			 "preload libslub.so; link it with libslub.a", path);
		return STATUS_CANNOT_RUN;
	}
	if (first) {
		complain("%s: links %s, which ends it unless it is first; "
			 SANITIZER_ADVICE, path, first);
		return STATUS_CANNOT_RUN;
	}
	if (elf_file_symbol(program, SHT_DYNSYM, "malloc", &unused))
		complain("warning: %s brings a malloc of its own, which comes "
			 "before a preloaded one", path);
	return examine_loader(path, interpreter);
}

static int examine_open(int fd, const char *path, const char *library)
{
	const char *privilege = program_privilege(fd, path);
	struct elf_file program, ours;
	int error, status;

	if (privilege) {
		complain("%s: is %s, and the loader preloads nothing into a "
			 "program with more rights than its user", path,
			 privilege);
		return STATUS_CANNOT_RUN;
	}
	error = elf_file_open(&program, fd);
	if (error) {
		complain("%s: %s", path, error == -ENOEXEC ?
			 "damaged ELF file" : strerror(-error));
		return STATUS_CANNOT_RUN;
	}
	status = STATUS_CANNOT_RUN;
	error = open_elf(library, &ours);
	if (!error) {
		status = examine_elf(path, &program, &ours);
		elf_file_close(&ours);
	} else {
		complain("%s: cannot be preloaded: %s", library,
			 error == -ENOEXEC ? "not an ELF file" :
					     strerror(-error));
	}
	elf_file_close(&program);
	return status;
}

/* What env clears, the program is without. */
static int complain_dropped(const struct script *script)
{
	complain("%s: env drops LD_PRELOAD on the way to %s, so libslub.so is not preloaded "
		 "into it", script->steps, script->program);
	return STATUS_CANNOT_RUN;
}

int program_examine(const char *path, const char *library)
{
	struct script script;
	int fd, status;

	/* A shell is a program like another: what it runs, it may run for itself alone. */
	fd = script_follow(&script, path, false);
	if (fd == -ENOENT)
		return STATUS_NOT_FOUND;
	if (fd == -EACCES)
		return 0;	/* to be executed but not read */
	if (fd < 0)
		return STATUS_CANNOT_RUN;
	status = script.end == SCRIPT_UNKNOWN ? 0 :
		 script.drops_preload ? complain_dropped(&script) :
					examine_open(fd, script.program, library);
	close(fd);
	return status;
}
