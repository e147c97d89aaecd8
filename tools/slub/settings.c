/* SPDX-License-Identifier: MIT */
/* The library's options as options of `slub run`. */
#include "settings.h"
#include "core/base/size.h"
#include "slub.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The longest text that the library keeps. */
#define TEXT_LENGTH_MAX 511

enum kind {
	KIND_ENUM, KIND_SIZE, KIND_AUTO, KIND_NUMBER, KIND_TEXT, KIND_WORDS
};

struct row {
	const char *name;
	enum kind kind;
	const char *choices;		/* of a KIND_ENUM: "first|second"; of KIND_WORDS the form */
	size_t value;			/* the default */
	size_t min;			/* of sizes and numbers */
	size_t max;
	const char *sentence;
};

static const struct row rows[NR_SETTINGS] = {
#define OPTION_ENUM(name, value, choices, sentence) \
	{ #name, KIND_ENUM, choices, value, 0, 0, sentence },
#define OPTION_SIZE(name, value, min, max, sentence) \
	{ #name, KIND_SIZE, "", value, min, max, sentence },
#define OPTION_AUTO(name, value, min, max, sentence) \
	{ #name, KIND_AUTO, "", value, min, max, sentence },
#define OPTION_NUMBER(name, value, min, max, sentence) \
	{ #name, KIND_NUMBER, "", value, min, max, sentence },
#define OPTION_TEXT(name, sentence) \
	{ #name, KIND_TEXT, "", 0, 0, 0, sentence },
#define OPTION_WORDS(name, form, sentence) \
	{ #name, KIND_WORDS, form, 0, 0, 0, sentence },
#include "core/base/option.def"
};

/* Was an option, and what does the same now. */
static const struct {
	const char *name;
	const char *instead;
} gone[] = {
#define OPTION_GONE(name, instead) { #name, instead },
#include "core/base/option.def"
};

#define NR_GONE (NR_KNOWN_SETTINGS - NR_SETTINGS)

/* A switch may be given without its value: --verbose is --verbose=1. */
static bool is_switch(const struct row *row)
{
	return row->kind == KIND_ENUM && !strcmp(row->choices, "0|1");
}

void settings_options(struct option *options, int first)
{
	for (int i = 0; i < NR_SETTINGS; i++)
		options[i] = (struct option) {
			.name = rows[i].name,
			.has_arg = is_switch(&rows[i]) ? optional_argument
						       : required_argument,
			.val = first + i,
		};
	for (int i = 0; i < NR_GONE; i++)
		options[NR_SETTINGS + i] = (struct option) {
			gone[i].name, optional_argument, NULL, first + NR_SETTINGS + i
		};
}

static void variable_of(const char *name, char *variable, size_t size)
{
	snprintf(variable, size, "SLUB_%s", name);
	for (char *c = variable; *c; c++)
		*c = (char)toupper((unsigned char)*c);
}

static bool is_choice(const char *choices, const char *value)
{
	size_t length = strlen(value);

	while (*choices) {
		size_t choice_length = strcspn(choices, "|");

		if (choice_length == length &&
		    !strncasecmp(choices, value, length))
			return true;
		choices += choice_length;
		choices += *choices == '|';
	}
	return false;
}

static void print_choices(FILE *to, const char *choices)
{
	for (; *choices; choices++) {
		if (*choices == '|')
			fputs(", ", to);
		else
			fputc(*choices, to);
	}
}

static bool check_choice(const struct row *row, const char *value, char why[SETTING_WHY])
{
	FILE *to;

	if (is_choice(row->choices, value))
		return true;
	to = fmemopen(why, SETTING_WHY, "w");
	if (to) {
		fputs("not one of ", to);
		print_choices(to, row->choices);
		fclose(to);
	}
	return false;
}

/* 12345678 as "12345678", 8388608 as "8M". */
static const char *value_text(const struct row *row, size_t bytes, char *text,
			      size_t text_size)
{
	static const char units[] = " KMGT";
	int unit = 0;

	while (row->kind != KIND_NUMBER && bytes && bytes % 1024 == 0 && units[unit + 1]) {
		bytes /= 1024;
		unit++;
	}
	snprintf(text, text_size, unit ? "%zu%c" : "%zu", bytes, units[unit]);
	return text;
}

/* "8M to 64T", from 0 on if that is next to the least. */
static const char *range_text(const struct row *row, const char *before_least,
			      char *text, size_t text_size)
{
	char min[32], max[32];

	snprintf(text, text_size, "%s%s to %s",
		 row->min > 1 ? before_least : "",
		 value_text(row, row->min > 1 ? row->min : 0, min, sizeof(min)),
		 value_text(row, row->max, max, sizeof(max)));
	return text;
}

/* Zero is every size option's way to say "none" or "choose yourself". */
static bool check_size(const struct row *row, const char *value, char why[SETTING_WHY])
{
	const char *zero = row->min > 1 ? " 0, or" : "";
	char range[96];
	size_t bytes;

	if (row->kind == KIND_AUTO && !strcasecmp(value, "auto"))
		return true;
	if (size_parse(value, strlen(value), row->kind != KIND_NUMBER, &bytes) &&
	    (!bytes || (bytes >= row->min && bytes <= row->max)))
		return true;
	range_text(row, "", range, sizeof(range));
	if (row->kind == KIND_NUMBER)
		snprintf(why, SETTING_WHY, "not%s a number from %s", zero, range);
	else
		snprintf(why, SETTING_WHY, "not%s%s a number of bytes from %s, such "
			 "as 64M or 64MiB (units K, M, G and T)",
			 row->kind == KIND_AUTO ? " 'auto'," : "", zero, range);
	return false;
}

/*
 * The file is written when the program ends, which may be in another folder
 * than the one that it was started in: so its path is made absolute.
 */
static char *absolute_path(const char *name)
{
	char folder[PATH_MAX];

	if (name[0] == '/' || !strcmp(name, "stderr") || !getcwd(folder, sizeof(folder)))
		return must_have(strdup(name));
	return text_of("%s/%s", folder, name);
}

/*
 * The library says nothing unless it is asked to, and much later; here somebody
 * reads it.  Of a folder that depends on the PID nothing is known yet.
 */
static bool check_path(const struct row *row, const char *path)
{
	const char *slash = strrchr(path, '/');
	char folder[TEXT_LENGTH_MAX + 1];

	if (strlen(path) > TEXT_LENGTH_MAX) {
		complain("--%s: a name of more than %d bytes: %.60s...",
			 row->name, TEXT_LENGTH_MAX, path);
		return false;
	}
	if (!slash || slash == path)
		return true;
	snprintf(folder, sizeof(folder), "%.*s", (int)(slash - path), path);
	if (strchr(folder, '%') || !access(folder, F_OK) || errno != ENOENT)
		return true;
	complain("--%s=%s: no folder %s", row->name, path, folder);
	return false;
}

static bool put_text(const struct row *row, const char *variable,
		     const char *value)
{
	char *path;
	bool is_good;

	if (!value[0]) {
		complain("--%s: needs the name of a file, or \"stderr\"",
			 row->name);
		return false;
	}
	path = absolute_path(value);
	is_good = check_path(row, path);
	if (is_good)
		setenv(variable, path, 1);
	free(path);
	return is_good;
}

/* Letters, up to the first comma of each block: "FZ,dentry;P". */
static bool check_debug(const char *value, char why[SETTING_WHY])
{
	for (const char *block = value;; block++) {
		size_t letters = strspn(block, "FZPUTAO-fzputao");

		block += letters;
		if (*block && *block != ',' && *block != ';') {
			snprintf(why, SETTING_WHY, "'%c' is not one of the letters "
				 "F Z P U T A O -", *block);
			return false;
		}
		block += strcspn(block, ";");
		if (!*block)
			return true;
	}
}

/* As in the library (src/features/pressure/pressure.c). */
static bool is_microseconds(const char *digits, size_t length)
{
	size_t nr = strspn(digits, "0123456789");
	unsigned long number = strtoul(digits, NULL, 10);

	return nr && nr == length && number >= 1 && number <= 10000000;
}

static bool is_trigger(const char *word, size_t length)
{
	static const char *const names[] = { "some=", "full=", "window=" };

	for (int i = 0; i < 3; i++) {
		size_t name = strlen(names[i]);

		if (length > name && !strncmp(word, names[i], name))
			return is_microseconds(word + name, length - name);
	}
	return false;
}

/* "thread", then triggers: "thread,some=150000,window=2000000". */
static bool check_pressure(const char *value, char why[SETTING_WHY])
{
	for (const char *word = value;; word++) {
		size_t length = strcspn(word, ",");

		if (!(length == 3 && !strncmp(word, "off", 3)) &&
		    !(length == 6 && !strncmp(word, "thread", 6)) &&
		    !is_trigger(word, length)) {
			snprintf(why, SETTING_WHY, "'%.*s' is not one of off, thread, "
				 "some=US, full=US, window=US, with US from 1 to "
				 "10000000", (int)(length < 40 ? length : 40), word);
			return false;
		}
		word += length;
		if (!*word)
			return true;
	}
}

bool setting_takes(enum setting setting, const char *value, char why[SETTING_WHY])
{
	const struct row *row = &rows[setting];

	why[0] = '\0';
	if (row->kind == KIND_ENUM)
		return check_choice(row, value, why);
	if (row->kind != KIND_TEXT && row->kind != KIND_WORDS)
		return check_size(row, value, why);
	/* The library ignores a longer one, whose beginning is another setting. */
	if (strlen(value) > TEXT_LENGTH_MAX) {
		snprintf(why, SETTING_WHY, "more than %d bytes, all that libslub takes",
			 TEXT_LENGTH_MAX);
		return false;
	}
	if (row->kind == KIND_TEXT)
		return true;
	return setting == SETTING_debug ? check_debug(value, why) : check_pressure(value, why);
}

/* As setting_takes(), with a message. */
static bool check_value(enum setting setting, const char *value)
{
	char why[SETTING_WHY];

	/* `slub run --debug -- COMMAND` has no letters, and not none of them. */
	if (rows[setting].kind == KIND_WORDS && !strcmp(value, "--")) {
		complain("--%s: needs a value: --%s=%s", rows[setting].name,
			 rows[setting].name, rows[setting].choices);
		return false;
	}
	if (setting_takes(setting, value, why))
		return true;
	if (strlen(value) > TEXT_LENGTH_MAX)
		complain("--%s: %s: %.60s...", rows[setting].name, why, value);
	else
		complain("--%s=%s: %s", rows[setting].name, value, why);
	return false;
}

bool setting_apply(enum setting setting, const char *value)
{
	const struct row *row;
	char variable[64];

	if (setting >= NR_SETTINGS) {
		complain("--%s is gone; use --%s", gone[setting - NR_SETTINGS].name,
			 gone[setting - NR_SETTINGS].instead);
		return false;
	}
	row = &rows[setting];
	variable_of(row->name, variable, sizeof(variable));
	if (!value)
		value = "1";
	if (row->kind == KIND_TEXT)
		return put_text(row, variable, value);
	if (!check_value(setting, value))
		return false;
	/* No letters are these (slub-debug(7)), but an empty variable is none. */
	setenv(variable, setting == SETTING_debug && !*value ? "FZPU" : value, 1);
	return true;
}

static const struct row *row_named(const char *name)
{
	for (int i = 0; i < NR_SETTINGS; i++) {
		if (!strcmp(rows[i].name, name))
			return &rows[i];
	}
	return NULL;
}

const char *setting_range(const char *name, char *buf, size_t size)
{
	const struct row *row = row_named(name);
	char range[96];

	buf[0] = '\0';
	if (!row)
		return buf;
	if (row->kind == KIND_ENUM)
		snprintf(buf, size, "%s", row->choices);
	else if (row->kind == KIND_TEXT)
		snprintf(buf, size, "FILE");
	else if (row->kind == KIND_WORDS)
		snprintf(buf, size, "%s", row->choices);
	else
		snprintf(buf, size, "%s%s",
			 row->kind == KIND_AUTO ? "auto, " : "",
			 range_text(row, "0, ", range, sizeof(range)));
	return buf;
}

const char *setting_sentence(const char *name)
{
	const struct row *row = row_named(name);

	return row ? row->sentence : "(unknown to this command)";
}

static void default_text(const struct row *row, char *buf, size_t size)
{
	const char *choice = row->choices;

	if (row->kind == KIND_TEXT || row->kind == KIND_WORDS) {
		snprintf(buf, size, "-");
	} else if (row->kind != KIND_ENUM) {
		value_text(row, row->value, buf, size);
	} else {
		for (size_t skip = row->value; skip && *choice; choice++)
			skip -= *choice == '|';
		snprintf(buf, size, "%.*s", (int)strcspn(choice, "|"), choice);
	}
}

void settings_print_variables(FILE *to, bool all)
{
	fprintf(to, "%-22s %-10s %-28s %s\n", "VARIABLE", "DEFAULT", "RANGE",
		"MEANING");
	for (int i = 0; i < (all ? FIRST_TEST_SETTING : FIRST_EXPERT_SETTING); i++) {
		char name[64], value[32], range[96];

		variable_of(rows[i].name, name, sizeof(name));
		default_text(&rows[i], value, sizeof(value));
		fprintf(to, "%-22s %-10s %-28s %s\n", name, value,
			setting_range(rows[i].name, range, sizeof(range)),
			rows[i].sentence);
	}
}

void settings_print(FILE *to)
{
	for (int i = 0; i < FIRST_EXPERT_SETTING; i++) {
		const struct row *row = &rows[i];
		bool has_words = row->kind == KIND_ENUM && !is_switch(row);
		char form[64];

		snprintf(form, sizeof(form), "--%s%s%s", row->name, is_switch(row) ? "" : "=",
			 is_switch(row) ? "" :
			 has_words ? row->choices :
			 row->kind == KIND_NUMBER ? "N" :
			 row->kind == KIND_TEXT ? "FILE" :
			 row->kind == KIND_WORDS ? row->choices : "BYTES");
		fprintf(to, "  %-31s %s\n", form, row->sentence);
	}
}

bool setting_is_for_experts(const char *name)
{
	for (int i = FIRST_EXPERT_SETTING; i < NR_SETTINGS; i++) {
		if (!strcmp(rows[i].name, name))
			return true;
	}
	return false;
}

/* ---- those that may change in a running process ---- */

static const enum setting changeable[] = {
#define OPTION_CHANGE(name, function) SETTING_##name,
#include "features/inspect/change.def"
};

#define NR_CHANGEABLE (sizeof(changeable) / sizeof(changeable[0]))

enum setting setting_named(const char *name, char why[SETTING_WHY])
{
	const char *names[NR_SETTINGS], *near;

	for (int i = 0; i < NR_SETTINGS; i++) {
		if (!strcasecmp(rows[i].name, name))
			return (enum setting)i;
		names[i] = rows[i].name;
	}
	for (int i = 0; i < NR_GONE; i++) {
		if (!strcasecmp(gone[i].name, name)) {
			snprintf(why, SETTING_WHY, "option '%s' is gone; use %s",
				 gone[i].name, gone[i].instead);
			return NR_SETTINGS;
		}
	}
	near = nearest_word(name, names, NR_SETTINGS);
	if (near)
		snprintf(why, SETTING_WHY, "there is no option '%.60s'; did you mean '%s'?",
			 name, near);
	else
		snprintf(why, SETTING_WHY, "there is no option '%.60s'; `slub options` lists "
			 "them", name);
	return NR_SETTINGS;
}

enum setting setting_find(const char *command, const char *name)
{
	char why[SETTING_WHY];
	enum setting setting = setting_named(name, why);

	if (setting == NR_SETTINGS)
		complain("%s: %s", command, why);
	return setting;
}

void settings_print_changeable(FILE *to, const char *indent)
{
	size_t column = 0;

	for (size_t i = 0; i < NR_CHANGEABLE; i++) {
		const char *name = rows[changeable[i]].name;

		if (!i || column + strlen(name) > 76) {
			fprintf(to, "%s%s", i ? ",\n" : "", indent);
			column = strlen(indent);
		} else {
			column += fprintf(to, ", ");
		}
		column += fprintf(to, "%s", name);
	}
}

static void complain_unchangeable(const char *command, const struct row *row)
{
	char *list = NULL;
	size_t length;
	FILE *to = must_have(open_memstream(&list, &length));

	settings_print_changeable(to, "");
	fclose(to);
	complain("%s: '%s' counts at the start of a process only; these may change: %s",
		 command, row->name, list);
	free(list);
}

bool setting_may_become(const char *command, enum setting setting, const char *value)
{
	const struct row *row = &rows[setting];

	for (size_t i = 0; i < NR_CHANGEABLE; i++) {
		if (changeable[i] == setting)
			return check_value(setting, value);
	}
	complain_unchangeable(command, row);
	return false;
}
