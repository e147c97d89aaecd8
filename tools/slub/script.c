/* SPDX-License-Identifier: MIT */
/* Follows a script to the program that a process of it is in the end. */
#include "script.h"
#include "input.h"
#include "program.h"
#include "slub.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SCRIPT_DEPTH_MAX 5	/* the kernel's limit of "#!" behind "#!" */
#define SCRIPT_LINE_SIZE 256	/* how much of a "#!" line the kernel reads */
#define STEPS_MAX	 16	/* programs that env and shells run one after the other */

/* What the kernel makes of a file. */
struct line {
	char text[SCRIPT_LINE_SIZE + 1];
	const char *interpreter;	/* NULL: it is a program */
	const char *argument;		/* all behind it, as one; NULL: none */
};

static char *skip_blanks(char *text)
{
	return text + strspn(text, " \t");
}

/* A file that is neither a script nor ELF is /bin/sh's for execvp(). */
static void read_line(struct line *line, int fd)
{
	ssize_t length = pread(fd, line->text, SCRIPT_LINE_SIZE, 0);
	char *name, *end, *argument;

	line->text[length < 0 ? 0 : length] = '\0';
	line->argument = NULL;
	line->interpreter = NULL;
	if (length >= SELFMAG && !memcmp(line->text, ELFMAG, SELFMAG))
		return;
	line->interpreter = "/bin/sh";
	end = line->text + strcspn(line->text, "\n");
	if (strncmp(line->text, "#!", 2) ||
	    (!*end && length == SCRIPT_LINE_SIZE && !strpbrk(skip_blanks(line->text + 2), " \t")))
		return;
	/* Before "#!" there is none. */
	while (end[-1] == ' ' || end[-1] == '\t')
		end--;
	*end = '\0';
	name = skip_blanks(line->text + 2);
	if (!*name)
		return;
	line->interpreter = name;
	argument = name + strcspn(name, " \t");
	if (*argument) {
		*argument = '\0';
		line->argument = skip_blanks(argument + 1);
	}
}

static int refuse_open(const char *path, int error)
{
	if (error != -EACCES)
		complain("%s: cannot be examined: %s", path, strerror(-error));
	return error;
}

static void note_step(struct script *script, const char *path)
{
	size_t used = strlen(script->steps);

	snprintf(script->steps + used, sizeof(script->steps) - used, "%s%s",
		 used ? " -> " : "", path);
	script->end = SCRIPT_FOLLOWED;
}

/*
 * The kernel's part: from @path to the program that it starts, whose name goes to
 * @script->program.  @step: what that is given.
 */
static int follow_lines(struct script *script, char *path, struct script_step *step)
{
	for (int depth = 0; depth <= SCRIPT_DEPTH_MAX; depth++) {
		struct line next;
		int fd = input_open(path, INPUT_FILE), error;

		snprintf(script->program, sizeof(script->program), "%s", path);
		if (fd < 0)
			return refuse_open(path, fd);
		read_line(&next, fd);
		if (!next.interpreter)
			return fd;
		close(fd);
		note_step(script, path);
		error = program_why_not(next.interpreter);
		if (error) {
			complain("%s: its interpreter '%s': %s", path,
				 next.interpreter, strerror(error));
			return error == ENOENT ? -ENOENT : -ENOEXEC;
		}
		step->has_script = true;
		step->is_vague = false;
		snprintf(step->script, sizeof(step->script), "%s", path);
		snprintf(step->argument, sizeof(step->argument), "%s",
			 next.argument ? next.argument : "");
		snprintf(path, PATH_MAX, "%s", next.interpreter);
	}
	complain("%s: too many scripts that are each other's interpreters", path);
	return -ELOOP;
}

static bool is_shell(const char *name, const char *argument)
{
	static const char *const shells[] = { "sh", "bash", "dash", "ash", "zsh", "ksh", "mksh",
					      "rbash", "yash" };

	if (!strcmp(name, "busybox"))
		name = argument;
	for (size_t i = 0; i < sizeof(shells) / sizeof(shells[0]); i++) {
		if (!strcmp(name, shells[i]))
			return true;
	}
	return false;
}

/* 0: @path is what it goes on to; 1: it is the end, or not known; else -errno. */
static int next_program(struct script *script, struct script_step *step, bool through_shells,
			char *path)
{
	const char *slash = strrchr(script->program, '/');
	const char *name = slash ? slash + 1 : script->program;
	int found;

	if (!step->has_script)
		return 1;
	if (!strcmp(name, "env"))
		found = script_step_env(step);
	else if (through_shells && is_shell(name, step->argument))
		found = script_step_shell(step);
	else
		return 1;
	script->drops_preload |= step->drops_preload;
	if (found > 0) {
		script->end = SCRIPT_UNKNOWN;
		snprintf(script->why, sizeof(script->why), "%s", step->why);
	} else if (!found) {
		note_step(script, script->program);
		snprintf(path, PATH_MAX, "%s", step->next);
	}
	return found;
}

int script_follow(struct script *script, const char *path, bool through_shells)
{
	char at[PATH_MAX];
	struct script_step step = { .has_script = false };

	memset(script, 0, sizeof(*script));
	snprintf(at, sizeof(at), "%s", path);
	for (int i = 0; i < STEPS_MAX; i++) {
		int fd = follow_lines(script, at, &step), next;

		if (fd < 0)
			return fd;
		next = next_program(script, &step, through_shells, at);
		if (next > 0)
			return fd;
		close(fd);
		if (next < 0)
			return next;
	}
	complain("%s: runs scripts without an end", path);
	return -ELOOP;
}
