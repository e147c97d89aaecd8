/* SPDX-License-Identifier: MIT */
/* slub run: runs a program with libslub as its malloc. */
#include "library.h"
#include "program.h"
#include "settings.h"
#include "slub.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STATUS_NO_LIBRARY 125
/* Above every letter, for getopt_long(). */
#define OPTION_HARDENED	  256
#define OPTION_FORCE	  257
#define FIRST_SETTING	  258

struct request {
	bool force;
	bool hardened;
	bool help;
	char **command;
};

static void print_run_help(FILE *to)
{
	fputs("usage: slub run [OPTION...] [--] COMMAND [ARGUMENT...]\n\n"
	      "Runs COMMAND with libslub preloaded as its malloc:\n"
	      "  slub run --mode=compact -- redis-server --port 6380\n\n", to);
	settings_print(to);
	fputs("  and those that `slub options --all` lists, each as --NAME=VALUE\n"
	      "  --hardened                      preload libslub-hardened.so\n"
	      "  --force                         even if libslub cannot be preloaded\n"
	      "  -h, --help                      print this\n\n"
	      "Exit status: COMMAND's own; 2 bad arguments, 125 no libslub.so,\n"
	      "126 COMMAND cannot be run with libslub, 127 no such command.\n",
	      to);
}

/* 0 or an exit status. */
static int parse(int argc, char **argv, struct request *request)
{
	struct option options[NR_KNOWN_SETTINGS + 4];
	int letter;

	settings_options(options, FIRST_SETTING);
	options[NR_KNOWN_SETTINGS] =
		(struct option) { "force", no_argument, NULL, OPTION_FORCE };
	options[NR_KNOWN_SETTINGS + 1] =
		(struct option) { "help", no_argument, NULL, 'h' };
	options[NR_KNOWN_SETTINGS + 2] = (struct option) {
		"hardened", no_argument, NULL, OPTION_HARDENED
	};
	options[NR_KNOWN_SETTINGS + 3] = (struct option) { NULL, 0, NULL, 0 };

	for (;;) {
		letter = getopt_long(argc, argv, "+:h", options, NULL);
		if (letter == -1)
			break;
		if (letter == OPTION_FORCE)
			request->force = true;
		else if (letter == 'h')
			request->help = true;
		else if (letter == OPTION_HARDENED)
			request->hardened = true;
		else if (letter < FIRST_SETTING)
			return option_refused(letter, argv, options);
		else if (!setting_apply(letter - FIRST_SETTING, optarg))
			return STATUS_USAGE;
	}
	request->command = argv + optind;
	if (!request->help && optind == argc) {
		complain("run: no command; usage: slub run [OPTION...] -- "
			 "COMMAND [ARGUMENT...]");
		return STATUS_USAGE;
	}
	return 0;
}

/* Further behind it would not be used: the first malloc found is. */
static bool is_in_front(const char *list, const char *library)
{
	size_t length = strlen(library);

	list += strspn(list, ": ");
	return strcspn(list, ": ") == length && !strncmp(list, library, length);
}

/* "@first:@others", or @first alone. */
static void put_in_front(const char *variable, const char *first)
{
	const char *others = getenv(variable);
	char *list = text_of("%s%s%s", first, others && *others ? ":" : "",
			     others ? others : "");

	setenv(variable, list, 1);
	free(list);
}

static void search_folder_of(const char *library, const char *slash)
{
	char *folder = text_of("%.*s", (int)(slash - library), library);

	put_in_front("LD_LIBRARY_PATH", folder);
	free(folder);
}

/*
 * In front of what is preloaded already: the first malloc found is used.
 * Spaces part the names in LD_PRELOAD, but not the folders in which a name
 * without a slash is looked for.
 */
static int preload(const char *library)
{
	const char *others = getenv("LD_PRELOAD");
	const char *slash = strrchr(library, '/');
	const char *name = strchr(library, ' ') ? slash + 1 : library;

	if (strpbrk(library, ":;") || strchr(slash, ' ')) {
		complain("%s: the loader cannot preload a path with a colon or a "
			 "semicolon in it, or a file with a space in its name",
			 library);
		return STATUS_NO_LIBRARY;
	}
	if (others && is_in_front(others, name))
		return 0;
	if (name != library)
		search_folder_of(library, slash);
	put_in_front("LD_PRELOAD", name);
	return 0;
}

/* 0 if the command may be executed, else the exit status. */
static int examine(const struct request *request, const char *library)
{
	int status = 0;
	/* There is one, as option_refused() never returns 0: NOLINTNEXTLINE(*NullDereference) */
	char *path = program_find(request->command[0], &status);

	if (!path)
		return status;
	status = program_examine(path, library);
	free(path);
	if (status != STATUS_CANNOT_RUN)
		return status;
	if (request->force)
		return 0;
	return status;
}

static int run(int argc, char **argv)
{
	struct request request = { 0 };
	char *library;
	int status;

	status = parse(argc, argv, &request);
	if (status)
		return status;
	if (request.help) {
		print_run_help(stdout);
		return 0;
	}
	library = library_find(request.hardened);
	if (!library)
		return STATUS_NO_LIBRARY;
	status = examine(&request, library);
	if (!status)
		status = preload(library);
	free(library);
	if (status)
		return status;
	execvp(request.command[0], request.command);
	status = errno == ENOENT ? STATUS_NOT_FOUND : STATUS_CANNOT_RUN;
	complain("%s: %s", request.command[0], strerror(errno));
	return status;
}

const struct command cmd_run = {
	.name = "run",
	.summary = "runs a program with libslub as its malloc",
	.print_help = print_run_help,
	.main = run,
};
