/* SPDX-License-Identifier: MIT */
/* Patterns of names: the library's and the command's are the same. */
#ifndef SLUB_BASE_GLOB_H
#define SLUB_BASE_GLOB_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Is @name of @name_length characters all that @pattern of @length says?  '*' stands for any
 * text, '?' for one character.  Only the last '*' is tried again, which is enough: what
 * matched before it matched as early as it can.
 */
static inline bool glob_matches(const char *pattern, size_t length,
				const char *name, size_t name_length)
{
	size_t p = 0, n = 0, after_star = 0, retry = 0;

	while (n < name_length) {
		if (p < length && pattern[p] == '*') {
			after_star = ++p;
			retry = n;
		} else if (p < length && (pattern[p] == '?' || pattern[p] == name[n])) {
			p++;
			n++;
		} else if (after_star) {
			p = after_star;
			n = ++retry;
		} else {
			return false;
		}
	}
	while (p < length && pattern[p] == '*')
		p++;
	return p == length;
}

#endif
