/* SPDX-License-Identifier: MIT */
/*
 * Examines a program before it is run: can a library be preloaded into it?
 * The kernel and the loader never say; a preload that cannot work is ignored
 * without a word.
 */
#ifndef SLUB_TOOL_PROGRAM_H
#define SLUB_TOOL_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>

struct elf_file;

#define STATUS_CANNOT_RUN 126		/* found, but not to be run */
#define STATUS_NOT_FOUND  127

/*
 * The file that execvp(3) would run for @name, to be freed by the caller.
 * NULL after a message, with *@status the exit status to end with.
 */
char *program_find(const char *name, int *status);

/*
 * Follows scripts to their interpreters and compares the program with the
 * library.  0 if preloading works, else, after a message, the exit status.
 * What can only be known by running it counts as working.
 */
int program_examine(const char *path, const char *library);

/* 0, or the errno by which execve(2) would refuse the file. */
int program_why_not(const char *path);
/* The file that execvp(3) would run for @name with that PATH; NULL with *@error. */
char *program_search(const char *name, const char *folders, int *error);
/* What gives it more rights than its user has; NULL: nothing. */
const char *program_privilege(int fd, const char *path);
/*
 * A library that ends a program with anything preloaded before it: the runtime of
 * AddressSanitizer, where it is a shared one.  NULL: it needs none.
 */
const char *program_first_library(const struct elf_file *file);
#define SANITIZER_ADVICE						\
	"run it without libslub, or link it with libslub behind that"
/* Is its loader the one of this command's, whose name goes to @ours? */
bool program_same_loader(const char *interpreter, char *ours,
			 size_t ours_size);

#endif
