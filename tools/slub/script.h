/* SPDX-License-Identifier: MIT */
/*
 * Follows a script to the program that a process of it is in the end: by its "#!" lines as the
 * kernel does, through env(1), and through a shell whose last step can be read.
 */
#ifndef SLUB_TOOL_SCRIPT_H
#define SLUB_TOOL_SCRIPT_H

#include <limits.h>
#include <stdbool.h>

enum script_end {
	SCRIPT_NONE,		/* what was asked for is the program */
	SCRIPT_FOLLOWED,
	SCRIPT_UNKNOWN,		/* known only when it runs: @why */
};

struct script {
	enum script_end end;
	char program[PATH_MAX];	/* at the end, or the last that is known */
	char steps[2048];	/* "script -> /usr/bin/env", what came before it */
	char why[256];
	bool drops_preload;	/* env clears the environment on the way */
};

/*
 * The program at the end, opened; with @through_shells that behind a shell's last step.  -errno,
 * after a message but for -EACCES.
 */
int script_follow(struct script *script, const char *path, bool through_shells);

/* What a program is given: by a "#!" line and the script behind it, or by env(1). */
struct script_step {
	bool has_script;
	char argument[PATH_MAX];	/* "": none */
	bool is_vague;			/* more than that, or it is not known what */
	char script[PATH_MAX];
	char next[PATH_MAX];	/* what it runs, which is given @argument and @script in turn */
	char why[256];		/* it is not known */
	bool drops_preload;
};

/* Each: 0, -ENOENT after a message, or 1: not known, @step->why.  script_env.c, script_shell.c */
int script_step_env(struct script_step *step);
int script_step_shell(struct script_step *step);

#endif
