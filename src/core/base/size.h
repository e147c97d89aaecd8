/* SPDX-License-Identifier: MIT */
/*
 * Sizes that people write: digits, and a unit behind them.  K, KB, Ki and KiB are 1,024 bytes, M,
 * MB, Mi and MiB 1,024 of these, and so on up to T, in letters of either case; B is one byte.
 * PostgreSQL, Docker and Redis read KB and MB so for memory, and a K of 1,024 beside a KB of 1,000
 * would be a trap.  The command uses it too.
 */
#ifndef SLUB_BASE_SIZE_H
#define SLUB_BASE_SIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/word.h"

/* Bits to shift by, with the unit's letters in *@length; -1: it is none. */
static inline int size_unit(const char *unit, size_t left, bool of_bytes, size_t *length)
{
	static const char letters[] = "kmgt";
	size_t n = 0;
	int shift = 0;

	for (int i = 0; left && i < 4; i++) {
		if (letter_lower(unit[0]) == letters[i])
			shift = 10 * (i + 1);
	}
	n += shift != 0;
	if (n && n < left && letter_lower(unit[n]) == 'i')
		n++;
	if (of_bytes && n < left && letter_lower(unit[n]) == 'b')
		n++;
	*length = n;
	return n == left ? shift : -1;
}

/* The @length bytes at @s as a number; @of_bytes: a B may end it.  False: none, or too much. */
static inline bool size_parse(const char *s, size_t length, bool of_bytes, size_t *size)
{
	size_t n = 0, i = 0, unit;
	int shift;

	for (; i < length && s[i] >= '0' && s[i] <= '9'; i++) {
		if (n > (SIZE_MAX - 9) / 10)
			return false;
		n = n * 10 + (size_t)(s[i] - '0');
	}
	shift = i ? size_unit(s + i, length - i, of_bytes, &unit) : -1;
	if (shift < 0 || n > SIZE_MAX >> shift)
		return false;
	*size = n << shift;
	return true;
}

#endif
