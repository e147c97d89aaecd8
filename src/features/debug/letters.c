/* SPDX-License-Identifier: MIT */
/*
 * SLUB_DEBUG, in the grammar of the kernel's slab_debug=:
 *
 *   setting = block { ";" block }
 *   block   = [letters] [ "," name { "," name } ]
 *   letters = any of F Z P U T A O, or "-"; none: F Z P U
 *   name    = of a cache; "*" in it is any text, "?" a character (core/base/glob.h)
 *
 * The first block with a name that matches wins, else the last one without
 * names.
 */
#include "core/base/glob.h"
#include "core/base/word.h"
#include "features/debug/debug.h"

#include <string.h>

struct letter {
	char c;
	uint32_t flag;
};

static const struct letter letters[] = {
	{ 'F', SLUB_CACHE_CONSISTENCY_CHECKS },
	{ 'Z', SLUB_CACHE_RED_ZONE },
	{ 'P', SLUB_CACHE_POISON },
	{ 'U', SLUB_CACHE_STORE_USER },
	{ 'T', SLUB_CACHE_TRACE },
	{ 'A', SLUB_CACHE_FAILSLAB },
	{ 'O', DEBUG_NO_GROWTH },
};

static uint32_t letter_flag(char c)
{
	for (size_t i = 0; i < ARRAY_SIZE(letters); i++) {
		if (letter_lower(letters[i].c) == letter_lower(c))
			return letters[i].flag;
	}
	return 0;
}

static uint32_t parse_letters(const char *s, size_t n)
{
	uint32_t flags = 0;

	if (n == 0)
		return DEBUG_DEFAULT;
	for (size_t i = 0; i < n; i++) {
		if (s[i] == '-')
			return 0;
		flags |= letter_flag(s[i]);
	}
	return flags;
}

/* Is @name in the list behind the letters? */
static bool names_match(const char *s, size_t n, const char *name)
{
	size_t name_length = strlen(name), i = 0;

	while (i < n) {
		size_t length = 0;

		i++;	/* the comma */
		while (i + length < n && s[i + length] != ',')
			length++;
		if (length && glob_matches(s + i, length, name, name_length))
			return true;
		i += length;
	}
	return false;
}

bool debug_letters_named(const char *setting, const char *name,
			 uint32_t *flags)
{
	const char *s = setting;

	for (;;) {
		size_t n = strcspn(s, ";");
		size_t head = strcspn(s, ",;");

		if (head == n) {
			*flags = parse_letters(s, n);
		} else if (names_match(s + head, n - head, name)) {
			*flags = parse_letters(s, head);
			return true;
		}
		if (!s[n])
			return false;
		s += n + 1;
		/* "FZ;" has no second block. */
		if (!*s)
			return false;
	}
}

uint32_t debug_letters_for(const char *setting, const char *name,
			   uint32_t by_default)
{
	uint32_t flags = by_default;

	if (setting)
		debug_letters_named(setting, name, &flags);
	return flags;
}

/* The first character that should be a letter and is none; NULL: none. */
static const char *first_wrong(const char *setting)
{
	const char *s = setting;

	while (s && *s) {
		size_t n = strcspn(s, ";");
		size_t head = strcspn(s, ",;");

		for (size_t i = 0; i < head; i++) {
			if (!letter_flag(s[i]) && s[i] != '-')
				return s + i;
		}
		s += n + (s[n] != '\0');
	}
	return NULL;
}

bool debug_letters_valid(const char *setting)
{
	return !first_wrong(setting);
}

void debug_letters_complain(const char *setting)
{
	const char *wrong = first_wrong(setting);

	if (wrong)
		log_complaint("option debug: '%c' is not one of F Z P U T A O -; "
			    "ignored", *wrong);
}

const char *debug_letters_text(uint32_t flags, char *buf)
{
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(letters); i++) {
		if (flags & letters[i].flag)
			buf[n++] = letters[i].c;
	}
	if (!n)
		buf[n++] = '-';
	buf[n] = '\0';
	return buf;
}
