/* SPDX-License-Identifier: MIT */
/* What the files of the `slub` command share. */
#ifndef SLUB_TOOL_H
#define SLUB_TOOL_H

#include <getopt.h>
#include <stddef.h>
#include <stdio.h>

/* Exit status of every subcommand for arguments that make no sense. */
#define STATUS_USAGE 2

/* A subcommand: one per cmd_*.c, listed in main.c. */
struct command {
	const char *name;
	const char *summary;		/* one line, for `slub --help` */
	void (*print_help)(FILE *to);	/* `slub NAME --help` */
	int (*main)(int argc, char **argv);
};

extern const struct command cmd_run;
extern const struct command cmd_check;

/* message.c: one line on stderr, headed "slub: ". */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

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
