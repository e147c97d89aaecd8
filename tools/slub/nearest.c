/* SPDX-License-Identifier: MIT */
/* The word that a mistyped one was probably meant to be. */
#include "core/base/word.h"
#include "slub.h"

#include <string.h>

const char *nearest_word(const char *word, const char *const *words,
			 size_t nr_words)
{
	size_t length = strlen(word);
	/* One edit for each two letters: "rn" is run, "x" is nothing. */
	size_t best = length / 2 + 1;
	const char *found = NULL;

	if (length > EDIT_LENGTH_MAX)
		return NULL;
	for (size_t i = 0; i < nr_words; i++) {
		size_t edits, other = strlen(words[i]);

		if (other > EDIT_LENGTH_MAX)
			continue;
		edits = edit_distance(word, length, words[i], other);
		if (edits < best) {
			best = edits;
			found = words[i];
		}
	}
	return found;
}
