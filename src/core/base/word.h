/* SPDX-License-Identifier: MIT */
/* Words that people write: names, and the choices of an option.  The command uses it too. */
#ifndef SLUB_BASE_WORD_H
#define SLUB_BASE_WORD_H

#include <stdbool.h>
#include <stddef.h>

/* Has @name 1 to @length_max printable characters, without blanks? */
static inline bool name_is_valid(const char *name, size_t length_max)
{
	size_t n = 0;

	for (; name && name[n]; n++) {
		if (n == length_max || name[n] <= ' ' || name[n] > '~')
			return false;
	}
	return n > 0;
}

static inline char letter_lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

#define EDIT_LENGTH_MAX 32

static inline size_t edit_least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* The @i-th letter of @a and the @j-th of @b, counted from 1. */
static inline bool edit_is_same(const char *a, size_t i, const char *b, size_t j)
{
	return letter_lower(a[i - 1]) == letter_lower(b[j - 1]);
}

/*
 * Edits (insert, remove, change, swap neighbours) that turn @a into @b, which has up to
 * EDIT_LENGTH_MAX letters, of either case.
 */
static inline size_t edit_distance(const char *a, size_t length_a,
				   const char *b, size_t length_b)
{
	size_t rows[3][EDIT_LENGTH_MAX + 1];
	size_t *before = rows[0], *last = rows[1], *row = rows[2], *unused;

	for (size_t j = 0; j <= length_b; j++)
		last[j] = j;
	for (size_t i = 1; i <= length_a; i++) {
		row[0] = i;
		for (size_t j = 1; j <= length_b; j++) {
			row[j] = edit_least(edit_least(last[j], row[j - 1]) + 1,
					    last[j - 1] + !edit_is_same(a, i, b, j));
			if (i > 1 && j > 1 && edit_is_same(a, i, b, j - 1) &&
			    edit_is_same(a, i - 1, b, j))
				row[j] = edit_least(row[j], before[j - 2] + 1);
		}
		unused = before;
		before = last;
		last = row;
		row = unused;
	}
	return last[length_b];
}

#endif
