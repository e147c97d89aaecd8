/* SPDX-License-Identifier: MIT */
/*
 * The options, read once at start from the environment: SLUB_NAME=value, or
 * several in SLUB_OPTIONS="name=value,name=value".  A single variable wins
 * over SLUB_OPTIONS.  An unknown name or value leaves the default and is
 * reported, unless SLUB_VERBOSE=0 wants no line, with the nearest valid one, or with all
 * that are valid if none is near.  Of an option that is gone the report says what
 * does the same now.
 */
#ifndef SLUB_BASE_OPTION_H
#define SLUB_BASE_OPTION_H

#include "core/base/compiler.h"

enum option_id {
#define OPTION_ENUM(name, ...) OPTION_##name,
#define OPTION_SIZE(name, ...) OPTION_##name,
#define OPTION_TEXT(name, ...) OPTION_##name,
#include "core/base/option.def"
	OPTION_NR,
};

enum option_fastpath {
	FASTPATH_AUTO, FASTPATH_RSEQ, FASTPATH_THREAD, FASTPATH_TID,
	FASTPATH_LOCK,
};

enum option_huge {
	HUGE_NEVER, HUGE_BLOCK, HUGE_ALWAYS, HUGE_AUTO,
};

enum option_mode {
	MODE_BALANCED, MODE_COMPACT, MODE_FAST,
};

enum option_attach {
	ATTACH_AUTO, ATTACH_NO, ATTACH_YES,
};

enum option_on_error {
	ON_ERROR_ABORT, ON_ERROR_REPORT, ON_ERROR_IGNORE,
};

enum option_guard_side {
	GUARD_SIDE_ANY, GUARD_SIDE_FRONT, GUARD_SIDE_BEHIND,
};

enum option_deepbind {
	DEEPBIND_DROP, DEEPBIND_KEEP,
};

enum option_kind {
	KIND_ENUM, KIND_SIZE, KIND_AUTO, KIND_NUMBER, KIND_TEXT, KIND_WORDS
};

struct option_row {
	const char *name;
	enum option_kind kind;
	const char *choices;	/* of KIND_ENUM: "a|b|c" */
	size_t min;
	size_t max;
};
extern const struct option_row option_rows[OPTION_NR] SLUB_INTERNAL;

/* The value of a size for which the word "auto" was given. */
#define OPTION_VALUE_AUTO SIZE_MAX

struct option_state {
	size_t value;
	const char *text;
	bool given;
};
extern struct option_state option_states[OPTION_NR] SLUB_INTERNAL;

/* An enum option's index, a number, or a size in bytes. */
static inline size_t option_value(enum option_id id)
{
	return __atomic_load_n(&option_states[id].value, __ATOMIC_RELAXED);
}

static inline bool option_was_given(enum option_id id)
{
	return __atomic_load_n(&option_states[id].given, __ATOMIC_RELAXED);
}

/* A text option; NULL when it was not given. */
const char *option_text(enum option_id id);

/* What another option makes of @id: as if it had been given, where it was not. */
void option_preset(enum option_id id, size_t value);

/* The option of that name, in letters of either case; OPTION_NR: there is none. */
enum option_id option_find(const char *name, size_t length);

/*
 * A value from now on, while others read it; no text option's.  0, or -EINVAL and nothing is
 * changed.
 */
int option_change(enum option_id id, const char *value);

/* Reads the NULL-terminated @environment, and keeps nothing of it. */
void option_read(char **environment);

/* The nearest valid word, for messages about an option's wrong text. */
#define NEAREST_BYTES 25
/* Of @choices ("a|b|c") the nearest to the @length bytes at @s, in @buf; NULL: none is near. */
const char *option_nearest(const char *choices, const char *s, size_t length,
			   char buf[NEAREST_BYTES]);

#endif
