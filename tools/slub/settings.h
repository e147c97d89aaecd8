/* SPDX-License-Identifier: MIT */
/*
 * The library's options as options of `slub run`: --fastpath=tid becomes
 * SLUB_FASTPATH=tid.  Which there are, and what they take, is read from the
 * library's own table, so that the two cannot differ.
 */
#ifndef SLUB_TOOL_SETTINGS_H
#define SLUB_TOOL_SETTINGS_H

#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>

enum setting {
#define OPTION_ENUM(name, ...) SETTING_##name,
#define OPTION_SIZE(name, ...) SETTING_##name,
#define OPTION_TEXT(name, ...) SETTING_##name,
/* Takes no place of its own: the next one's number is that of the first for experts. */
#define OPTION_EXPERTS FIRST_EXPERT_SETTING, BEFORE_EXPERTS = FIRST_EXPERT_SETTING - 1,
#define OPTION_FOR_TESTS FIRST_TEST_SETTING, BEFORE_TESTS = FIRST_TEST_SETTING - 1,
#include "core/base/option.def"
	NR_SETTINGS
};

/* Those that are gone follow: as options they are only refused. */
enum gone_setting {
	BEFORE_GONE_SETTINGS = NR_SETTINGS - 1,
#define OPTION_GONE(name, instead) GONE_##name,
#include "core/base/option.def"
	NR_KNOWN_SETTINGS
};

/* Writes NR_KNOWN_SETTINGS entries for getopt_long(); `val` is @first + setting. */
void settings_options(struct option *options, int first);

#define SETTING_WHY 512
/* Does the library take @value for it?  False: @why says why not, and names no option. */
bool setting_takes(enum setting setting, const char *value, char why[SETTING_WHY]);
/* The one of that name, in letters of either case; NR_SETTINGS: @why says what to do. */
enum setting setting_named(const char *name, char why[SETTING_WHY]);
/* As setting_named(), with a message. */
enum setting setting_find(const char *command, const char *name);
/* Can slub_option_set() change it, and to that value?  False after a message. */
bool setting_may_become(const char *command, enum setting setting, const char *value);
/* Names of those that may change, in lines that begin with @indent. */
void settings_print_changeable(FILE *to, const char *indent);

/* Puts the setting into the environment; false after a message. */
bool setting_apply(enum setting setting, const char *value);

/* What an option may be, "" for anything, and what it does; by its name. */
const char *setting_range(const char *name, char *buf, size_t size);
const char *setting_sentence(const char *name);

/* The variables, their defaults, ranges and meanings, a line each; @all: the experts' too. */
void settings_print_variables(FILE *to, bool all);
/* Is that option, by its name, one for experts? */
bool setting_is_for_experts(const char *name);

/* One line of help for each that is not for experts. */
void settings_print(FILE *to);

#endif
