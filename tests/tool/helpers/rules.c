/* SPDX-License-Identifier: MIT */
/*
 * settings.c: which value of each kind of option is taken, and what is said of one that is not;
 * names, ranges and lists; and what comes into the environment.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "in_use.h"
#include "said.h"
#include "settings.h"
#include "slub.h"

#define LONGEST 511

static struct said out, said;
static char why[SETTING_WHY];

static void expect_value(int line, enum setting setting, const char *value, const char *expected)
{
	memset(why, 'x', sizeof(why));
	expect_at(line, value, setting_takes(setting, value, why), !*expected);
	expect_text(line, why, expected);
}

#define EXPECT_TAKEN(name, value)    expect_value(__LINE__, SETTING_##name, value, "")
#define EXPECT_WRONG(name, value, w) expect_value(__LINE__, SETTING_##name, value, w)

static void test_choices(void)
{
	static const char not_one[] = "not one of never, block, always, auto";

	EXPECT_TAKEN(huge, "never");
	EXPECT_TAKEN(huge, "block");
	EXPECT_TAKEN(huge, "auto");
	EXPECT_TAKEN(huge, "ALWAYS");
	EXPECT_WRONG(huge, "neve", not_one);
	EXPECT_WRONG(huge, "nevers", not_one);
	EXPECT_WRONG(huge, "never|block", not_one);
	EXPECT_WRONG(huge, "", not_one);
	EXPECT_TAKEN(verbose, "1");
	EXPECT_TAKEN(verbose, "0");
	EXPECT_WRONG(verbose, "2", "not one of 0, 1");
}

#define UNITS ", such as 64M or 64MiB (units K, M, G and T)"

static void test_sizes(void)
{
	static const char of_limit[] = "not 'auto', 0, or a number of bytes from 1M to 64T" UNITS,
		of_retain[] = "not a number of bytes from 0 to 64T" UNITS,
		of_guard[] = "not a number from 0 to 1099511627776",
		of_places[] = "not 0, or a number from 16 to 16384",
		of_space[] = "not 0, or a number of bytes from 8M to 64T" UNITS;

	EXPECT_TAKEN(limit, "auto");
	EXPECT_TAKEN(limit, "AUTO");
	EXPECT_TAKEN(limit, "0");
	EXPECT_TAKEN(limit, "1M");
	EXPECT_TAKEN(limit, "1048577");
	EXPECT_TAKEN(limit, "64TiB");
	EXPECT_WRONG(limit, "1048575", of_limit);
	EXPECT_WRONG(limit, "70368744177665", of_limit);
	EXPECT_WRONG(limit, "512Mx", of_limit);
	EXPECT_WRONG(limit, "", of_limit);
	EXPECT_WRONG(limit, "automatic", of_limit);
	EXPECT_TAKEN(retain, "0");
	EXPECT_TAKEN(retain, "1");
	EXPECT_WRONG(retain, "auto", of_retain);
	EXPECT_WRONG(retain, "65T", of_retain);
	EXPECT_TAKEN(guard, "1");
	EXPECT_TAKEN(guard, "1K");
	EXPECT_WRONG(guard, "1KB", of_guard);
	EXPECT_WRONG(guard, "2T", of_guard);
	EXPECT_TAKEN(guard_places, "0");
	EXPECT_TAKEN(guard_places, "16");
	EXPECT_TAKEN(guard_places, "16384");
	EXPECT_WRONG(guard_places, "15", of_places);
	EXPECT_WRONG(guard_places, "16385", of_places);
	EXPECT_TAKEN(address_space, "8M");
	EXPECT_WRONG(address_space, "1", of_space);
}

static void test_words(void)
{
	static const char *const good[] = { "F", "FZPUTAO-", "fzputao", "", "-", "F,a,b", "FZ,a;P",
					    ";", "F;;Z,x" },
		*const triggers[] = { "off", "thread", "thread,some=1", "some=10000000",
				      "full=150000,window=2", "off,thread" },
		*const wrong[] = { "on", "offf", "threads", "some=", "some=0", "some=10000001",
				   "some=1x", "some=-1", "none=1", "", "some" };
	char text[LONGEST + 2], expected[256];

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		EXPECT_TAKEN(debug, good[i]);
	EXPECT_WRONG(debug, "FX", "'X' is not one of the letters F Z P U T A O -");
	EXPECT_WRONG(debug, "F,a;Q,b", "'Q' is not one of the letters F Z P U T A O -");
	EXPECT_WRONG(debug, "F a", "' ' is not one of the letters F Z P U T A O -");
	for (size_t i = 0; i < sizeof(triggers) / sizeof(triggers[0]); i++)
		EXPECT_TAKEN(pressure, triggers[i]);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		snprintf(expected, sizeof(expected), "'%s' is not one of off, thread, some=US, "
			 "full=US, window=US, with US from 1 to 10000000", wrong[i]);
		EXPECT_WRONG(pressure, wrong[i], expected);
		snprintf(text, sizeof(text), "thread,%s", wrong[i]);
		EXPECT_WRONG(pressure, text, expected);
	}
	/* Of a long one no more than 40 letters are said. */
	memset(text, 'q', 50);
	text[50] = '\0';
	snprintf(expected, sizeof(expected), "'%.40s' is not one of off, thread, some=US, full=US, "
		 "window=US, with US from 1 to 10000000", text);
	EXPECT_WRONG(pressure, text, expected);
	memset(text, 'F', sizeof(text) - 1);
	text[LONGEST + 1] = '\0';
	EXPECT_WRONG(debug, text, "more than 511 bytes, all that libslub takes");
	EXPECT_WRONG(stats_file, text, "more than 511 bytes, all that libslub takes");
	text[LONGEST] = '\0';
	EXPECT_TAKEN(debug, text);
	EXPECT_TAKEN(stats_file, text);
}

/* ---- what is applied ---- */

static void expect_applied(int line, int setting, const char *value, const char *variable,
			   const char *text)
{
	bool done;

	unsetenv(variable);
	said_begin(&said, 2);
	done = setting_apply((enum setting)setting, value);
	said_end(&said);
	expect_at(line, variable, done, true);
	expect_text(line, said.text, "");
	expect_text(line, getenv(variable) ? getenv(variable) : "none", text);
	unsetenv(variable);
}

#define EXPECT_APPLIED(setting, value, variable, text) \
	expect_applied(__LINE__, setting, value, variable, text)

static void expect_not(int line, int setting, const char *value, const char *variable,
		       const char *message)
{
	bool done;

	said_begin(&said, 2);
	done = setting_apply((enum setting)setting, value);
	said_end(&said);
	expect_at(line, variable, done, false);
	expect_text(line, said.text, message);
	expect_at(line, variable, getenv(variable) != NULL, false);
}

#define EXPECT_NOT(setting, value, variable, message) \
	expect_not(__LINE__, setting, value, variable, message)

static void test_applied(void)
{
	EXPECT_APPLIED(SETTING_verbose, NULL, "SLUB_VERBOSE", "1");
	EXPECT_APPLIED(SETTING_verbose, "0", "SLUB_VERBOSE", "0");
	EXPECT_APPLIED(SETTING_on_error, "ignore", "SLUB_ON_ERROR", "ignore");
	EXPECT_APPLIED(SETTING_debug, "", "SLUB_DEBUG", "FZPU");
	EXPECT_APPLIED(SETTING_debug, "F", "SLUB_DEBUG", "F");
	EXPECT_APPLIED(SETTING_limit, "64M", "SLUB_LIMIT", "64M");
	EXPECT_NOT(SETTING_huge, "x", "SLUB_HUGE",
		   "slub: --huge=x: not one of never, block, always, auto\n");
	EXPECT_NOT(SETTING_pressure, "", "SLUB_PRESSURE",
		   "slub: --pressure=: '' is not one of off, thread, some=US, full=US, window=US, "
		   "with US from 1 to 10000000\n");
	EXPECT_NOT(SETTING_debug, "--", "SLUB_DEBUG",
		   "slub: --debug: needs a value: --debug=LETTERS,CACHE...\n");
	EXPECT_NOT(GONE_reserve, "1", "SLUB_RESERVE",
		   "slub: --reserve is gone; use --address_space\n");
	EXPECT_NOT(GONE_zero_on_free, NULL, "SLUB_ZERO_ON_FREE",
		   "slub: --zero_on_free is gone; use --free_fill=1G\n");
}

static void test_files(void)
{
	char folder[] = "/tmp/rules-XXXXXX", text[1024], long_name[600], expected[2048];
	char *before = getcwd(NULL, 0);

	EXPECT(mkdtemp(folder) != NULL, true);
	EXPECT(chdir(folder), 0);
	snprintf(text, sizeof(text), "%s/a", folder);
	EXPECT_APPLIED(SETTING_stats_file, "a", "SLUB_STATS_FILE", text);
	EXPECT_APPLIED(SETTING_stats_file, text, "SLUB_STATS_FILE", text);
	EXPECT_APPLIED(SETTING_debug_report, "stderr", "SLUB_DEBUG_REPORT", "stderr");
	EXPECT_APPLIED(SETTING_stats_file, "/a", "SLUB_STATS_FILE", "/a");
	/* Of a folder that depends on the PID nothing is known. */
	snprintf(text, sizeof(text), "%s/%%p/a", folder);
	EXPECT_APPLIED(SETTING_stats_file, "%p/a", "SLUB_STATS_FILE", text);
	EXPECT_APPLIED(SETTING_stats_file, "/dev/null/a", "SLUB_STATS_FILE", "/dev/null/a");
	snprintf(expected, sizeof(expected), "slub: --stats_file=%s/none/a: no folder %s/none\n",
		 folder, folder);
	EXPECT_NOT(SETTING_stats_file, "none/a", "SLUB_STATS_FILE", expected);
	EXPECT_NOT(SETTING_stats_file, "", "SLUB_STATS_FILE",
		   "slub: --stats_file: needs the name of a file, or \"stderr\"\n");
	memset(long_name, 'n', sizeof(long_name));
	long_name[0] = '/';
	long_name[LONGEST + 1] = '\0';
	snprintf(expected, sizeof(expected),
		 "slub: --stats_file: a name of more than 511 bytes: %.60s...\n", long_name);
	EXPECT_NOT(SETTING_stats_file, long_name, "SLUB_STATS_FILE", expected);
	long_name[LONGEST] = '\0';
	EXPECT_APPLIED(SETTING_stats_file, long_name, "SLUB_STATS_FILE", long_name);
	/* As long, with a folder that is not there. */
	long_name[200] = long_name[LONGEST - 2] = '/';
	snprintf(expected, sizeof(expected), "slub: --stats_file=%s: no folder %.*s\n", long_name,
		 LONGEST - 2, long_name);
	EXPECT_NOT(SETTING_stats_file, long_name, "SLUB_STATS_FILE", expected);
	memset(long_name, 'F', LONGEST + 1);
	snprintf(expected, sizeof(expected),
		 "slub: --debug: more than 511 bytes, all that libslub takes: %.60s...\n",
		 long_name);
	long_name[LONGEST + 1] = '\0';
	EXPECT_NOT(SETTING_debug, long_name, "SLUB_DEBUG", expected);
	EXPECT(chdir(before), 0);
	free(before);
	rmdir(folder);
}

/* ---- names ---- */

static void expect_named(int line, const char *name, int setting, const char *message)
{
	int found;

	said_begin(&said, 2);
	found = (int)setting_find("set", name);
	said_end(&said);
	expect_at(line, name, found, setting);
	expect_text(line, said.text, message);
}

#define EXPECT_NAMED(name, setting, message) expect_named(__LINE__, name, setting, message)

static void test_names(void)
{
	char buf[128];

	EXPECT_NAMED("verbose", SETTING_verbose, "");
	EXPECT_NAMED("LIMIT", SETTING_limit, "");
	EXPECT_NAMED("check_calls", SETTING_check_calls, "");
	EXPECT_NAMED("limt", NR_SETTINGS,
		     "slub: set: there is no option 'limt'; did you mean 'limit'?\n");
	EXPECT_NAMED("Reserve", NR_SETTINGS,
		     "slub: set: option 'reserve' is gone; use address_space\n");
	EXPECT_NAMED("zero_on_free", NR_SETTINGS,
		     "slub: set: option 'zero_on_free' is gone; use free_fill=1G\n");
	EXPECT_NAMED("q", NR_SETTINGS,
		     "slub: set: there is no option 'q'; `slub options` lists them\n");
	EXPECT(setting_is_for_experts("verbose"), false);
	EXPECT(setting_is_for_experts("pressure"), false);
	EXPECT(setting_is_for_experts("fastpath"), true);
	EXPECT(setting_is_for_experts("check_calls"), true);
	EXPECT(setting_is_for_experts("none"), false);
	EXPECT_TEXT(setting_sentence("mode"), "what to spare: both alike, memory, or time");
	EXPECT_TEXT(setting_sentence("none"), "(unknown to this command)");
	EXPECT_TEXT(setting_range("huge", buf, sizeof(buf)), "never|block|always|auto");
	EXPECT_TEXT(setting_range("limit", buf, sizeof(buf)), "auto, 0, 1M to 64T");
	EXPECT_TEXT(setting_range("retain", buf, sizeof(buf)), "0 to 64T");
	EXPECT_TEXT(setting_range("guard", buf, sizeof(buf)), "0 to 1099511627776");
	EXPECT_TEXT(setting_range("guard_places", buf, sizeof(buf)), "0, 16 to 16384");
	EXPECT_TEXT(setting_range("stats_file", buf, sizeof(buf)), "FILE");
	EXPECT_TEXT(setting_range("debug", buf, sizeof(buf)), "LETTERS,CACHE...");
	EXPECT_TEXT(setting_range("none", buf, sizeof(buf)), "");
}

/* The name of each option, in their order; those that are gone follow. */
static void test_options(void)
{
	static const char *const names[] = {
#define OPTION_ENUM(name, ...) #name,
#define OPTION_SIZE(name, ...) #name,
#define OPTION_TEXT(name, ...) #name,
#include "core/base/option.def"
#define OPTION_GONE(name, instead) #name,
#include "core/base/option.def"
	};
	struct option options[NR_KNOWN_SETTINGS + 1];

	memset(options, 0x55, sizeof(options));
	settings_options(options, 1000);
	EXPECT(sizeof(names) / sizeof(names[0]), NR_KNOWN_SETTINGS);
	for (int i = 0; i < NR_KNOWN_SETTINGS; i++) {
		bool is_optional = i >= NR_SETTINGS || i == SETTING_verbose || i == SETTING_merge ||
				   i == SETTING_check_calls;

		EXPECT_TEXT(options[i].name, names[i]);
		EXPECT(options[i].has_arg, is_optional ? optional_argument : required_argument);
		EXPECT(options[i].flag == NULL, true);
		EXPECT(options[i].val, 1000 + i);
	}
	EXPECT(options[NR_KNOWN_SETTINGS].has_arg, 0x55555555);
}

/* ---- lists ---- */

static int nr_lines(const char *text)
{
	int nr = 0;

	for (; *text; text++)
		nr += *text == '\n';
	return nr;
}

static const char *line_of(const char *text, const char *begin)
{
	static char line[256];
	const char *at = strstr(text, begin);

	snprintf(line, sizeof(line), "%.*s", at ? (int)strcspn(at, "\n") : 0, at ? at : "");
	return line;
}

static void test_lists(void)
{
	said_begin(&out, 1);
	settings_print_variables(stdout, false);
	said_end(&out);
	EXPECT(nr_lines(out.text), 1 + FIRST_EXPERT_SETTING);
	EXPECT_TEXT(line_of(out.text, "VARIABLE "),
		    "VARIABLE               DEFAULT    RANGE                        MEANING");
	EXPECT_TEXT(line_of(out.text, "SLUB_RETAIN "),
		    "SLUB_RETAIN            16M        0 to 64T                     free memory "
		    "that stays resident");
	EXPECT_TEXT(line_of(out.text, "SLUB_HUGE "),
		    "SLUB_HUGE              auto       never|block|always|auto      huge pages; "
		    "auto: as the system has it");
	EXPECT_TEXT(line_of(out.text, "SLUB_DEBUG "),
		    "SLUB_DEBUG             -          LETTERS,CACHE...             letters "
		    "FZPUTAO-, then ,names; slub-debug(7)");
	said_begin(&out, 1);
	settings_print_variables(stdout, true);
	said_end(&out);
	EXPECT(nr_lines(out.text), 1 + FIRST_TEST_SETTING);
	EXPECT(strncmp(line_of(out.text, "SLUB_GUARD_PLACES "),
		       "SLUB_GUARD_PLACES      4096       0, 16 to 16384 ", 49), 0);
	EXPECT(strncmp(line_of(out.text, "SLUB_QUARANTINE "),
		       "SLUB_QUARANTINE        2K         0 to 1M ", 42), 0);
	EXPECT(strncmp(line_of(out.text, "SLUB_FREE_FILL "),
		       "SLUB_FREE_FILL         128        0 to 1G ", 42), 0);
	said_begin(&out, 1);
	settings_print(stdout);
	said_end(&out);
	EXPECT(nr_lines(out.text), FIRST_EXPERT_SETTING);
	EXPECT_TEXT(line_of(out.text, "  --verbose"),
		    "  --verbose                       write messages to stderr");
	EXPECT_TEXT(line_of(out.text, "  --mode="),
		    "  --mode=balanced|compact|fast    what to spare: both alike, memory, or time");
	EXPECT(strncmp(line_of(out.text, "  --guard="), "  --guard=N         ", 20), 0);
	EXPECT(strncmp(line_of(out.text, "  --limit="), "  --limit=BYTES     ", 20), 0);
	EXPECT(strncmp(line_of(out.text, "  --stats_file="), "  --stats_file=FILE ", 20), 0);
	EXPECT(strncmp(line_of(out.text, "  --debug="), "  --debug=LETTERS,CACHE... ", 27), 0);
}

static void test_changeable(void)
{
	static const char message[] = "slub: set: 'huge' counts at the start of a process only; "
		"these may change: ";
	char list[1024];
	const char *end;

	said_begin(&out, 1);
	settings_print_changeable(stdout, "");
	said_end(&out);
	snprintf(list, sizeof(list), "%.1000s", out.text);
	EXPECT(strncmp(list, "verbose, retain, limit, ", 24), 0);
	/* As many as go into a line, each line behind the indent. */
	for (int indent = 0; indent < 75; indent += 5) {
		char spaces[80], joined[1024] = "";

		snprintf(spaces, sizeof(spaces), "%*s", indent, "");
		said_begin(&out, 1);
		settings_print_changeable(stdout, spaces);
		said_end(&out);
		for (const char *at = out.text; at; at = *end ? end + 1 : NULL) {
			end = at + strcspn(at, "\n");
			EXPECT(strncmp(at, spaces, (size_t)indent), 0);
			EXPECT(indent < 60 ? end - at <= 79 : true, true);
			/* The first one of the next line had no room here. */
			if (*end)
				EXPECT((end - at) + (long)strcspn(end + 1 + indent, ",\n") > 76,
				       true);
			snprintf(joined + strlen(joined), sizeof(joined) - strlen(joined), "%.*s%s",
				 (int)(end - at) - indent, at + indent, *end ? " " : "");
		}
		EXPECT_TEXT(joined, list);
	}
	said_begin(&said, 2);
	EXPECT(setting_may_become("set", SETTING_verbose, "1"), true);
	EXPECT(setting_may_become("set", SETTING_attach, "0"), true);
	said_end(&said);
	EXPECT_TEXT(said.text, "");
	said_begin(&said, 2);
	EXPECT(setting_may_become("set", SETTING_verbose, "2"), false);
	said_end(&said);
	EXPECT_TEXT(said.text, "slub: --verbose=2: not one of 0, 1\n");
	said_begin(&said, 2);
	EXPECT(setting_may_become("set", SETTING_huge, "auto"), false);
	said_end(&said);
	EXPECT(strncmp(said.text, message, strlen(message)), 0);
	EXPECT(strstr(said.text, list) != NULL, true);
}

static void test_all(void)
{
	test_choices();
	test_sizes();
	test_words();
	test_names();
	test_options();
	test_lists();
	test_changeable();
}

int main(int argc, char **argv)
{
	(void)argc;
	keep_no_chunks(argv);
	do_twice(test_all);
	/* The environment keeps what it was given. */
	test_applied();
	test_files();
	return failures != 0;
}
