/* SPDX-License-Identifier: MIT */
/* The `slub` command: finds the subcommand and runs it. */
#include "slub.h"
#include "tour.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define NR_IN_GROUP 6

struct group {
	const char *what;
	const struct command *commands[NR_IN_GROUP + 1];	/* ends with NULL */
};

/* By what one wants: a command has one name, and stands in one group. */
static const struct group groups[] = {
	{ "Start a program", { &cmd_run, &cmd_doctor, &cmd_options } },
	{ "Look at a process, a core file or a statistics file",
	  { &cmd_stats, &cmd_top, &cmd_info, &cmd_map, &cmd_check, &cmd_exporter } },
	{ "Find the cause",
	  { &cmd_leaks, &cmd_explain, &cmd_traces, &cmd_watched, &cmd_profile } },
	{ "Ask a running process",
	  { &cmd_shrink, &cmd_validate, &cmd_debug, &cmd_guard, &cmd_set } },
};

#define NR_GROUPS (sizeof(groups) / sizeof(groups[0]))
#define NR_COMMANDS_MAX (NR_GROUPS * NR_IN_GROUP)

static void print_help(FILE *to)
{
	fputs("usage: slub COMMAND [ARGUMENT...]; slub help COMMAND; slub --version\n", to);
	for (size_t g = 0; g < NR_GROUPS; g++) {
		fprintf(to, "%s:\n", groups[g].what);
		for (const struct command *const *each = groups[g].commands; *each; each++)
			fprintf(to, "  %-10s %s\n", (*each)->name, (*each)->summary);
	}
}

static const struct command *find_command(const char *name)
{
	const char *names[NR_COMMANDS_MAX + 1];
	const char *near;
	size_t nr = 0;

	for (size_t g = 0; g < NR_GROUPS; g++) {
		for (const struct command *const *each = groups[g].commands; *each; each++) {
			if (!strcmp((*each)->name, name))
				return *each;
			names[nr++] = (*each)->name;
		}
	}
	names[nr++] = "help";
	near = nearest_word(name, names, nr);
	if (near)
		complain("unknown command '%s'; did you mean '%s'?", name, near);
	else
		complain("unknown command '%s'; `slub --help` lists them", name);
	return NULL;
}

static int help(int argc, char **argv)
{
	const struct command *command;

	if (argc < 2) {
		print_help(stdout);
		return 0;
	}
	command = find_command(argv[1]);
	if (!command)
		return STATUS_USAGE;
	if (argc > 2) {
		complain("help takes one command; usage: slub help COMMAND");
		return STATUS_USAGE;
	}
	command->print_help(stdout);
	return 0;
}

static int run_command(int argc, char **argv)
{
	const struct command *command = find_command(argv[0]);

	return command ? command->main(argc, argv) : STATUS_USAGE;
}

static int dispatch(int argc, char **argv)
{
	static const struct option options[] = {
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ NULL, 0, NULL, 0 },
	};

	switch (getopt_long(argc, argv, "+:hV", options, NULL)) {
	case 'h':
		print_help(stdout);
		return 0;
	case 'V':
		puts("slub " SLUB_TOOL_VERSION);
		return 0;
	case '?':
		return option_refused('?', argv, options);
	}
	if (optind == argc) {
		tour_print(stdout);
		return 0;
	}
	argc -= optind;
	argv += optind;
	optind = 0;		/* glibc's and musl's way to start over */
	if (!strcmp(argv[0], "help"))
		return help(argc, argv);
	return run_command(argc, argv);
}

int main(int argc, char **argv)
{
	int status;

	opterr = 0;
	status = dispatch(argc, argv);
	if (fflush(stdout) == EOF || ferror(stdout)) {
		complain("cannot write to standard output: %s", strerror(errno));
		return 125;
	}
	return status;
}
