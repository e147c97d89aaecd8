/* SPDX-License-Identifier: MIT */
/* The word that a mistyped one was probably meant to be. */
#include "slub.h"

#include <string.h>

#define WORD_LENGTH_MAX 32

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Edits (insert, remove, change, swap neighbours) that turn @a into @b. */
static size_t distance(const char *a, const char *b)
{
	size_t rows[3][WORD_LENGTH_MAX + 1];
	size_t *before = rows[0], *last = rows[1], *row = rows[2], *unused;
	size_t length_a = strlen(a), length_b = strlen(b);

	for (size_t j = 0; j <= length_b; j++)
		last[j] = j;
	for (size_t i = 1; i <= length_a; i++) {
		row[0] = i;
		for (size_t j = 1; j <= length_b; j++) {
			row[j] = least(last[j], row[j - 1]) + 1;
			row[j] = least(row[j],
				       last[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] &&
			    a[i - 2] == b[j - 1])
				row[j] = least(row[j], before[j - 2] + 1);
		}
		unused = before;
		before = last;
		last = row;
		row = unused;
	}
	return last[length_b];
}

const char *nearest_word(const char *word, const char *const *words,
			 size_t nr_words)
{
	size_t length = strlen(word);
	/* One edit for each two letters: "rn" is run, "x" is nothing. */
	size_t best = length / 2 + 1;
	const char *found = NULL;

	if (length > WORD_LENGTH_MAX)
		return NULL;
	for (size_t i = 0; i < nr_words; i++) {
		size_t edits;

		if (strlen(words[i]) > WORD_LENGTH_MAX)
			continue;
		edits = distance(word, words[i]);
		if (edits < best) {
			best = edits;
			found = words[i];
		}
	}
	return found;
}
