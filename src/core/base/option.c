/* SPDX-License-Identifier: MIT */
#include "core/base/option.h"

#include <errno.h>
#include <string.h>

#include "core/base/bits.h"
#include "core/base/log.h"
#include "core/base/size.h"
#include "core/base/word.h"

#define PREFIX "SLUB_"
#define PREFIX_LENGTH 5
#define NAME_LENGTH_MAX (NEAREST_BYTES - 1)
#define TEXT_LENGTH_MAX 511

const struct option_row option_rows[OPTION_NR] = {
#define OPTION_ENUM(name, value, choices, sentence) \
	{ #name, KIND_ENUM, choices, 0, 0 },
#define OPTION_SIZE(name, value, min, max, sentence) \
	{ #name, KIND_SIZE, "", min, max },
#define OPTION_AUTO(name, value, min, max, sentence) \
	{ #name, KIND_AUTO, "", min, max },
#define OPTION_NUMBER(name, value, min, max, sentence) \
	{ #name, KIND_NUMBER, "", min, max },
#define OPTION_TEXT(name, sentence) \
	{ #name, KIND_TEXT, "", 0, 0 },
#define OPTION_WORDS(name, form, sentence) \
	{ #name, KIND_WORDS, "", 0, 0 },
#include "core/base/option.def"
};

struct option_state option_states[OPTION_NR] = {
#define OPTION_ENUM(name, value, ...) { value, NULL, false },
#define OPTION_SIZE(name, value, ...) { value, NULL, false },
#define OPTION_TEXT(name, ...) { 0, NULL, false },
#include "core/base/option.def"
};

/* A piece of somebody else's string. */
struct word {
	const char *start;
	size_t length;
};

static struct word word_of(const char *text)
{
	return (struct word){ text, strlen(text) };
}

const char *option_text(enum option_id id)
{
	return option_states[id].text;
}

void option_preset(enum option_id id, size_t value)
{
	if (option_states[id].given)
		return;
	option_states[id].value = value;
	option_states[id].given = true;
}

static bool word_is(struct word word, struct word other)
{
	if (word.length != other.length)
		return false;
	for (size_t i = 0; i < word.length; i++) {
		if (letter_lower(word.start[i]) != letter_lower(other.start[i]))
			return false;
	}
	return true;
}

/* Steps through "a|b|c"; returns false at the end. */
static bool next_choice(const char **choices, struct word *choice)
{
	const char *c = *choices;

	if (!*c)
		return false;
	choice->start = c;
	while (*c && *c != '|')
		c++;
	choice->length = (size_t)(c - choice->start);
	*choices = *c ? c + 1 : c;
	return true;
}

static cold int find_choice(const char *choices, struct word value)
{
	struct word choice;
	int index = 0;

	for (; next_choice(&choices, &choice); index++) {
		if (word_is(choice, value))
			return index;
	}
	return -1;
}

/* Messages take terminated strings only. */
static const char *terminated(struct word word, char *buf)
{
	size_t n = min_size(word.length, NAME_LENGTH_MAX);

	memcpy(buf, word.start, n);
	buf[n] = '\0';
	return buf;
}

/*
 * One edit for each three letters is near: "tdi" is tid, "lokc" is lock, and "on"
 * or "nonsense" nothing.
 */
cold const char *option_nearest(const char *choices, const char *s, size_t length,
			   char buf[NEAREST_BYTES])
{
	size_t best_distance = (length + 1) / 3 + 1;
	struct word choice, best = { NULL, 0 };

	while (length <= 2 * NAME_LENGTH_MAX && next_choice(&choices, &choice)) {
		size_t d = choice.length <= NAME_LENGTH_MAX ?
			   edit_distance(s, length, choice.start, choice.length) :
			   SIZE_MAX;

		if (d < best_distance) {
			best_distance = d;
			best = choice;
		}
	}
	return best.length ? terminated(best, buf) : NULL;
}

/* Zero is every size's way to say "none" or "choose yourself". */
static cold void complain_value(const struct option_row *row, struct word value)
{
	char given[NAME_LENGTH_MAX + 1], buf[NAME_LENGTH_MAX + 1];
	const char *near = option_nearest(row->choices, value.start,
					  value.length, buf);
	const char *zero = row->min > 1 ? " 0, or" : "";
	size_t min = row->min > 1 ? row->min : 0;

	terminated(value, given);
	if (row->kind == KIND_ENUM)
		log_complaint("option %s: '%s' is not one of %s%s%s%s; using the "
			    "default", row->name, given, row->choices,
			    near ? "; nearest is '" : "", near ? near : "",
			    near ? "'" : "");
	else if (row->kind == KIND_NUMBER)
		log_complaint("option %s: '%s' is not%s a number from %zu to %zu; "
			    "using the default", row->name, given, zero, min,
			    row->max);
	else
		log_complaint("option %s: '%s' is not%s%s a number of bytes from "
			    "%zu to %zu (with K, M, G or T behind it, as in "
			    "64M or 64MiB); using the default", row->name, given,
			    row->kind == KIND_AUTO ? " 'auto'," : "", zero, min,
			    row->max);
}

/*
 * A copy, for within SLUB_OPTIONS the text does not end at a NUL.  The beginning
 * of a longer one would be another file's name, and an empty one is no file's;
 * SLUB_DEBUG= means something.
 */
static bool keep_text(enum option_id id, struct word value)
{
	static char kept[OPTION_NR][TEXT_LENGTH_MAX + 1] rarely_touched;

	if (value.length > TEXT_LENGTH_MAX) {
		log_complaint("option %s: longer than %d bytes; ignored",
			    option_rows[id].name, TEXT_LENGTH_MAX);
		return false;
	}
	memcpy(kept[id], value.start, value.length);
	kept[id][value.length] = '\0';
	option_states[id].text = value.length || option_rows[id].kind == KIND_WORDS ?
			  kept[id] : NULL;
	return true;
}

/* What @value says for an option that is no text. */
static cold bool parse_value(const struct option_row *row, struct word value,
			size_t *number)
{
	if (row->kind == KIND_ENUM) {
		int choice = find_choice(row->choices, value);

		*number = (size_t)choice;
		return choice >= 0;
	}
	if (row->kind == KIND_AUTO && word_is(value, word_of("auto"))) {
		*number = OPTION_VALUE_AUTO;
		return true;
	}
	return size_parse(value.start, value.length, row->kind != KIND_NUMBER, number) &&
	       (!*number || (*number >= row->min && *number <= row->max));
}

static void option_set(enum option_id id, struct word value)
{
	const struct option_row *row = &option_rows[id];
	struct option_state *state = &option_states[id];
	size_t number;

	if (row->kind == KIND_TEXT || row->kind == KIND_WORDS) {
		if (!keep_text(id, value))
			return;
	} else if (!parse_value(row, value, &number)) {
		complain_value(row, value);
		return;
	} else {
		state->value = number;
	}
	state->given = true;
}

static cold bool complain_gone(struct word name)
{
	static const struct {
		const char *name, *instead;
	} gone[] = {
#define OPTION_GONE(name, instead) { #name, instead },
#include "core/base/option.def"
	};

	for (size_t i = 0; i < ARRAY_SIZE(gone); i++) {
		if (!word_is(name, word_of(gone[i].name)))
			continue;
		log_complaint("option '%s' is gone and ignored; use %s", gone[i].name,
			    gone[i].instead);
		return true;
	}
	return false;
}

static cold void complain_name(struct word name)
{
	/* With a '|' in front of the first as well; those for tests are behind its end. */
	static const char names[] =
#define OPTION_FOR_TESTS "\0"
#define OPTION_ENUM(name, ...) "|" #name
#define OPTION_SIZE(name, ...) "|" #name
#define OPTION_TEXT(name, ...) "|" #name
#include "core/base/option.def"
		;
	char given[NAME_LENGTH_MAX + 1];
	char buf[NAME_LENGTH_MAX + 1];
	const char *near;

	if (complain_gone(name))
		return;
	near = option_nearest(names + 1, name.start, name.length, buf);
	log_complaint("unknown option '%s' ignored; %s%s%s",
		    terminated(name, given), near ? "nearest is '" : "it is none of ",
		    near ? near : names + 1, near ? "'" : "");
}

cold enum option_id option_find(const char *name, size_t length)
{
	int i = 0;

	for (; i < OPTION_NR; i++) {
		if (word_is((struct word){ name, length }, word_of(option_rows[i].name)))
			break;
	}
	return (enum option_id)i;
}

cold int option_change(enum option_id id, const char *value)
{
	size_t number;

	if (!parse_value(&option_rows[id], word_of(value), &number))
		return -EINVAL;
	__atomic_store_n(&option_states[id].value, number, __ATOMIC_RELAXED);
	__atomic_store_n(&option_states[id].given, true, __ATOMIC_RELAXED);
	return 0;
}

/* Splits "name=value" of @length; false when there is no '='. */
static bool split(const char *s, size_t length, struct word *name,
		  struct word *value)
{
	const char *eq = memchr(s, '=', length);

	if (!eq)
		return false;
	*name = (struct word){ s, (size_t)(eq - s) };
	*value = (struct word){ eq + 1, length - name->length - 1 };
	return true;
}

static cold void read_item(struct word item)
{
	struct word name = item, value;
	enum option_id id = OPTION_NR;

	if (split(item.start, item.length, &name, &value))
		id = option_find(name.start, name.length);
	if (id == OPTION_NR)
		complain_name(name);
	else
		option_set(id, value);
}

static void read_list(struct word list)
{
	const char *s = list.start;
	const char *end = list.start + list.length;

	while (s < end) {
		const char *comma = memchr(s, ',', (size_t)(end - s));
		const char *stop = comma ? comma : end;

		read_item((struct word){ s, (size_t)(stop - s) });
		s = stop + 1;
	}
}

/* Of the command, of tests and of benchmarks, or of a build; a '*' ends the beginning of a name. */
static cold bool is_of_others(struct word name)
{
	static const char *const others[] = {
#define OPTION_OF_OTHERS(name) name,
#include "core/base/option.def"
	};

	if (option_find(name.start, name.length) < OPTION_NR)
		return false;	/* SLUB_TEST_CPUS and the like */
	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		struct word other = word_of(others[i]);
		bool is_beginning = other.start[other.length - 1] == '*';

		other.length -= is_beginning;
		if (is_beginning && name.length >= other.length &&
		    word_is((struct word){ name.start, other.length }, other))
			return true;
		if (!is_beginning && word_is(name, other))
			return true;
	}
	return false;
}

/* SLUB_OPTIONS, or a variable of one option. */
static void read_variable(const char *s, bool is_list)
{
	struct word name, value;

	if (strncmp(s, PREFIX, PREFIX_LENGTH) != 0)
		return;
	s += PREFIX_LENGTH;
	if (!split(s, strlen(s), &name, &value) || is_of_others(name) ||
	    word_is(name, word_of("options")) != is_list)
		return;
	/* "VARIABLE= command" is how a shell, a unit file or a compose file clears it. */
	if (!value.length)
		return;
	if (is_list)
		read_list(value);
	else
		read_item(word_of(s));
}

/*
 * A single variable comes after SLUB_OPTIONS, so it wins.  The end decides whether what is not
 * understood is told: so all is read once more, to complain.
 *
 * That is told always, for a limit that is not in force is worse than a line on stderr: by each
 * program that finds it in its environment, as the loader does for what it cannot preload.  A
 * child by fork has read nothing and says nothing.  SLUB_VERBOSE=0 is how to want no line.  A
 * set-user-ID program does not come here: its stderr is not its user's to write to.
 */
void option_read(char **environment)
{
	log_enable(false);
	log_complain(false);
	for (int pass = 0; pass < 4; pass++) {
		for (char **e = environment; e && *e; e++)
			read_variable(*e, pass % 2 == 0);
		if (pass != 1)
			continue;
		log_complain(!option_was_given(OPTION_verbose) ||
			     option_value(OPTION_verbose) == 1);
	}
	log_enable(option_value(OPTION_verbose) == 1);
}
