/* SPDX-License-Identifier: MIT */
/* The `slub` command: finds the subcommand and runs it. */
#include "slub.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct command *const commands[] = {
	&cmd_run,
	&cmd_check,
	&cmd_doctor,
	&cmd_top,
	&cmd_info,
	&cmd_stats,
	&cmd_exporter,
	&cmd_map,
	&cmd_profile,
	&cmd_options,
	&cmd_debug,
	&cmd_validate,
	&cmd_shrink,
	&cmd_leaks,
	&cmd_guard,
	&cmd_set,
	&cmd_explain,
	&cmd_traces,
};

#define NR_COMMANDS (sizeof(commands) / sizeof(commands[0]))

static void print_help(FILE *to)
{
	fputs("usage: slub COMMAND [ARGUMENT...]\n\n", to);
	for (size_t i = 0; i < NR_COMMANDS; i++)
		fprintf(to, "  %-12s %s\n", commands[i]->name,
			commands[i]->summary);
	fprintf(to, "  %-12s %s\n\n", "help COMMAND", "explains a command");
	fputs("  -h, --help     prints this\n"
	      "  -V, --version  prints the version\n", to);
}

static const struct command *find_command(const char *name)
{
	const char *names[NR_COMMANDS + 1] = { [NR_COMMANDS] = "help" };
	const char *near;

	for (size_t i = 0; i < NR_COMMANDS; i++) {
		if (!strcmp(commands[i]->name, name))
			return commands[i];
		names[i] = commands[i]->name;
	}
	near = nearest_word(name, names, NR_COMMANDS + 1);
	if (near)
		complain("unknown command '%s'; did you mean '%s'?", name, near);
	else
		complain("unknown command '%s'; `slub --help` lists them", name);
	return NULL;
}

static int help(int argc, char **argv)
{
	const struct command *command;

	if (argc > 2) {
		complain("help takes one command; usage: slub help COMMAND");
		return STATUS_USAGE;
	}
	if (argc < 2) {
		print_help(stdout);
		return 0;
	}
	command = find_command(argv[1]);
	if (!command)
		return STATUS_USAGE;
	command->print_help(stdout);
	return 0;
}

static int dispatch(int argc, char **argv)
{
	static const struct option options[] = {
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ NULL, 0, NULL, 0 },
	};
	const struct command *command;

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
		print_help(stderr);
		return STATUS_USAGE;
	}
	argc -= optind;
	argv += optind;
	optind = 0;		/* glibc's and musl's way to start over */
	if (!strcmp(argv[0], "help"))
		return help(argc, argv);
	command = find_command(argv[0]);
	return command ? command->main(argc, argv) : STATUS_USAGE;
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
