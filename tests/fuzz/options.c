/* SPDX-License-Identifier: MIT */
/*
 * What a user can write into SLUB_* variables.  The input is lines, each a variable without its
 * SLUB_: whatever they say, values stay in their bounds and messages are printable lines.  `slub
 * run` checks the same options by code of its own (tools/slub/settings.c): what it takes the
 * library takes without a word, and where no file is named the other way round.  The whole input
 * is a setting for SLUB_DEBUG and SLUB_PRESSURE besides.
 */
#include "fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/base/option.h"
#include "features/debug/debug.h"
#include "features/reclaim/reclaim.h"
#include "../../tools/slub/settings.h"

/* The command's files end by this name, for the readers (targets.cmake). */
void reader_exit(int status) __attribute__((noreturn));
void reader_exit(int status)
{
	_exit(status);
}

enum { LINES_MAX = 64, TEXT_MAX = 4096, TOLD_MAX = 1 << 16 };

struct row {
	const char *name;
	size_t min, max;
	unsigned int choices;
	bool is_text, is_words, is_auto;
};

static unsigned int count_choices(const char *choices)
{
	unsigned int nr = 1;

	for (; *choices; choices++)
		nr += *choices == '|';
	return nr;
}

#define ROW_MAX 64
static struct row rows[ROW_MAX];
static int nr_rows;

static void read_rows(void)
{
	const struct row all[] = {
#define OPTION_ENUM(name, value, list, sentence)			\
		{ #name, 0, 0, count_choices(list), false, false, false },
#define OPTION_SIZE(name, value, least, most, sentence)			\
		{ #name, least, most, 0, false, false, false },
#define OPTION_AUTO(name, value, least, most, sentence)			\
		{ #name, least, most, 0, false, false, true },
#define OPTION_NUMBER(name, value, least, most, sentence)		\
		{ #name, least, most, 0, false, false, false },
#define OPTION_TEXT(name, sentence) { #name, 0, 0, 0, true, false, false },
#define OPTION_WORDS(name, form, sentence) { #name, 0, 0, 0, true, true, false },
#include "core/base/option.def"
	};

	nr_rows = sizeof(all) / sizeof(all[0]);
	expect(nr_rows == OPTION_NR && nr_rows <= ROW_MAX);
	memcpy(rows, all, sizeof(all));
}

/* ---- what is written to stderr ---- */

static int told_fd = -1, stderr_fd = -1;
static char told[TOLD_MAX + 1];

static void listen(void)
{
	if (told_fd < 0)
		told_fd = memfd_create("told", MFD_CLOEXEC);
	expect(!ftruncate(told_fd, 0) && !lseek(told_fd, 0, SEEK_SET));
	stderr_fd = dup(2);
	dup2(told_fd, 2);
}

/* What was told meanwhile: lines that a terminal may have. */
static const char *heard(void)
{
	ssize_t n;

	dup2(stderr_fd, 2);
	close(stderr_fd);
	n = pread(told_fd, told, TOLD_MAX, 0);
	expect(n >= 0);
	told[n] = '\0';
	expect(strlen(told) == (size_t)n);
	for (const char *line = told; *line; line = strchr(line, '\n') + 1) {
		expect(!strncmp(line, "slub", 4) && strchr(line, '\n'));
		for (const char *c = line; *c != '\n'; c++)
			expect((unsigned char)*c >= ' ' && *c != 0x7f);
	}
	return told;
}

/* ---- the library ---- */

static void read_quietly(char **environment)
{
	option_read(environment);
	log_enable(false);
	log_complain(false);
}

static void check_bounds(void)
{
	for (int i = 0; i < nr_rows; i++) {
		const struct row *row = &rows[i];
		size_t value = option_value((enum option_id)i);

		if (row->is_text)
			expect(!option_text((enum option_id)i) ||
			       strlen(option_text((enum option_id)i)) < 512);
		else if (row->choices)
			expect(value < row->choices);
		else
			expect(!value || (value >= row->min && value <= row->max) ||
			       (row->is_auto && value == OPTION_VALUE_AUTO));
	}
}

/* The names of files would be written to at the end. */
static void forget_texts(void)
{
	static char text[ROW_MAX][64];
	char *environment[ROW_MAX + 1] = { NULL };
	int nr = 0;

	for (int i = 0; i < nr_rows; i++) {
		if (!rows[i].is_text)
			continue;
		snprintf(text[nr], sizeof(text[nr]), "SLUB_%s=", rows[i].name);
		environment[nr] = text[nr];
		for (char *c = text[nr++]; *c; c++)
			*c = *c >= 'a' && *c <= 'z' ? *c - 'a' + 'A' : *c;
	}
	read_quietly(environment);
}

static void try_environment(const char *text)
{
	static char variables[LINES_MAX][TEXT_MAX + 8];
	char *environment[LINES_MAX + 2] = { "SLUB_VERBOSE=1" };
	int nr = 1;

	while (*text && nr <= LINES_MAX) {
		size_t length = strcspn(text, "\n");

		snprintf(variables[nr - 1], sizeof(variables[0]), "SLUB_%.*s", (int)length, text);
		environment[nr] = variables[nr - 1];
		nr++;
		text += length + (text[length] == '\n');
	}
	environment[nr] = NULL;
	listen();
	read_quietly(environment);
	heard();
	check_bounds();
	forget_texts();
}

/* ---- the library and the command ---- */

static bool command_takes(int setting, const char *value)
{
	bool takes;

	listen();
	takes = setting_apply((enum setting)setting, value);
	expect(takes == !*heard());
	return takes;
}

static bool library_takes(int setting, const char *value)
{
	static char variable[TEXT_MAX + 64];
	char *environment[] = { "SLUB_VERBOSE=1", variable, NULL };

	snprintf(variable, sizeof(variable), "SLUB_%s=%s", rows[setting].name, value);
	for (char *c = variable; *c != '='; c++)
		*c = *c >= 'a' && *c <= 'z' ? *c - 'a' + 'A' : *c;
	listen();
	read_quietly(environment);
	return !*heard();
}

static void compare(const char *text)
{
	char line[TEXT_MAX + 1], *value;

	snprintf(line, sizeof(line), "%.*s", (int)strcspn(text, "\n"), text);
	value = strchr(line, '=');
	if (!value)
		return;
	*value++ = '\0';
	for (int i = 0; i < nr_rows; i++) {
		bool command, library;

		if (strcmp(line, rows[i].name) || rows[i].is_words)
			continue;
		command = command_takes(i, value);
		library = library_takes(i, value);
		if (command && !library)
			broken("`slub run` takes %s=%s, and the library does not", line, value);
		/* A wrong SLUB_VERBOSE is told nobody. */
		if (library && !command && *value && !rows[i].is_text && strcmp(line, "verbose"))
			broken("the library takes %s=%s, and `slub run` does not", line, value);
	}
	forget_texts();
}

static void try_debug(const char *text)
{
	uint32_t flags = 0, named = 0;
	char letters[8];
	bool is_named = debug_letters_named(text, "malloc-64", &named);
	bool takes = command_takes(SETTING_debug, text);

	/* A lone "--" is what `slub run --debug -- COMMAND` says. */
	expect(takes == debug_letters_valid(text) || !strcmp(text, "--") || !*text ||
	       strlen(text) > 511);
	flags = debug_letters_for(text, "malloc-64", 0x80000000);
	expect(!is_named || flags == named);
	expect(strlen(debug_letters_text(flags, letters)) < sizeof(letters));
	log_enable(true);
	log_complain(true);
	listen();
	debug_letters_complain(text);
	expect(!*heard() == debug_letters_valid(text));
	log_enable(false);
	log_complain(false);
}

static void try_pressure(const char *text)
{
	bool library, command = command_takes(SETTING_pressure, text);

	log_enable(true);
	log_complain(true);
	listen();
	library = pressure_configure(text);
	expect(library == !*heard());
	log_enable(false);
	log_complain(false);
	expect(library == command || !*text || strlen(text) > 511);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char text[TEXT_MAX + 1];

	if (size > TEXT_MAX)
		return -1;
	if (!nr_rows)
		read_rows();
	memcpy(text, data, size);
	text[size] = '\0';
	try_environment(text);
	compare(text);
	try_debug(text);
	try_pressure(text);
	return 0;
}
