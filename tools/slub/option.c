/* SPDX-License-Identifier: MIT */
/* Explains options that getopt_long() refused. */
#include "slub.h"

#include <string.h>

#define NR_OPTIONS_MAX 64

static const char *nearest_option(const char *word,
				  const struct option *options)
{
	const char *names[NR_OPTIONS_MAX];
	size_t nr = 0;

	while (options[nr].name && nr < NR_OPTIONS_MAX) {
		names[nr] = options[nr].name;
		nr++;
	}
	return nearest_word(word, names, nr);
}

static void complain_long(const char *text, const struct option *options)
{
	const char *word = text + 2, *near;
	size_t length = strcspn(word, "=");
	char name[64];
	int starts = 0;

	for (const struct option *option = options; option->name; option++) {
		if (strlen(option->name) == length &&
		    !strncmp(option->name, word, length)) {
			complain("option '--%s' takes no value", option->name);
			return;
		}
		starts += !strncmp(option->name, word, length);
	}
	if (starts > 1) {
		complain("option '%s' is ambiguous: spell it out", text);
		return;
	}
	if (length >= sizeof(name)) {
		complain("unknown option '%s'", text);
		return;
	}
	memcpy(name, word, length);
	name[length] = '\0';
	near = nearest_option(name, options);
	if (near)
		complain("unknown option '--%s'; did you mean '--%s'?", name, near);
	else
		complain("unknown option '--%s'; `--help` lists all", name);
}

int option_refused(int refusal, char **argv, const struct option *options)
{
	const char *text = argv[optind - 1];

	if (refusal == ':')
		complain("option '%s' needs a value", text);
	else if (!strncmp(text, "--", 2))
		complain_long(text, options);
	else
		complain("unknown option '-%c'; `--help` lists all", optopt);
	return STATUS_USAGE;
}
