/* SPDX-License-Identifier: MIT */
/* What the files of the `slub` command share. */
#ifndef SLUB_TOOL_H
#define SLUB_TOOL_H

#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Exit statuses that every subcommand shares. */
enum exit_status {
	STATUS_OK = 0,			/* done, or yes */
	STATUS_NO = 1,			/* libslub is not in use there, or cannot be */
	STATUS_USAGE = 2,		/* arguments that make no sense */
	STATUS_NO_PERMISSION = 3,
	STATUS_NO_TARGET = 4,		/* no such process, file, program or cache */
	STATUS_UNREADABLE = 5,		/* damaged, or of an unknown version */
	STATUS_FAILED = 6,		/* the process did not answer, or could not */
	STATUS_FOUND = 7,		/* what was looked for, and is not to be: bugs, leaks */
	STATUS_ITSELF = 125,		/* slub itself failed: it has no memory */
};

/* A subcommand: one per cmd_*.c, listed in main.c. */
struct command {
	const char *name;
	const char *summary;		/* one line, for `slub --help` */
	void (*print_help)(FILE *to);	/* `slub NAME --help` */
	int (*main)(int argc, char **argv);
};

extern const struct command cmd_run;
extern const struct command cmd_check;
extern const struct command cmd_top;
extern const struct command cmd_info;
extern const struct command cmd_map;
extern const struct command cmd_stats;
extern const struct command cmd_options;
extern const struct command cmd_exporter;
extern const struct command cmd_doctor;
extern const struct command cmd_profile;
extern const struct command cmd_debug;
extern const struct command cmd_validate;
extern const struct command cmd_shrink;
extern const struct command cmd_leaks;
extern const struct command cmd_watched;
extern const struct command cmd_explain;
extern const struct command cmd_guard;
extern const struct command cmd_set;
extern const struct command cmd_traces;

/* For qsort(): the less comes first. */
static inline int compare_numbers(uint64_t one, uint64_t other)
{
	return (one > other) - (one < other);
}

/* Is the target of a command a process? */
static inline bool is_pid(const char *text)
{
	return *text && !text[strspn(text, "0123456789")];
}

/* message.c: one line on stderr, headed "slub: ". */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * message.c: returns @block.  NULL, for want of memory, ends the command, which says so: half an
 * answer would look like a whole one.
 */
void *must_have(void *block);
/* message.c: the caller's to free. */
char *text_of(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* message.c: the last lines of --help; every command but run has these. */
void print_statuses(FILE *to);

/*
 * clean.c: makes text from outside fit for a terminal, where it is read: UTF-8 stays,
 * control characters and bytes that are no letter become '?'.  Returns @text.
 */
char *clean_string(char *text);

/* nearest.c: the closest of @nr_words, or NULL if none is close. */
const char *nearest_word(const char *word, const char *const *words,
			 size_t nr_words);

/*
 * option.c: explains what getopt_long() has just refused by returning
 * @refusal, '?' or ':'; returns STATUS_USAGE.  The option string must begin
 * with "+:".
 */
int option_refused(int refusal, char **argv, const struct option *options);

#endif
