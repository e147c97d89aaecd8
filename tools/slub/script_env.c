/* SPDX-License-Identifier: MIT */
/* What env(1) runs for a "#!" line: GNU's options, with -S, assignments, PATH. */
#include "program.h"
#include "script.h"
#include "slub.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NR_WORDS_MAX 64

struct env {
	struct script_step *step;
	char *words[NR_WORDS_MAX];	/* freed at the end */
	size_t nr_words;
	size_t at;
	const char *path;		/* PATH, as what it runs is looked for; NULL: none */
	const char *folder;		/* of -C; NULL: this one */
};

static bool unknown(struct env *env, const char *why)
{
	snprintf(env->step->why, sizeof(env->step->why), "%s", why);
	return false;
}

static bool put_word(struct env *env, size_t at, const char *text)
{
	if (env->nr_words == NR_WORDS_MAX)
		return unknown(env, "env is given too many words");
	memmove(env->words + at + 1, env->words + at,
		(env->nr_words - at) * sizeof(env->words[0]));
	env->words[at] = must_have(strdup(text));
	env->nr_words++;
	return true;
}

/* ---- -S ---- */

struct splitter {
	const char *s;
	char word[PATH_MAX];
	size_t length;
	bool has_word;
	char quote;		/* the open one, or 0 */
	bool is_over;		/* \c, or a comment */
};

static void put_char(struct splitter *splitter, char c)
{
	splitter->has_word = true;
	if (splitter->length < sizeof(splitter->word) - 1)
		splitter->word[splitter->length++] = c;
}

/* Behind a backslash; false: env refuses it. */
static bool put_escape(struct splitter *splitter)
{
	static const char from[] = "fnrtv_#$\"'\\", to[] = "\f\n\r\t\v #$\"'\\";
	char c = *splitter->s++;
	const char *found = c ? strchr(from, c) : NULL;

	if (splitter->quote == '\'') {
		if (c != '\'' && c != '\\')
			put_char(splitter, '\\');
		put_char(splitter, c);
		return c != '\0';
	}
	if (c == 'c' && !splitter->quote) {
		splitter->is_over = true;
		return true;
	}
	if (!found)
		return false;
	put_char(splitter, to[found - from]);
	return true;
}

/* "${NAME}" alone; false: env refuses it. */
static bool put_variable(struct splitter *splitter)
{
	const char *end = strchr(splitter->s, '}'), *value;
	char name[128];

	if (*splitter->s != '{' || !end || (size_t)(end - splitter->s) >= sizeof(name))
		return false;
	snprintf(name, sizeof(name), "%.*s", (int)(end - splitter->s - 1), splitter->s + 1);
	splitter->s = end + 1;
	value = getenv(name);
	splitter->has_word |= value && *value;
	while (value && *value)
		put_char(splitter, *value++);
	return true;
}

static bool put_next(struct splitter *splitter)
{
	char c = *splitter->s++;

	if (c == '\\')
		return put_escape(splitter);
	if (c == '$' && splitter->quote != '\'')
		return put_variable(splitter);
	if (splitter->quote ? c == splitter->quote : c == '"' || c == '\'') {
		splitter->quote = splitter->quote ? 0 : c;
		splitter->has_word = true;
		return true;
	}
	put_char(splitter, c);
	return true;
}

/* The words of @text go in front of those from @at on. */
static bool split(struct env *env, size_t at, const char *text)
{
	struct splitter splitter = { .s = text };

	while (*splitter.s && !splitter.is_over) {
		bool is_blank = !splitter.quote && strchr(" \t\n\v\f\r", *splitter.s);

		if (!splitter.quote && !splitter.has_word && *splitter.s == '#')
			break;
		if (!is_blank && !put_next(&splitter))
			return unknown(env, "env -S refuses the line");
		if (is_blank)
			splitter.s++;
		if (splitter.has_word && (is_blank || !*splitter.s || splitter.is_over)) {
			splitter.word[splitter.length] = '\0';
			if (!put_word(env, at++, splitter.word))
				return false;
			splitter.has_word = false;
			splitter.length = 0;
		}
	}
	return !splitter.quote || unknown(env, "env -S refuses the line");
}

/* ---- options and assignments ---- */

static void forget(struct env *env, const char *name)
{
	if (!strcmp(name, "PATH"))
		env->path = NULL;
	env->step->drops_preload |= !strcmp(name, "LD_PRELOAD");
}

static void forget_all(struct env *env)
{
	env->path = NULL;
	env->step->drops_preload = true;
}

/* What follows an option's letter at @rest, or is the next word; NULL: there is none. */
static const char *value_of(struct env *env, const char *rest)
{
	if (*rest)
		return rest;
	return env->at < env->nr_words ? env->words[env->at++] : NULL;
}

/* "-iS node": @letters behind the dash. */
static bool take_letters(struct env *env, const char *letters)
{
	const char *value;

	for (; *letters; letters++) {
		if (*letters == 'i')
			forget_all(env);
		if (strchr("iv0", *letters))
			continue;
		value = strchr("uCSa", *letters) ? value_of(env, letters + 1) : NULL;
		if (!value)
			return unknown(env, "env is given an option that this command does not "
				       "know");
		if (*letters == 'u')
			forget(env, value);
		else if (*letters == 'C')
			env->folder = value;
		return *letters != 'S' || split(env, env->at, value);
	}
	return true;
}

static bool starts(const char *word, const char *start)
{
	return !strncmp(word, start, strlen(start));
}

static bool take_long(struct env *env, const char *word)
{
	const char *value = strchr(word, '=');

	if (starts(word, "--ignore-environment"))
		forget_all(env);
	else if (starts(word, "--split-string=") && value)
		return split(env, env->at, value + 1);
	else if (starts(word, "--unset=") && value)
		forget(env, value + 1);
	else if (starts(word, "--chdir=") && value)
		env->folder = value + 1;
	else if (!starts(word, "--debug") && !starts(word, "--block-signal") &&
		 !starts(word, "--default-signal") && !starts(word, "--ignore-signal") &&
		 !starts(word, "--list-signal-handling"))
		return unknown(env, "env is given an option that this command does not know");
	return true;
}

static bool take_options(struct env *env)
{
	while (env->at < env->nr_words && env->words[env->at][0] == '-') {
		const char *word = env->words[env->at++];
		bool good = true;

		if (!strcmp(word, "--"))
			return true;
		if (!word[1])
			forget_all(env);
		else if (word[1] == '-')
			good = take_long(env, word);
		else
			good = take_letters(env, word + 1);
		if (!good)
			return false;
	}
	return true;
}

static void take_assignments(struct env *env)
{
	for (; env->at < env->nr_words && strchr(env->words[env->at], '='); env->at++) {
		const char *word = env->words[env->at];

		if (starts(word, "PATH="))
			env->path = word + 5;
		env->step->drops_preload |= starts(word, "LD_PRELOAD=");
	}
}

/* ---- the program ---- */

static int find(struct env *env, const char *name)
{
	struct script_step *step = env->step;
	char *found;
	int error = 0;

	/* As the last word it is the script again. */
	if (env->at + 1 >= env->nr_words) {
		complain("%s: env is given no program%s and would run the script again, without "
			 "end", step->script, strchr(step->argument, ' ') ?
			 " (several words need `env -S`)" : "");
		return -ENOENT;
	}
	if (strchr(name, '/')) {
		bool is_relative = env->folder && *name != '/';

		snprintf(step->next, sizeof(step->next), "%s%s%s",
			 is_relative ? env->folder : "", is_relative ? "/" : "", name);
		error = program_why_not(step->next);
	} else {
		found = program_search(name, env->path, &error);
		snprintf(step->next, sizeof(step->next), "%s", found ? found : "");
		free(found);
	}
	if (!error)
		return 0;
	complain("%s: env finds no program '%s'%s", step->script, name,
		 strchr(name, ' ') ? " (several words need `env -S`)" : "");
	return -ENOENT;
}

/* What stands between the program and the script. */
static void hand_on(struct env *env)
{
	size_t between = env->nr_words - env->at - 2;

	env->step->is_vague = between > 1;
	snprintf(env->step->argument, sizeof(env->step->argument), "%s",
		 between ? env->words[env->at + 1] : "");
}

int script_step_env(struct script_step *step)
{
	struct env env = { .step = step, .path = getenv("PATH") };
	int status = 1;

	snprintf(step->why, sizeof(step->why), "what env is given depends on a shell");
	if (step->is_vague)
		return 1;
	if ((!*step->argument || put_word(&env, 0, step->argument)) &&
	    put_word(&env, env.nr_words, step->script) && take_options(&env)) {
		take_assignments(&env);
		status = find(&env, env.at < env.nr_words ? env.words[env.at] : "");
		if (!status)
			hand_on(&env);
	}
	for (size_t i = 0; i < env.nr_words; i++)
		free(env.words[i]);
	return status;
}
