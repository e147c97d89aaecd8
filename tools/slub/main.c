/* SPDX-License-Identifier: MIT */
/* The `slub` command: finds the subcommand and runs it. */
#include "slub.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct command *const commands[] = {
	&cmd_run,
	&cmd_doctor,
	&cmd_info,
	&cmd_stats,
	&cmd_map,
	&cmd_profile,
	&cmd_debug,
	&cmd_traces,
	&cmd_explain,
	&cmd_exporter,
};

#define NR_COMMANDS (sizeof(commands) / sizeof(commands[0]))

/* Commands beneath another, by its first argument; each has a short name besides. */
static const struct {
	const char *above;
	const char *word;
	const struct command *command;
} beneath[] = {
	{ "run", "--options", &cmd_options },
	{ "doctor", "--check", &cmd_check },
	{ "info", "--top", &cmd_top },
	{ "debug", "validate", &cmd_validate },
	{ "debug", "shrink", &cmd_shrink },
	{ "debug", "guard", &cmd_guard },
	{ "debug", "set", &cmd_set },
	{ "traces", "--leaks", &cmd_leaks },
};

#define NR_BENEATH (sizeof(beneath) / sizeof(beneath[0]))

static void print_commands(FILE *to)
{
	for (size_t i = 0; i < NR_COMMANDS; i++) {
		fprintf(to, "  %-18s %s\n", commands[i]->name, commands[i]->summary);
		for (size_t k = 0; k < NR_BENEATH; k++) {
			if (!strcmp(beneath[k].above, commands[i]->name))
				fprintf(to, "    %s %-*s %s\n", beneath[k].above,
					15 - (int)strlen(beneath[k].above), beneath[k].word,
					beneath[k].command->summary);
		}
	}
}

/* The names of those beneath another work alone: `slub top PID`. */
static void print_short_names(FILE *to)
{
	fputs("Short forms: slub", to);
	for (size_t i = 0; i < NR_BENEATH; i++)
		fprintf(to, "%s %s", i ? "," : "", beneath[i].command->name);
	fputs("\n", to);
}

static void print_help(FILE *to)
{
	fputs("usage: slub COMMAND [ARGUMENT...]\n\n", to);
	print_commands(to);
	fprintf(to, "  %-18s %s\n", "help COMMAND", "explains a command");
	fputs("  -h, --help: this; -V, --version: the version\n", to);
	print_short_names(to);
	fputs("For example: slub run redis-server, then slub top PID\n", to);
}

static const struct command *find_command(const char *name)
{
	const char *names[NR_COMMANDS + NR_BENEATH + 1];
	const char *near;
	size_t nr = 0;

	for (size_t i = 0; i < NR_COMMANDS; i++) {
		if (!strcmp(commands[i]->name, name))
			return commands[i];
		names[nr++] = commands[i]->name;
	}
	for (size_t i = 0; i < NR_BENEATH; i++) {
		if (!strcmp(beneath[i].command->name, name))
			return beneath[i].command;
		names[nr++] = beneath[i].command->name;
	}
	names[nr++] = "help";
	near = nearest_word(name, names, nr);
	if (near)
		complain("unknown command '%s'; did you mean '%s'?", name, near);
	else
		complain("unknown command '%s'; `slub --help` lists them", name);
	return NULL;
}

/* The one that @word names beneath @above, or NULL. */
static const struct command *find_beneath(const struct command *above, const char *word)
{
	for (size_t i = 0; word && i < NR_BENEATH; i++) {
		if (!strcmp(beneath[i].above, above->name) && !strcmp(beneath[i].word, word))
			return beneath[i].command;
	}
	return NULL;
}

static int help(int argc, char **argv)
{
	const struct command *command, *below;

	if (argc < 2) {
		print_help(stdout);
		return 0;
	}
	command = find_command(argv[1]);
	if (!command)
		return STATUS_USAGE;
	below = argc == 3 ? find_beneath(command, argv[2]) : NULL;
	if (argc > 2 && !below) {
		complain("help takes one command; usage: slub help COMMAND");
		return STATUS_USAGE;
	}
	(below ? below : command)->print_help(stdout);
	return 0;
}

static int run_command(int argc, char **argv)
{
	const struct command *command = find_command(argv[0]), *below;

	if (!command)
		return STATUS_USAGE;
	below = find_beneath(command, argv[1]);
	return below ? below->main(argc - 1, argv + 1) : command->main(argc, argv);
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
		print_help(stderr);
		return STATUS_USAGE;
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
