/* SPDX-License-Identifier: MIT */
/* slub options: every option of the library, and what it is in a process. */
#include "input.h"
#include "refused.h"
#include "request.h"
#include "settings.h"
#include "state.h"
#include "view.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { OPTION_ALL = REQUEST_FIRST_OWN };

static void print_options_help(FILE *to)
{
	fputs("usage: slub options [OPTION...] [TARGET]\n\n"
	      "Prints the library's options: the value in force, where it came\n"
	      "from, what it may be, and what it does.  Without a process: what\n"
	      "there is, with the defaults.\n\n"
	      "  slub options --all 1234\n\n"
	      "      --all             those for experts too, which a mode sets, or\n"
	      "                        few programs need; JSON has them always\n", to);
	request_print_help(to, false);
}

struct origin_search {
	char *environment;		/* NUL after each; NULL: unknown */
	size_t bytes;
};

static void read_environment(struct origin_search *search, uint32_t pid)
{
	size_t size = 1 << 20;
	char path[64];
	FILE *file;

	*search = (struct origin_search){ NULL, 0 };
	snprintf(path, sizeof(path), "/proc/%u/environ", pid);
	file = input_kernel(path);
	search->environment = file ? must_have(malloc(size + 1)) : NULL;
	if (search->environment) {
		search->bytes = fread(search->environment, 1, size, file);
		search->environment[search->bytes] = '\0';
	}
	if (file)
		fclose(file);
}

/* Is NAME= in the environment that the process started with? */
static bool has_variable(const struct origin_search *search, const char *name)
{
	size_t length = strlen(name), at = 0;

	while (at < search->bytes) {
		const char *entry = search->environment + at;

		if (!strncmp(entry, name, length) && entry[length] == '=')
			return true;
		at += strlen(entry) + 1;
	}
	return false;
}

static void variable_name(const char *option, char *name, size_t size)
{
	snprintf(name, size, "SLUB_%s", option);
	for (char *c = name; *c; c++)
		*c = (char)toupper((unsigned char)*c);
}

static const char *origin(const struct origin_search *search,
			  const struct slub_abi_option *option, char *buf,
			  size_t size)
{
	if (option->given == SLUB_ABI_GIVEN_LATER)
		return "set later";
	if (!option->given)
		return "default";
	if (!search->environment)
		return "environment";
	variable_name(option->name, buf, size);
	if (has_variable(search, buf))
		return buf;
	return has_variable(search, "SLUB_OPTIONS") ? "SLUB_OPTIONS"
						     : "environment";
}

static bool is_number(const struct slub_abi_option *option)
{
	return option->kind == SLUB_ABI_OPTION_SIZE ||
	       option->kind == SLUB_ABI_OPTION_NUMBER;
}

static bool is_auto(const struct slub_abi_option *option)
{
	if (is_number(option))
		return option->value == SLUB_ABI_OPTION_AUTO;
	return option->kind == SLUB_ABI_OPTION_ENUM && !strcmp(option->text, "auto");
}

/* What the library, or the system, made of an `auto`. */
struct outcome {
	bool is_number;
	uint64_t bytes;			/* 0: no limit */
	char word[32];			/* "": not known */
};

/* "always [madvise] never": the word in brackets. */
static void read_huge(char *word, size_t size)
{
	FILE *file = input_kernel("/sys/kernel/mm/transparent_hugepage/enabled");
	char line[128] = "", *open;

	if (file && fgets(line, sizeof(line), file)) {
		open = strchr(line, '[');
		if (open)
			snprintf(word, size, "%.*s", (int)strcspn(open + 1, "]"), open + 1);
	}
	if (file)
		fclose(file);
}

static struct outcome outcome_of(const struct snapshot *now,
				 const struct slub_abi_option *option)
{
	struct outcome outcome = { false, 0, "" };
	const struct process *process = now->process;

	if (!is_auto(option) || !process)
		return outcome;
	if (!strcmp(option->name, "limit")) {
		outcome.is_number = state_limit(process, &now->abi, &outcome.bytes);
		if (outcome.bytes == UINT64_MAX)
			outcome.bytes = 0;
	} else if (!strcmp(option->name, "fastpath")) {
		snprintf(outcome.word, sizeof(outcome.word), "%s",
			 state_backend(&now->abi));
	} else if (!strcmp(option->name, "huge") && !process->core) {
		read_huge(outcome.word, sizeof(outcome.word));
	}
	return outcome;
}

#define VALUE_TEXT 64

/* "auto=448.0M", or "auto" where the outcome is not known. */
static const char *auto_text(const struct outcome *outcome, char buf[VALUE_TEXT])
{
	char size[SIZE_TEXT];

	if (outcome->is_number)
		snprintf(buf, VALUE_TEXT, "auto=%s",
			 outcome->bytes ? size_text(size, outcome->bytes, false) : "any");
	else
		snprintf(buf, VALUE_TEXT, "auto%s%s", *outcome->word ? "=" : "",
			 outcome->word);
	return buf;
}

static const char *value_text(const struct snapshot *now,
			      const struct slub_abi_option *option, char buf[VALUE_TEXT])
{
	struct outcome outcome = outcome_of(now, option);

	if (is_auto(option))
		return auto_text(&outcome, buf);
	if (is_number(option))
		return size_text(buf, option->value,
				 option->kind == SLUB_ABI_OPTION_NUMBER);
	if (option->kind == SLUB_ABI_OPTION_TEXT && !option->given)
		return "-";
	return option->text;
}

static void print_refused(const struct refused *refused)
{
	if (refused->error)
		printf("\nrefused: unknown: %s\n", strerror(-refused->error));
	for (size_t i = 0; !refused->error && i < refused->nr; i++)
		printf("%srefused: %s: %s\n", i ? "" : "\n", refused->ones[i].setting,
		       refused->ones[i].why);
}

static void print_text(const struct snapshot *now,
		       const struct origin_search *search, bool all)
{
	printf("%-14s %-12s %-18s %-28s %s\n", "OPTION", "VALUE", "ORIGIN",
	       "RANGE", "MEANING");
	for (size_t i = 0; i < now->nr_options; i++) {
		const struct slub_abi_option *option = &now->options[i];
		char value[VALUE_TEXT], from[64], range[96];

		if (!all && !option->given && setting_is_for_experts(option->name))
			continue;
		printf("%-14s %-12s %-18s %-28s %s\n", option->name,
		       value_text(now, option, value),
		       origin(search, option, from, sizeof(from)),
		       setting_range(option->name, range, sizeof(range)),
		       setting_sentence(option->name));
	}
}

static void put_outcome(struct json *json, const struct outcome *outcome)
{
	if (outcome->is_number)
		json_number(json, "in_force", outcome->bytes);
	else if (*outcome->word)
		json_string(json, "in_force", outcome->word);
}

static void print_json(const struct snapshot *now,
		       const struct origin_search *search, const struct refused *refused)
{
	struct json json = { .to = stdout };

	json_open_snapshot(&json, now, "options");
	json_open_array(&json, "options");
	for (size_t i = 0; i < now->nr_options; i++) {
		const struct slub_abi_option *option = &now->options[i];
		struct outcome outcome = outcome_of(now, option);
		char from[64], range[96];

		json_open(&json, NULL);
		json_string(&json, "name", option->name);
		if (is_number(option) && option->value != SLUB_ABI_OPTION_AUTO)
			json_number(&json, "value", option->value);
		else if (option->kind == SLUB_ABI_OPTION_TEXT &&
			 !option->given)
			json_null(&json, "value");
		else
			json_string(&json, "value", is_number(option) ?
				    "auto" : option->text);
		put_outcome(&json, &outcome);
		json_string(&json, "origin",
			    origin(search, option, from, sizeof(from)));
		json_string(&json, "range",
			    setting_range(option->name, range,
					  sizeof(range)));
		json_string(&json, "meaning", setting_sentence(option->name));
		json_close(&json);
	}
	json_close(&json);
	if (refused)
		refused_json(&json, refused);
	json_close(&json);
}

static void print(struct snapshot *now, const struct snapshot *before,
		  const struct request *request, void *arg)
{
	/* A core's or file's PID may be somebody else's by now. */
	bool lives = now->process && !now->process->core;
	struct origin_search search = { NULL, 0 };
	struct refused refused = { .nr = 0 };
	const bool *all = arg;

	(void)before;
	if (lives) {
		read_environment(&search, now->pid);
		refused_of_process(&refused, (pid_t)now->pid);
	}
	if (request->format == FORMAT_JSON) {
		print_json(now, &search, lives ? &refused : NULL);
	} else {
		print_text(now, &search, *all);
		print_refused(&refused);
	}
	refused_free(&refused);
	free(search.environment);
}

static int options_main(int argc, char **argv)
{
	bool all = false;
	const struct own_option own[] = {
		{ "all", OPTION_ALL, .on = &all },
	};
	struct request request;
	int status;

	request_init(&request, "options");
	status = request_parse(&request, argc, argv, own, 1, NULL);
	if (status)
		return status;
	if (request.help) {
		print_options_help(stdout);
		return 0;
	}
	if (request.format == FORMAT_OPENMETRICS) {
		complain("options: options are no metrics; use --json");
		return STATUS_USAGE;
	}
	if (!request.target && optind == argc &&
	    request.format == FORMAT_TEXT) {
		settings_print_variables(stdout, all);
		return 0;
	}
	status = request_check(&request, argc, argv, 0);
	return status ? status : request_run(&request, print, &all);
}

const struct command cmd_options = {
	.name = "options",
	.summary = "prints the library's options and their values",
	.print_help = print_options_help,
	.main = options_main,
};
